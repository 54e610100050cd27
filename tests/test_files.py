"""A file is there whole, or as it was before."""

import json
import os
import stat

import pytest
import torch

from equipoise.files import load_state, remove_parts, save_state, write_json, write_whole


def test_an_error_while_writing_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "settings.json"
    write_json(path, {"a": 1})

    def write_and_fail():
        with write_whole(path) as temporary:
            temporary.write_text("half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_and_fail()
    assert json.loads(path.read_text()) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["settings.json"]


def test_tensors_and_facts_come_back(tmp_path):
    path = tmp_path / "deep" / "state.safetensors"
    tensors = {"a": torch.arange(3), "b": torch.randn(2, 2).T}
    save_state(path, tensors, {"step": 4, "names": ["x"]})
    loaded, facts = load_state(path)
    assert facts == {"step": 4, "names": ["x"]}
    assert torch.equal(loaded["a"], tensors["a"])
    assert torch.equal(loaded["b"], tensors["b"])


def test_tied_tensors_are_saved_each_under_its_name(tmp_path):
    weight = torch.randn(3, 3)
    save_state(tmp_path / "state.safetensors", {"a": weight, "b": weight, "c": weight[0]}, {})
    loaded, _ = load_state(tmp_path / "state.safetensors")
    assert torch.equal(loaded["a"], weight)
    assert torch.equal(loaded["b"], weight)
    assert torch.equal(loaded["c"], weight[0])


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
