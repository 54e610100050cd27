"""Images of a folder tree: decoded once, kept, and told when they cannot be."""

import io
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from equipoise.data import ImageFolderEnvironments, fingerprint_data, images, open_dataset
from equipoise.data.images import decode_image
from tests.data.image_tree import write_broken_images, write_image_tree

SITES, CLASSES = ("night", "day"), ("cat", "dog")


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    write_image_tree(root, SITES, CLASSES, 3, seed=1, size=16, suffix=".png")
    return root


@pytest.fixture
def open_tree(tree, tmp_path):
    """Open the tree with a cache of this test's own."""
    return lambda **settings: ImageFolderEnvironments(
        tree, **{"image_size": 16, "cache": tmp_path / "cache", **settings}
    )


@pytest.fixture
def decoded(monkeypatch):
    """Contents that were decoded, one entry for each time."""
    seen, plain = [], images.decode_image
    monkeypatch.setattr(
        images,
        "decode_image",
        lambda content, size: seen.append(content) or plain(content, size),
    )
    return seen


def test_labels_environments_and_pixels_are_those_of_the_files(tree, open_tree):
    data = open_tree()
    assert data.label_names == CLASSES
    assert data.environment_names == ("day", "night")  # sorted
    for place, path in enumerate(data.paths):
        site, name, _ = path.split("/")
        assert data.environment_names[data.environments[place]] == site
        assert data.label_names[data.labels[place]] == name
        pixels = np.asarray(Image.open(tree / path)).transpose(2, 0, 1)
        assert torch.equal(
            data.fetch(np.array([place]))[0], torch.from_numpy(pixels.copy()).float() / 255
        )


def test_the_second_use_decodes_nothing(open_tree, decoded):
    first = open_tree()
    assert len(decoded) == len(first) == 12
    again = open_tree()
    again.fetch(np.arange(12))
    assert len(decoded) == 12
    assert torch.equal(first.fetch(np.arange(12)), again.fetch(np.arange(12)))


def test_only_new_content_is_decoded_and_equal_content_once(tree, open_tree, decoded):
    open_tree()
    (tree / "day" / "cat" / "0000.png").rename(tree / "day" / "dog" / "moved.png")
    copy = (tree / "day" / "dog" / "0001.png").read_bytes()
    (tree / "night" / "dog" / "copy.png").write_bytes(copy)
    Image.new("RGB", (4, 4), "red").save(tree / "night" / "cat" / "new.png")
    data = open_tree()
    assert len(data) == 14
    assert len(decoded) == 13
    open_tree(image_size=8)
    assert len(decoded) == 13 + 13  # another size; the copy is decoded once


def test_an_interrupted_caching_goes_on_where_it_stopped(open_tree, monkeypatch, decoded):
    monkeypatch.setattr(images, "BLOCK_BYTES", 4 * 3 * 16 * 16)  # four images a block
    plain = images.RowStore.add
    blocks = []

    def add(self, digests, rows):
        if len(blocks) == 2:
            raise KeyboardInterrupt
        blocks.append(len(digests))
        plain(self, digests, rows)

    monkeypatch.setattr(images.RowStore, "add", add)
    with pytest.raises(KeyboardInterrupt):
        open_tree()
    monkeypatch.setattr(images.RowStore, "add", plain)
    decoded.clear()
    resumed = open_tree()
    assert len(decoded) == 4
    whole = open_tree(cache=resumed._store.path.parent.parent.parent / "other")
    assert torch.equal(resumed.fetch(np.arange(12)), whole.fetch(np.arange(12)))


def test_broken_images_are_all_named_and_fatal(tree, open_tree):
    write_broken_images(tree / "day" / "cat")
    with pytest.raises(ValueError, match="3 of 15 images") as told:
        open_tree()
    for part in (
        "day/cat/cut.jpg (image file is truncated",
        "text.jpg (not an image)",
        "(an empty",
    ):
        assert part in str(told.value)


