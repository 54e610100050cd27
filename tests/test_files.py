"""A file is there whole, or as it was before."""

import errno
import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise import CausalBalancer
from equipoise.files import (
    DamagedFile,
    WriteFailed,
    check_regular,
    load_state,
    read_json,
    remove_parts,
    save_state,
    write_json,
    write_whole,
)


def test_an_error_while_writing_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "settings.json"
    write_json(path, {"a": 1})
    before = path.read_text()

    def write_and_fail():
        with write_whole(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_and_fail()
    assert path.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["settings.json"]


def test_tensors_and_facts_come_back(tmp_path):
    path = tmp_path / "deep" / "state.safetensors"
    tensors = {"a": torch.arange(3), "b": torch.randn(2, 2).T}
    save_state(path, tensors, {"step": 4, "names": ["x"]})
    loaded, facts = load_state(path)
    assert facts == {"step": 4, "names": ["x"]}
    assert torch.equal(loaded["a"], tensors["a"])
    assert torch.equal(loaded["b"], tensors["b"])


def test_a_state_of_another_version_is_refused_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.files.STATE_VERSION", 1)
    save_state(tmp_path / "state.safetensors", {"a": torch.ones(3)}, {})
    monkeypatch.undo()
    with pytest.raises(ValueError, match="another version of equipoise wrote it"):
        load_state(tmp_path / "state.safetensors")


def test_a_balancer_with_nan_is_not_saved(tmp_path):
    rng = np.random.default_rng(0)
    labels, environments = np.arange(60) % 2, np.arange(60) // 2 % 2
    fitted = CausalBalancer(hidden=(4,), max_steps=2, balance_on="all")
    fitted.fit(rng.normal(size=(60, 2)) + labels[:, None], labels, environments)
    for name in ("log_scores_", "z_", "weights_"):
        kept = getattr(fitted, name)
        setattr(fitted, name, np.where(np.arange(kept.size).reshape(kept.shape) == 7, np.nan, kept))
        with pytest.raises(ValueError, match=f"NaN in {name} and is not saved: fit it again"):
            fitted.save(tmp_path / "b.safetensors")
        assert not list(tmp_path.iterdir())
        setattr(fitted, name, kept)


def test_tied_tensors_are_saved_each_under_its_name(tmp_path):
    weight = torch.randn(3, 3)
    save_state(tmp_path / "state.safetensors", {"a": weight, "b": weight, "c": weight[0]}, {})
    loaded, _ = load_state(tmp_path / "state.safetensors")
    assert torch.equal(loaded["a"], weight)
    assert torch.equal(loaded["b"], weight)
    assert torch.equal(loaded["c"], weight[0])


def test_files_get_the_mode_that_the_user_asks_for(tmp_path):
    before = os.umask(0o027)
    try:
        write_json(tmp_path / "a.json", {"a": 1})
        save_state(tmp_path / "state.safetensors", {"a": torch.zeros(2)}, {})
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.skipif(not hasattr(os, "O_DIRECTORY"), reason="directories cannot be synced here")
def test_the_directory_is_synced_after_the_file_has_its_name(tmp_path, monkeypatch):
    synced, fsync = [], os.fsync

    def record(handle):
        is_directory = stat.S_ISDIR(os.fstat(handle).st_mode)
        synced.append((is_directory, (tmp_path / "settings.json").exists()))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", record)
    write_json(tmp_path / "settings.json", {})
    assert synced == [(False, False), (True, True)]


def test_parts_are_removed_by_name_or_all(tmp_path):
    for name in (".a.json.x1.part", ".b.json.x1.part", "a.json"):
        (tmp_path / name).write_text("")
    remove_parts(tmp_path, "a.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".b.json.x1.part", "a.json"]
    remove_parts(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    remove_parts(tmp_path / "none")


def test_a_truncated_state_is_named(tmp_path):
    path = tmp_path / "state.safetensors"
    save_state(path, {"a": torch.randn(100)}, {})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"state\.safetensors is not a readable"):
        load_state(path)


SCHEMA = {"names": [str], "n": int, "share": float, "note?": str | None}


def test_json_comes_back_without_its_digest(tmp_path):
    content = {"names": ["a", "é"], "n": 1, "share": 1, "note": None}
    write_json(tmp_path / "a.json", content)
    assert read_json(tmp_path / "a.json", SCHEMA) == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"n": 1, "share": 0.5}, "names is missing"),
        ({"names": None, "n": 1, "share": 0.5}, "names must be list, got None"),
        ({"names": ["a", 2], "n": 1, "share": 0.5}, r"names\[1\] must be str, got 2"),
        ({"names": [], "n": True, "share": 0.5}, "n must be int, got True"),
        ({"names": [], "n": 1, "share": "x"}, "share must be float, got 'x'"),
        ({"names": [], "n": 1, "share": 1, "note": 3}, "note must be str or null, got 3"),
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named(tmp_path, content, message):
    write_json(tmp_path / "a.json", content)
    with pytest.raises(DamagedFile, match=rf"a\.json is damaged \({message}\); delete it"):
        read_json(tmp_path / "a.json", SCHEMA)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"null", b"[]", b'{"a": 1}', b"\xff\xfe", b"[" * 100_000, b'{"digest": "0"}'],
)
def test_json_that_is_not_ours_is_one_kind_of_error(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(DamagedFile, match=r"a\.json is damaged"):
        read_json(tmp_path / "a.json")


def test_a_changed_value_does_not_fit_the_digest(tmp_path):
    write_json(tmp_path / "a.json", {"seed": 1})
    changed = (tmp_path / "a.json").read_text().replace("1", "2", 1)
    (tmp_path / "a.json").write_text(changed)
    with pytest.raises(DamagedFile, match="does not fit its digest"):
        read_json(tmp_path / "a.json")


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match="expected a regular file"):
            check_regular(path)
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        check_regular(tmp_path / "nothing")
    with pytest.raises(ValueError, match="a path that the system allows"):
        check_regular("a\0b")


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "Make room"), (errno.EROFS, "Choose another place")]
)
def test_a_failed_write_says_what_to_do(tmp_path, number, advice):
    def write():
        with write_whole(tmp_path / "a.json"):
            raise OSError(number, os.strerror(number))

    with pytest.raises(WriteFailed, match=rf"a\.json could not be written .*{advice}"):
        write()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link to a device"])
def test_what_is_no_regular_file_is_never_replaced(tmp_path, kind):
    path = tmp_path / "out"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = Path("/dev/null")
    if kind == "link to a device":
        path = tmp_path / "out"
        path.symlink_to("/dev/null")
    before = path.stat().st_mode
    with pytest.raises(WriteFailed, match=rf"{path} is .*; choose another name"):
        write_json(path, {"a": 1})
    assert path.stat().st_mode == before
    assert not list(tmp_path.glob(".*"))
