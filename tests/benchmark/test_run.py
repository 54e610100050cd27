import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.algorithms import ERM
from equipoise.benchmark import RunSettings, execute_run, load_run, split_for_run, train, train_run
from equipoise.benchmark.directory import Checkpoints
from equipoise.benchmark.training import Diverged
from equipoise.files import hold_lock

from .tiny import make_data, make_settings

FILES = ("records.jsonl", "result.json", "best/train-domain.safetensors")


class Stop(Exception):
    """Stands for whatever ends a process."""


def run(path, **changes):
    return execute_run(make_settings(weight_average=0.9, **changes), make_data(), path)


def stop_at(path, step, **changes):
    def stop(record):
        if record.step == step:
            raise Stop

    settings = make_settings(weight_average=0.9, **changes)
    with pytest.raises(Stop):
        execute_run(settings, make_data(), path, on_checkpoint=stop)


def assert_same_files(one, other):
    for name in (*FILES, "checkpoints/step-000000012.safetensors"):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def test_a_run_in_a_directory_is_the_run_without_one(tmp_path):
    assert run(tmp_path / "run") == _as_in_directory(
        train(make_settings(weight_average=0.9), make_data())
    )


def _as_in_directory(result):
    values = {**result.settings.to_json(), "test_environment": "south"}
    return replace(result, settings=RunSettings.from_json(values))


def test_the_result_names_settings_and_choices(tmp_path):
    result = run(tmp_path / "run")
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert RunSettings.from_json(written["settings"]) == result.settings
    chosen = written["selections"]["train-domain"]
    record = result.selected["train-domain"]
    assert (chosen["step"], chosen["ood_accuracy"]) == (record.step, record.ood_accuracy)
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]


def test_a_finished_run_is_not_trained_again(tmp_path):
    first = run(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    assert run(tmp_path / "run") == first
    assert not list((tmp_path / "run" / "checkpoints").iterdir())


def test_lost_records_of_a_finished_run_come_back_from_its_last_state(tmp_path):
    first = run(tmp_path / "run")
    records = tmp_path / "run" / "records.jsonl"
    content = records.read_bytes()
    records.unlink()
    assert run(tmp_path / "run") == first
    assert records.read_bytes() == content


@pytest.mark.parametrize("step", [4, 8])
def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, step):
    run(tmp_path / "whole")
    stop_at(tmp_path / "cut", step)
    assert run(tmp_path / "cut").records[-1].step == 12
    assert_same_files(tmp_path / "whole", tmp_path / "cut")


def test_records_cut_off_in_a_line_or_too_many_are_put_right(tmp_path):
    run(tmp_path / "whole")
    stop_at(tmp_path / "cut", 8)
    records = tmp_path / "cut" / "records.jsonl"
    records.write_text(records.read_text() + '{"step": 12, "los')
    run(tmp_path / "cut")
    assert_same_files(tmp_path / "whole", tmp_path / "cut")


def test_a_damaged_checkpoint_costs_some_steps_and_no_bits(tmp_path):
    run(tmp_path / "whole")
    stop_at(tmp_path / "cut", 8)
    Checkpoints(tmp_path / "cut" / "checkpoints").paths()[0].write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="Going on from the state before it"):
        run(tmp_path / "cut")
    assert_same_files(tmp_path / "whole", tmp_path / "cut")


def test_states_between_checkpoints_do_not_change_the_end(tmp_path):
    run(tmp_path / "whole")
    settings = make_settings(weight_average=0.9)
    execute_run(settings, make_data(), tmp_path / "often", save_every=0.0)
    assert_same_files(tmp_path / "whole", tmp_path / "often")


def test_a_damaged_result_or_records_file_is_named_and_can_be_made_again(tmp_path):
    first = run(tmp_path / "run")
    for name in ("result.json", "records.jsonl"):
        file = tmp_path / "run" / name
        content = file.read_bytes()
        for damage in (b"{}\n", b"\xff\xfe\n", b'{"step": \n'):
            file.write_bytes(damage)
            with pytest.raises(ValueError, match=f"{name} is damaged .* delete it"):
                run(tmp_path / "run")
        file.unlink()
        assert run(tmp_path / "run") == first
        assert file.read_bytes() == content