def test_broken_images_are_left_out_where_asked(tree, open_tree):
    names = write_broken_images(tree / "day" / "cat")
    with pytest.warns(UserWarning, match=r"3 of 15 images .* They are left out"):
        data = open_tree(on_broken="skip")
    assert len(data) == 12
    assert {broken.path for broken in data.skipped} == {f"day/cat/{name}" for name in names}
    assert not any("cut" in path for path in data.paths)


def test_files_that_are_no_images_are_left_out_and_named(tree, open_tree):
    (tree / "day" / "cat" / "notes.txt").write_text("nice cats")
    (tree / "day" / "cat" / ".DS_Store").write_text("hidden")
    (tree / "readme.md").write_text("about")
    Image.new("RGB", (4, 4)).save(tree / "day" / "loose.png")
    with pytest.warns(UserWarning, match="left out") as told:
        data = open_tree()
    assert len(data) == 12
    text = " ".join(str(one.message) for one in told)
    assert "notes.txt" in text
    assert "readme.md" in text
    assert "day/loose.png" in text
    assert ".DS_Store" not in text


def test_a_class_without_images_is_no_label_and_one_missing_here_stays(tree, open_tree):
    (tree / "day" / "bird").mkdir()
    for path in (tree / "night" / "dog").iterdir():
        path.unlink()
    with pytest.warns(UserWarning, match="classes without images .*bird"):
        data = open_tree()
    assert data.label_names == CLASSES
    night = data.environments == data.environment_names.index("night")
    assert set(data.labels[night]) == {0}


def test_a_tree_without_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no directory"):
        ImageFolderEnvironments(tmp_path / "root", cache=tmp_path / "c")
    (tmp_path / "root" / "site" / "class").mkdir(parents=True)
    with pytest.raises(ValueError, match="holds no images as"):
        ImageFolderEnvironments(tmp_path / "root", cache=tmp_path / "c")


def test_images_one_level_too_high_are_told(tmp_path):
    write_image_tree(tmp_path / "root", ("x",), ("y",), 1)
    with pytest.raises(ValueError, match=r"images lie outside class folders, such as y/0000\.jpg"):
        ImageFolderEnvironments(tmp_path / "root" / "x", cache=tmp_path / "c")


@pytest.mark.parametrize("size", [0, (3,), (3, 4.0), "32"])
def test_an_impossible_size_is_refused(open_tree, size):
    with pytest.raises(ValueError, match="image_size must be"):
        open_tree(image_size=size)


def test_a_second_process_waits_for_the_first_and_decodes_nothing(open_tree, decoded):
    """Two threads, each with a lock of its own, as two processes would have."""
    with ThreadPoolExecutor(2) as pool:
        both = [job.result() for job in [pool.submit(open_tree) for _ in range(2)]]
    assert len(decoded) == 12
    assert torch.equal(both[0].fetch(np.arange(12)), both[1].fetch(np.arange(12)))


def test_columns_say_nothing_about_images(tree):
    with pytest.raises(ValueError, match=r"label says nothing about .* a folder tree of images"):
        open_dataset(tree, label="class")


def test_a_misspelt_on_broken_is_refused(open_tree):
    with pytest.raises(ValueError, match="Did you mean 'skip'"):
        open_tree(on_broken="skp")


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
def test_every_usual_kind_of_pixels_becomes_rgb(mode):
    content = io.BytesIO()
    Image.new("RGB", (10, 20), "white").convert(mode).save(
        content, "TIFF" if mode == "CMYK" else "PNG"
    )
    pixels = decode_image(content.getvalue(), (6, 4))
    assert pixels.shape == (3, 6, 4)
    assert pixels.min() > 250


def test_deep_pixels_are_refused_and_not_clipped():
    content = io.BytesIO()
    Image.fromarray(np.full((4, 4), 60_000, dtype=np.uint16)).save(content, "PNG")
    with pytest.raises(ValueError, match="not 8 bits deep"):
        decode_image(content.getvalue(), (4, 4))


def test_a_worker_process_gets_no_copy_of_the_pixels(open_tree):
    data = open_tree()
    data.fetch(np.arange(12))
    packed = pickle.dumps(data)
    assert len(packed) < 12 * 3 * 16 * 16
    assert torch.equal(pickle.loads(packed).fetch(np.array([5])), data.fetch(np.array([5])))


