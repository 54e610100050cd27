"""A check finds each kind of damage, names it, and finds nothing in a tree that is whole."""

import shutil

import pytest

from equipoise.data import check, check_folders
from equipoise.data.published import ImageBenchmark
from tests.data.image_tree import write_broken_images, write_image_tree


@pytest.fixture
def tree(tmp_path):
    write_image_tree(tmp_path / "tree", per_class=2, size=8)
    return tmp_path / "tree"


@pytest.fixture
def find(tree, tmp_path):
    """Kinds and places of what is wrong, after something was done to the tree."""

    def look(**settings):
        report = check_folders(tree, cache=tmp_path / "cache", **settings)
        return {(problem.kind, problem.where) for problem in report.problems}

    return look


def test_a_whole_tree_has_no_problems_and_its_images_are_counted(tree, tmp_path):
    report = check_folders(tree, cache=tmp_path / "cache")
    assert report.problems == ()
    assert report.dataset is None
    assert report.counts == ((2,) * 7,) * 4
    assert report.n_images == 56
    assert report.to_json()["environment_names"] == report.environment_names


def test_missing_and_empty_folders_are_found(tree, find):
    shutil.rmtree(tree / "photo" / "dog")
    for path in (tree / "photo" / "house").iterdir():
        path.unlink()
    (tree / "watercolour").mkdir()
    assert find() == {
        ("missing", "photo/dog"),
        ("empty", "photo/house"),
        ("empty", "watercolour"),
    }


def test_files_at_the_wrong_place_or_of_the_wrong_kind_are_found(tree, find):
    (tree / "photo" / "dog" / "notes.txt").write_text("good dogs")
    (tree / "photo" / "dog" / ".hidden").write_text("")
    shutil.copy(tree / "photo" / "dog" / "0000.jpg", tree / "photo" / "loose.jpg")
    assert find() == {("no-image", "photo/dog/notes.txt"), ("misplaced", "photo/loose.jpg")}


def test_every_unreadable_image_is_found(tree, find):
    names = write_broken_images(tree / "sketch" / "horse")
    assert find() == {("unreadable", f"sketch/horse/{name}") for name in names}


def test_copies_are_found_and_worse_ones_told(tree, tmp_path):
    original = tree / "photo" / "dog" / "0000.jpg"
    shutil.copy(original, tree / "photo" / "dog" / "copy.jpg")
    shutil.copy(tree / "photo" / "dog" / "0001.jpg", tree / "sketch" / "horse" / "same.jpg")
    report = check_folders(tree, cache=tmp_path / "cache")
    told = {problem.where: problem.what for problem in report.problems}
    assert {problem.kind for problem in report.problems} == {"duplicate"}
    assert told["photo/dog/0000.jpg"] == "the same as photo/dog/copy.jpg"
    assert "under different classes and in different environments" in told["photo/dog/0001.jpg"]


def test_a_known_set_is_compared_with_what_was_published(tree, find):
    assert find(dataset="PACS") == {
        ("count", name) for name in ("art_painting", "cartoon", "photo", "sketch")
    }
    shutil.rmtree(tree / "cartoon")
    write_image_tree(tree, ("photo",), ("cat",), 1, size=8)
    found = find(dataset="PACS", ignore=["count"])
    assert found == {("missing", "cartoon"), ("unexpected", "photo/cat")}


def test_a_set_is_known_by_the_name_of_its_directory(tree, tmp_path):
    tree.rename(tmp_path / "PACS")
    report = check_folders(tmp_path / "PACS", cache=tmp_path / "cache")
    assert report.dataset == "PACS"
    assert {problem.kind for problem in report.problems} == {"count"}
    parent = check_folders(tmp_path, dataset="PACS", cache=tmp_path / "cache")
    assert parent.root == tmp_path / "PACS"


def test_every_published_edition_is_right(tree, find, monkeypatch):
    names = ("art_painting", "cartoon", "photo", "sketch")
    editions = tuple(dict.fromkeys(names, count) for count in (15, 14))
    classes = tuple(sorted(path.name for path in (tree / "photo").iterdir()))
    known = ImageBenchmark("PACS", ("PACS",), editions, classes)
    monkeypatch.setattr(check, "get_image_benchmark", lambda name: known)
    assert find(dataset="PACS") == set()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dataset": "PAC"}, "Did you mean 'PACS'"),
        ({"ignore": ["counts"]}, "Did you mean 'count'"),
        ({"dataset": "VLCS"}, "VLCS is not in"),
        ({"n_jobs": 0}, "n_jobs must be at least 1"),
    ],
)
def test_a_mistake_is_told(find, settings, message):
    with pytest.raises(ValueError, match=message):
        find(**settings)


def test_something_that_is_no_tree_is_told(tmp_path):
    with pytest.raises(ValueError, match="there is no directory"):
        check_folders(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        check_folders(tmp_path / "file")
    (tmp_path / "bare").mkdir()
    report = check_folders(tmp_path / "bare", cache=tmp_path / "cache")
    assert [problem.kind for problem in report.problems] == ["missing"]
