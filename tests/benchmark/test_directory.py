import pytest
import torch

from equipoise.algorithms import TrainingState
from equipoise.benchmark.directory import Checkpoints


def state(number):
    return TrainingState({"w": torch.full((3,), float(number))}, {"n_steps": number})


def fill(directory, *steps):
    checkpoints = Checkpoints(directory)
    for step in steps:
        checkpoints.save(state(step), step)
    return checkpoints


def test_the_last_two_states_are_kept(tmp_path):
    checkpoints = fill(tmp_path, 5, 10, 15)
    assert [path.name for path in checkpoints.paths()] == [
        "step-000000015.safetensors",
        "step-000000010.safetensors",
    ]
    assert checkpoints.load().values == {"n_steps": 15}


def test_no_state_is_none(tmp_path):
    assert Checkpoints(tmp_path / "none").load() is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_state_gives_way_to_the_one_before(tmp_path, damage):
    checkpoints = fill(tmp_path, 5, 10)
    newest = checkpoints.paths()[0]
    content = bytearray(newest.read_bytes())
    if damage == "flip":
        content[-1] ^= 1  # a single bit of a weight
    newest.write_bytes({"cut": content[:40], "flip": content, "empty": b""}[damage])
    with pytest.warns(UserWarning, match="Going on from the state before it"):
        found = checkpoints.load()
    assert found.values == {"n_steps": 5}
    assert torch.equal(found.tensors["w"], torch.full((3,), 5.0))


def test_if_all_states_are_damaged_the_error_says_what_to_do(tmp_path):
    checkpoints = fill(tmp_path, 5, 10)
    for path in checkpoints.paths():
        path.write_bytes(b"gone")
    with (
        pytest.warns(UserWarning, match="Going on"),
        pytest.raises(ValueError, match="restore one of them, or delete them all to start over"),
    ):
        checkpoints.load()