def test_runs_tell_changed_images_from_the_same_ones(tree, open_tree):
    data = open_tree()
    assert fingerprint_data(open_tree()) == fingerprint_data(data)
    assert fingerprint_data(open_tree(image_size=8)) != fingerprint_data(data)
    part = data.subset([3, 1])
    assert part.identify(np.array([0])) == data.identify(np.array([3]))
    Image.new("RGB", (16, 16)).save(tree / "day" / "cat" / "0000.png")
    assert fingerprint_data(open_tree()) != fingerprint_data(data)


def test_images_that_do_not_fit_the_disk_are_told_before_decoding(open_tree, monkeypatch, decoded):
    monkeypatch.setattr(images.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 10}))
    with pytest.raises(OSError, match="EQUIPOISE_CACHE"):
        open_tree()
    assert not decoded


def test_a_pipe_and_a_device_called_image_are_no_images(tree, open_tree):
    os.mkfifo(tree / "day" / "cat" / "pipe.png")
    (tree / "day" / "cat" / "null.png").symlink_to("/dev/zero")
    with pytest.warns(UserWarning, match=r"no images in .*: day/cat/null.png, day/cat/pipe.png"):
        assert len(open_tree()) == 12


def test_a_folder_linked_into_itself_is_read_once(tree, open_tree):
    (tree / "day" / "again").symlink_to(tree / "day")
    (tree / "all").symlink_to(tree)
    (tree / "day" / "cat" / "deeper").symlink_to(tree)
    with pytest.warns(UserWarning, match="was already read"):
        data = open_tree()
    assert len(data) == 12
    assert data.label_names == CLASSES


class TestManifest:
    """A table that names images is a dataset of images."""

    @pytest.fixture
    def manifest(self, tree):
        files = sorted(tree.rglob("*.png"))
        table = pd.DataFrame(
            {
                "file": [path.relative_to(tree).as_posix() for path in files],
                "animal": [path.parts[-2] for path in files],
                "time": [path.parts[-3] for path in files],
                "camera": range(len(files)),
            }
        )
        table.to_csv(tree / "photos.csv", index=False)
        return tree / "photos.csv"

    NAMES: ClassVar = {"path": "file", "label": "animal", "environment": "time", "image_size": 16}

    def test_it_holds_the_images_of_the_tree(self, manifest, open_tree, tmp_path):
        data = open_dataset(manifest, cache=tmp_path / "cache", **self.NAMES)
        with pytest.warns(UserWarning, match="photos.csv"):
            tree = open_tree()
        assert data.label_names == tree.label_names
        assert data.paths == tree.paths
        assert data.environments.tolist() == tree.environments.tolist()
        rows = np.arange(12)
        assert torch.equal(data.fetch(rows), tree.fetch(rows))
        assert data.columns["camera"].tolist() == list(range(12))

    def test_what_is_wrong_in_it_is_named(self, manifest, tree, tmp_path):
        table = pd.read_csv(manifest)
        os.mkfifo(tree / "pipe.png")
        for name, reason in (("gone.png", "No such file"), ("pipe.png", "regular file")):
            table.assign(file=[name, *table["file"][1:]]).to_csv(manifest, index=False)
            with pytest.raises(ValueError, match=rf"1 of 12 images .*{name} .*{reason}"):
                open_dataset(manifest, cache=tmp_path / "cache", **self.NAMES)
        with pytest.warns(UserWarning, match="left out"):
            data = open_dataset(manifest, cache=tmp_path / "cache", on_broken="skip", **self.NAMES)
        assert len(data) == 11
        assert data.columns["camera"].tolist() == list(range(1, 12))

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"path": "fil"}, "Did you mean 'file'"),
            ({"label": "file"}, "three columns"),
            ({"features": ["camera"]}, "features says nothing about"),
        ],
    )
    def test_columns_that_cannot_be_are_refused(self, manifest, change, message):
        with pytest.raises(ValueError, match=message):
            open_dataset(manifest, **{**self.NAMES, **change})
