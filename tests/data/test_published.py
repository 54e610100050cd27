"""Digits coloured and turned: the correlations are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equipoise.data import get_dataset, list_datasets
from equipoise.data.published import (
    ColoredMNIST,
    ColoredMNIST10,
    RotatedMNIST,
    get_image_benchmark,
    list_image_benchmarks,
    rotate_images,
)
from tests.data.image_tree import write_image_tree

pytestmark = pytest.mark.usefixtures("fake_mnist")


@pytest.mark.parametrize("kind", [ColoredMNIST, ColoredMNIST10])
def test_environment_e_gives_the_labels_colour_with_probability_one_minus_e(kind):
    data = kind(environments=(0.1, 0.9))
    for position, e in enumerate((0.1, 0.9)):
        here = data.environments == position
        share = (data.covariate == data.labels)[here].mean()
        assert abs(share - (1 - e)) < 4 * np.sqrt(e * (1 - e) / here.sum())


def test_other_colours_are_equally_likely_so_e_09_makes_colour_independent_of_ten_labels():
    data = ColoredMNIST10(environments=(0.9, 0.9))
    counts = np.bincount((data.covariate - data.labels) % 10, minlength=10)
    assert np.abs(counts - 70).max() < 5 * np.sqrt(70)


def test_a_quarter_of_the_labels_is_wrong_and_never_by_chance_right():
    noisy, clean = ColoredMNIST10(), ColoredMNIST10(label_noise=0.0)
    wrong = (noisy.labels != clean.labels).mean()
    assert abs(wrong - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 700)
    assert (ColoredMNIST10(label_noise=1.0).labels != clean.labels).all()


def test_label_of_colored_mnist_says_whether_the_digit_is_below_five():
    two = ColoredMNIST(label_noise=0.0)
    ten = ColoredMNIST10(label_noise=0.0)
    assert (two.labels == (ten.labels < 5)).all()


def test_only_the_colours_channel_is_lit():
    data = ColoredMNIST10()
    images, _ = data[np.arange(50)]
    lit = images.flatten(2).sum(-1) > 0
    assert (lit.sum(1) == 1).all()
    assert (lit.float().argmax(1).numpy() == data.covariate[:50]).all()
    assert images.max() <= 1.0


def test_a_batch_is_the_stack_of_its_items():
    data = ColoredMNIST()
    images, labels = data[[3, 1, 4]]
    one_by_one = [data[i] for i in (3, 1, 4)]
    assert torch.equal(images, torch.stack([x for x, _ in one_by_one]))
    assert labels.tolist() == [y for _, y in one_by_one]


def test_the_deal_depends_on_the_data_seed_alone():
    first, again, other = ColoredMNIST(), ColoredMNIST(), ColoredMNIST(data_seed=1)
    assert (first.labels == again.labels).all()
    assert torch.equal(first[[0]][0], again[[0]][0])
    assert (first.labels != other.labels).any()


def test_an_impossible_environment_is_refused():
    with pytest.raises(ValueError, match=r"1\.5"):
        ColoredMNIST(environments=(0.1, 1.5))


def test_a_quarter_turn_is_the_exact_quarter_turn():
    images = np.random.default_rng(0).integers(0, 256, size=(3, 28, 28), dtype=np.uint8)
    assert np.array_equal(rotate_images(images, 90), np.rot90(images, axes=(1, 2)))


def test_rotation_agrees_with_an_independent_bilinear_rotation():
    from scipy.ndimage import rotate

    yy, xx = np.mgrid[:28, :28]
    blob = (255 * np.exp(-((xx - 17) ** 2 + (yy - 11) ** 2) / 8)).astype(np.uint8)
    ours = rotate_images(blob[None], 30)[0].astype(float)
    theirs = rotate(blob.astype(float), 30, reshape=False, order=1)
    assert np.abs(ours - theirs).max() <= 1.0
    assert ours.sum() > 0.95 * blob.sum()


@pytest.mark.usefixtures("fake_mnist")
def test_every_environment_has_its_angle_and_the_first_is_upright():
    data = RotatedMNIST()
    assert data.environment_names == ("0", "15", "30", "45", "60", "75")
    plain = RotatedMNIST(environments=(0,) * 6)
    upright = np.flatnonzero(data.environments == 0)
    assert (data.fetch(upright) == plain.fetch(upright)).all()
    turned = np.flatnonzero(data.environments == 3)
    assert (data.fetch(turned) != plain.fetch(turned)).any()


# Examples, environments and classes as the paper's appendix gives them.
PUBLISHED = {
    "PACS": (9_991, 4, 7),
    "VLCS": (10_729, 4, 5),
    "OfficeHome": (15_588, 4, 65),
    "TerraIncognita": (24_788, 4, 10),
    "DomainNet": (586_575, 6, 345),
}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("EQUIPOISE_DATA", raising=False)


@pytest.mark.parametrize(("name", "size"), PUBLISHED.items())
def test_every_set_has_the_published_size_and_is_known_by_name(name, size):
    benchmark = get_image_benchmark(name)
    n_images, n_environments, n_classes = size
    assert sum(benchmark.counts[0].values()) == n_images
    assert all(tuple(edition) == benchmark.environment_names for edition in benchmark.counts)
    assert len(benchmark.environment_names) == n_environments
    assert len(set(benchmark.classes)) == len(benchmark.classes) == n_classes
    assert list(benchmark.classes) == sorted(benchmark.classes)
    assert name in list_datasets()


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_set_opens_from_its_layout_with_the_published_names(name, tmp_path):
    benchmark = get_image_benchmark(name)
    folder = tmp_path / benchmark.folders[0]
    write_image_tree(folder, benchmark.environment_names, benchmark.classes[-3:], 1, size=4)
    with pytest.warns(UserWarning, match="classes without images"):
        data = get_dataset(name, data_dir=tmp_path, image_size=4)
    assert data.environment_names == benchmark.environment_names
    assert data.label_names == benchmark.classes
    assert set(data.labels) == set(range(len(benchmark.classes) - 3, len(benchmark.classes)))
    assert type(data).__name__ == name


def test_it_is_found_in_the_directory_itself_and_by_the_variable(tmp_path, monkeypatch):
    write_image_tree(tmp_path / "here", per_class=1, size=4)
    assert len(get_dataset("PACS", data_dir=tmp_path / "here", image_size=4)) == 28
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path / "here"))
    assert len(get_dataset("PACS", image_size=4)) == 28


def test_copies_may_spell_folders_in_their_own_way(tmp_path):
    names = ("Art_Painting", "CARTOON", "photo", "sketch")
    write_image_tree(tmp_path, names, ("Dog", "person"), 1, size=4)
    with pytest.warns(UserWarning, match="without images"):
        data = get_dataset("PACS", data_dir=tmp_path, image_size=4)
    assert data.environment_names[0] == "art_painting"
    assert np.bincount(data.labels).tolist() == [4, 0, 0, 0, 0, 0, 4]


def test_unknown_folders_are_left_out_and_named(tmp_path):
    write_image_tree(tmp_path, per_class=1, size=4)
    write_image_tree(tmp_path, ("photo",), ("cat",), 1, size=4)
    write_image_tree(tmp_path, ("watercolour",), ("dog",), 1, size=4)
    with pytest.warns(UserWarning, match="unknown folders .*watercolour, photo/cat"):
        assert len(get_dataset("PACS", data_dir=tmp_path, image_size=4)) == 28


def test_where_to_put_files_is_said_when_they_are_missing(tmp_path):
    with pytest.raises(ValueError, match=r"DIR/PACS/<environment>/<class>.*EQUIPOISE_DATA"):
        get_dataset("PACS")
    with pytest.raises(ValueError, match=r"VLCS is not in .*Caltech101, LabelMe"):
        get_dataset("VLCS", data_dir=tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        get_dataset("VLCS", data_dir=tmp_path / "nothing")


def test_a_missing_environment_is_named(tmp_path):
    write_image_tree(tmp_path, ("photo", "sketch"), ("dog",), 1, size=4)
    with (
        pytest.warns(UserWarning, match="without images"),
        pytest.raises(
            ValueError, match="no images of art_painting, cartoon; `equipoise data check"
        ),
    ):
        get_dataset("PACS", data_dir=tmp_path, image_size=4)


def test_a_misspelt_set_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'PACS'"):
        get_image_benchmark("PACs")
    assert set(list_image_benchmarks()) == set(PUBLISHED)


class TestPaths:
    """A dataset is named by its path wherever it may be named."""

    def test_a_path_opens_what_is_there_also_from_the_data_directory(self, tmp_path):
        write_image_tree(tmp_path / "photos", ("a", "b"), ("x", "y"), 1, size=4)
        assert len(get_dataset(str(tmp_path / "photos"), image_size=4)) == 4
        assert len(get_dataset("photos", data_dir=tmp_path, image_size=4)) == 4

    def test_a_known_name_comes_before_a_path(self, tmp_path, monkeypatch):
        write_image_tree(tmp_path / "PACS", ("a", "b"), ("x", "y"), 1, size=4)
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ValueError, match="PACS is not on this machine"):
            get_dataset("PACS")

    def test_no_name_is_not_the_directory_one_stands_in(self):
        with pytest.raises(ValueError, match="unknown dataset ''"):
            get_dataset("")

    @pytest.mark.parametrize("name", ["some/where", "table.csv"])
    def test_a_path_that_is_not_there_is_told_as_one(self, name):
        with pytest.raises(ValueError, match=f"there is no data at {name}"):
            get_dataset(name)
