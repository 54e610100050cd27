"""The published sets: what they consist of, and how they are found on a disk."""

import numpy as np
import pytest

from equipoise.data import get_dataset, list_datasets
from equipoise.data.published import get_image_benchmark, list_image_benchmarks
from tests.data.image_tree import write_image_tree

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