@pytest.mark.parametrize("damage", ["missing", "cut"])
@pytest.mark.parametrize("finished", [True, False])
def test_lost_best_weights_are_told_with_the_way_to_get_them_back(tmp_path, damage, finished):
    run(tmp_path / "whole")
    run(tmp_path / "run") if finished else stop_at(tmp_path / "run", 8)
    best = tmp_path / "run" / "best" / "train-domain.safetensors"
    best.unlink() if damage == "missing" else best.write_bytes(best.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"best weights by 'train-domain' are lost.* or delete"):
        run(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").iterdir():
        path.unlink()
    (tmp_path / "run" / "result.json").unlink(missing_ok=True)
    run(tmp_path / "run")
    assert_same_files(tmp_path / "whole", tmp_path / "run")


class Tied(torch.nn.Module):
    """Two layers, one weight."""

    def __init__(self, input_shape):
        super().__init__()
        self.first = torch.nn.Linear(input_shape[0], input_shape[0])
        self.second = torch.nn.Linear(input_shape[0], input_shape[0])
        self.second.weight = self.first.weight
        self.n_outputs = input_shape[0]

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


@pytest.mark.parametrize("weight_average", [None, 0.5])
def test_a_network_with_tied_weights_is_kept_and_comes_back(tmp_path, weight_average):
    dataset = make_data()
    settings = make_settings(weight_average=weight_average, hyperparameters={"lr": 1e-2})
    result = execute_run(settings, dataset, tmp_path / "run", featurizer=Tied)
    trained = load_run(tmp_path / "run", featurizer=Tied, selection="test-domain")
    rows = split_for_run(result.settings, dataset).train_parts[2]
    right = trained.predict(dataset.subset(rows)) == dataset.labels[rows]
    assert right.mean() == pytest.approx(result.records[-1].ood_accuracy)


def test_what_a_killed_process_left_half_written_is_swept_up(tmp_path):
    stop_at(tmp_path / "run", 4)
    names = (".settings.json.x1.part", "best/.balanced.safetensors.x1.part")
    left = [tmp_path / "run" / name for name in (*names, "checkpoints/.step-1.x1.part")]
    foreign = tmp_path / "run" / ".labels.csv.x1.part"
    for path in (*left, foreign):
        path.write_text("half")
    run(tmp_path / "run")
    assert not [path for path in left if path.exists()]
    assert foreign.exists()


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(ValueError, match="is a file; the output of a run is a directory"):
        run(tmp_path / "run")


def test_other_settings_on_the_same_directory_are_refused(tmp_path):
    run(tmp_path / "run")
    with pytest.raises(ValueError, match=r"seed was 0, now 1.*Choose another output"):
        run(tmp_path / "run", seed=1)


def test_other_data_on_the_same_directory_are_refused(tmp_path):
    run(tmp_path / "run")
    with pytest.raises(ValueError, match="the data have changed"):
        execute_run(make_settings(weight_average=0.9), make_data(seed=1), tmp_path / "run")


def test_a_second_process_on_the_same_directory_is_refused(tmp_path):
    with (
        hold_lock(tmp_path / "run" / ".lock"),
        pytest.raises(ValueError, match=r"process \d+ is training in"),
    ):
        run(tmp_path / "run")


def test_a_diverging_run_keeps_its_last_good_state(tmp_path, monkeypatch):
    update = ERM.update

    def explode(self, batches):
        return {"loss": float("nan")} if self.steps == 9 else update(self, batches)

    monkeypatch.setattr(ERM, "update", explode)
    with pytest.raises(Diverged, match=r"nan at step 9\..*up to its last checkpoint are kept"):
        run(tmp_path / "run")
    monkeypatch.undo()
    assert Checkpoints(tmp_path / "run" / "checkpoints").load().values["n_steps"] == 8
    run(tmp_path / "whole")
    run(tmp_path / "run")  # the cause removed, it goes on
    assert_same_files(tmp_path / "whole", tmp_path / "run")


def test_weights_that_are_no_numbers_are_not_saved_between_checkpoints(tmp_path, monkeypatch):
    update = ERM.update

    def spoil(self, batches):
        losses = update(self, batches)
        if self.steps == 6:  # the loss of this step was still a number
            self.classifier.bias.data[0] = float("nan")
        return losses

    monkeypatch.setattr(ERM, "update", spoil)
    with pytest.raises(Diverged, match="a weight of ERM is not finite at step 6"):
        execute_run(make_settings(), make_data(), tmp_path / "run", save_every=0.0)
    assert Checkpoints(tmp_path / "run" / "checkpoints").load().values["n_steps"] == 5


def test_a_run_that_diverges_at_once_says_that_nothing_is_kept(tmp_path):
    with pytest.raises(Diverged, match=r"No checkpoint had been reached, so .*run has no weights"):
        run(tmp_path / "run", hyperparameters={"lr": 1e30})


FULL_DISK = """
import resource, signal, sys
from benchmark.tiny import make_data, make_settings
from equipoise.benchmark import execute_run

def shrink(record):
    if record.step == 4:  # from now on no file may grow beyond 20 kB
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    execute_run(make_settings(weight_average=0.9), make_data(), sys.argv[1], on_checkpoint=shrink)
except OSError as error:
    print(error)
"""


def test_a_full_disk_is_told_and_leaves_the_last_state_intact(tmp_path):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    tests = str(Path(__file__).parents[1])
    ended = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}{os.pathsep}{tests}"},
        check=True,
    )
    assert "could not be written" in ended.stdout
    assert "Make room and give the same command again" in ended.stdout
    assert not list((tmp_path / "run").rglob("*.part"))
    run(tmp_path / "whole")
    run(tmp_path / "run")
    assert_same_files(tmp_path / "whole", tmp_path / "run")


