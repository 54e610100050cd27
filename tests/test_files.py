"""A file is there whole, or as it was before."""

import json

import pytest
import torch

from equipoise.files import load_state, save_state, write_json, write_whole


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


def test_a_truncated_state_is_named(tmp_path):
    path = tmp_path / "state.safetensors"
    save_state(path, {"a": torch.randn(100)}, {})
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ValueError, match=r"state\.safetensors is not a readable"):
        load_state(path)
