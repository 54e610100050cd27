"""A file's digest is its content's, and an unchanged file is not read twice."""

import hashlib
import os

import pytest

from equipoise.data import images
from equipoise.data.images import digest_files


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(name)
        os.utime(root / name, (1e9, 1e9))  # long ago: settled
    return root


@pytest.fixture
def reads(monkeypatch):
    """The names of the files that were opened."""
    opened, plain = [], images._digest
    monkeypatch.setattr(images, "_digest", lambda path: opened.append(path.name) or plain(path))
    return opened


def test_unchanged_files_are_read_once_and_changed_ones_again(tree, tmp_path, reads):
    first = digest_files(tree, ["a", "b"], cache=tmp_path)
    assert first == [hashlib.sha256(text).digest() for text in (b"a", b"b")]
    assert digest_files(tree, ["a", "b"], cache=tmp_path) == first
    assert sorted(reads) == ["a", "b"]
    (tree / "b").write_text("other")
    os.utime(tree / "b", (1.1e9, 1.1e9))
    changed = digest_files(tree, ["a", "b", "c"], cache=tmp_path)
    assert changed[1] == hashlib.sha256(b"other").digest()
    assert sorted(reads[2:]) == ["b", "c"]


def test_a_file_written_just_now_is_read_again(tree, tmp_path, reads):
    (tree / "a").write_text("new")
    digest_files(tree, ["a"], cache=tmp_path)
    digest_files(tree, ["a"], cache=tmp_path)
    assert reads == ["a", "a"]


def test_what_was_read_before_an_interruption_is_not_read_again(tree, tmp_path, monkeypatch, reads):
    monkeypatch.setattr(images, "BLOCK", 1)
    plain = images._digest

    def stop(path):
        if path.name == "b":
            raise KeyboardInterrupt
        return plain(path)

    monkeypatch.setattr(images, "_digest", stop)
    with pytest.raises(KeyboardInterrupt):
        digest_files(tree, ["a", "b", "c"], cache=tmp_path)
    monkeypatch.setattr(images, "_digest", plain)
    reads.clear()
    assert all(digest_files(tree, ["a", "b", "c"], cache=tmp_path))
    assert sorted(reads) == ["b", "c"]


def test_other_files_of_the_tree_stay_known(tree, tmp_path, reads):
    digest_files(tree, ["a"], cache=tmp_path)
    digest_files(tree, ["b"], cache=tmp_path)
    digest_files(tree, ["a", "b"], cache=tmp_path)
    assert reads == ["a", "b"]


def test_a_file_that_cannot_be_read_has_no_digest(tree, tmp_path):
    assert digest_files(tree, ["a", "gone"], cache=tmp_path)[1] == b""


def test_a_damaged_memory_is_made_again(tree, tmp_path, reads):
    first = digest_files(tree, ["a"], cache=tmp_path)
    (memory,) = (tmp_path / "digests").iterdir()
    memory.write_bytes(b"damaged")
    assert digest_files(tree, ["a"], cache=tmp_path) == first
    assert reads == ["a", "a"]