def test_mistakes_are_told_before_a_balancer_is_fitted(tmp_path, monkeypatch):
    monkeypatch.delattr("equipoise.benchmark.run.obtain_balancer")
    dataset = make_data()
    two = dataset.subset(np.flatnonzero(dataset.environments > 0))
    two.environments, two.environment_names = two.environments - 1, ("north", "south")
    with pytest.raises(ValueError, match="needs at least 2"):
        execute_run(make_settings(algorithm="VREx", selections=None), two, tmp_path)


def test_the_same_call_goes_on_whatever_kinds_of_numbers_it_gives(tmp_path):
    def call():
        return train_run(
            tmp_path / "run",
            dataset=make_data(),
            algorithm="ERM",
            test_environment=np.int64(2),
            steps=np.int64(4),
            checkpoint_every=2,
            balancer={"hidden": (8, 8), "max_steps": np.int64(10)},
            hyperparameters={"lr": np.float64(1e-3)},
        )

    first = call()
    assert call() == first
    assert load_run(tmp_path / "run").settings == first.settings


def test_a_test_environment_keeps_its_name_through_a_run(tmp_path):
    dataset = make_data()
    dataset.environment_names = ("1", "2", "0")
    settings = make_settings(test_environment="2")
    result = execute_run(settings, dataset, tmp_path / "run")
    last = result.records[-1]
    assert result.settings.test_environment == "2"
    assert last.ood_accuracy == last.train_accuracy["2"]
    assert execute_run(make_settings(test_environment=2), dataset, tmp_path / "run") == result


@pytest.mark.parametrize(
    ("rule", "test", "needs"),
    [("balanced", "south", "two training environments"), ("test-domain", None, "a test")],
)
def test_a_rule_that_the_data_do_not_allow_is_refused_before_anything_is_written(
    tmp_path, rule, test, needs
):
    dataset = make_data()
    two = dataset.subset(np.flatnonzero(dataset.environments > 0))
    two.environments, two.environment_names = two.environments - 1, ("north", "south")
    settings = make_settings(selections=("train-domain", rule), test_environment=test)
    with pytest.raises(ValueError, match=f"'{rule}' needs {needs}"):
        execute_run(settings, two, tmp_path / "run")
    assert not (tmp_path / "run" / "settings.json").exists()


def test_the_call_trains_on_a_users_own_arrays_with_an_own_network(tmp_path):
    def network(input_shape):
        return torch.nn.Sequential(torch.nn.Linear(input_shape[0], 7), torch.nn.ReLU())

    dataset = make_data()
    result = train_run(
        tmp_path / "run",
        dataset=dataset,
        algorithm="CORAL",
        test_environment="south",
        profile="quick",
        featurizer=network,
        steps=6,
        checkpoint_every=3,
        balancer={"max_steps": 10},
        hyperparameters={"mmd_gamma": 0.5},
    )
    assert result.settings.hyperparameters["mmd_gamma"] == 0.5
    with pytest.raises(ValueError, match="give it as featurizer"):
        load_run(tmp_path / "run")
    trained = load_run(tmp_path / "run", featurizer=network, selection="test-domain")
    held_out = split_for_run(result.settings, dataset).held_out_parts[2]
    right = trained.predict(dataset.subset(held_out)) == dataset.labels[held_out]
    assert right.mean() == pytest.approx(result.records[-1].ood_held_out_accuracy)
