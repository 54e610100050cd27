import json

import pytest
import torch

from equipoise import __version__
from equipoise.algorithms import TrainingState
from equipoise.benchmark import execute_run, select_runs
from equipoise.benchmark.data import digest_code, digest_source
from equipoise.benchmark.directory import Checkpoints, OtherCode
from equipoise.benchmark.selection import RECORDS_VERSION, OtherVersion
from equipoise.benchmark.sweep import collect_runs
from equipoise.files import stamp, write_json

from .tiny import make_data, make_settings


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


@pytest.fixture
def run(tmp_path):
    execute_run(make_settings(), make_data(), tmp_path / "runs" / "one")
    return tmp_path / "runs" / "one"


def test_records_of_another_version_are_refused_in_plain_words(run):
    file = run / "settings.json"
    written = json.loads(file.read_text())
    assert written["version"] == RECORDS_VERSION
    file.write_text(json.dumps({**written, "version": 99}))
    with pytest.raises(OtherVersion, match="one: its records are of version 99, this equipoise"):
        collect_runs(run.parent)


def test_a_record_with_other_fields_is_of_another_version_too(run):
    file = run / "records.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(stamp({**line, "f1": 0.5})) + "\n" for line in lines))
    with pytest.raises(OtherVersion, match=r"records\.jsonl: a record has other fields .*\(f1\)"):
        collect_runs(run.parent)


def test_a_directory_from_before_versions_were_written_is_refused_in_plain_words(run):
    file = run / "settings.json"
    written = json.loads(file.read_text())
    del written["version"], written["code"]
    file.write_text(json.dumps(written))
    with pytest.raises(OtherVersion, match="train again"):
        collect_runs(run.parent)


def pretend_other_code(run):
    file = run / "settings.json"
    write_json(file, {**json.loads(file.read_text()), "code": "0" * 16})


def test_a_run_says_which_code_made_it_and_other_code_does_not_go_on(run):
    written = json.loads((run / "settings.json").read_text())
    assert (written["code"], written["equipoise"]) == (digest_code(), __version__)
    pretend_other_code(run)
    with pytest.raises(OtherCode, match="was trained by other code"):
        execute_run(make_settings(), make_data(), run)


def test_runs_of_different_code_are_not_put_into_one_table(run):
    execute_run(make_settings(), make_data(), run.parent / "two")
    select_runs(collect_runs(run.parent), ["train-domain"])
    pretend_other_code(run)
    with pytest.raises(ValueError, match=f"code .'0000000000000000' and '{digest_code()}"):
        select_runs(collect_runs(run.parent), ["train-domain"])
    chosen = collect_runs(run.parent, where=[f"code={digest_code()}"])
    assert [each.name for each in chosen] == ["two"]


def test_comments_and_docstrings_are_not_code():
    before = digest_source('"""One."""\ndef f(x):\n    """Two."""\n    return x + 1\n')
    assert digest_source("def f(x):\n    return x + 1  # three\n") == before
    assert digest_source("def f(x):\n    return x + 2\n") != before


def test_only_finished_runs_with_the_wanted_settings_count(run):
    execute_run(make_settings(seed=1), make_data(), run.parent / "two")
    assert {found.seed for found in collect_runs(run.parent)} == {0, 1}
    assert [found.seed for found in collect_runs(run.parent, where=["seed=1"])] == [1]
    with pytest.raises(ValueError, match="Did you mean 'seed'"):
        collect_runs(run.parent, where=["sead=1"])
    with pytest.raises(ValueError, match="has a test environment with seed=5"):
        collect_runs(run.parent, where=["seed=5"])
    (run / "result.json").unlink()
    assert [found.seed for found in collect_runs(run.parent)] == [1]


def test_a_place_without_runs_is_told(tmp_path):
    with pytest.raises(ValueError, match="there are no runs at"):
        collect_runs(tmp_path / "gone")
    with pytest.raises(ValueError, match="no finished run in"):
        collect_runs(tmp_path)
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x.json is damaged .* or the sweep-NAME.json in it"):
        collect_runs(tmp_path / "x.json")
