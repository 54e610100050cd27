"""`equipoise train` and `equipoise predict` as a user types them."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from benchmark.tiny import make_data
from equipoise.cli import app
from equipoise.data import EnvironmentSubset, Examples, opening, register_dataset

COMMON = {
    "--dataset": "TinyData",
    "--algorithm": "ERM",
    "--sampling": "random",
    "--test-environment": "2",
    "--steps": "6",
    "--checkpoint-every": "3",
    "--select": "train-domain",
}


@pytest.fixture(autouse=True)
def _datasets(monkeypatch):
    """Two datasets that exist for the length of a test."""
    monkeypatch.setattr(opening, "_DATASETS", dict(opening._DATASETS))

    @register_dataset
    def TinyData(*, data_dir, data_seed) -> Examples:
        """Three environments."""
        return make_data(seed=data_seed)

    @register_dataset
    def TwoPlaces(*, data_dir, data_seed) -> EnvironmentSubset:
        """One environment to train on, one to test."""
        data = make_data()
        two = data.subset(np.flatnonzero(data.environments > 0))
        two.environments, two.environment_names = two.environments - 1, ("north", "south")
        return two


def invoke(command, *arguments, **options):
    words = [word for pair in options.items() for word in pair]
    return CliRunner().invoke(app, [command, *map(str, arguments), *map(str, words)])


def train(output, *arguments, **changes):
    return invoke("train", *arguments, **{**COMMON, "--output": output, **changes})


def test_a_run_from_the_command_line_ends_with_a_result(tmp_path):
    ended = train(tmp_path / "run", "--set", "lr=0.01", "--set", "warm_up=2")
    assert ended.exit_code == 0, ended.output
    assert "train-domain" in ended.output
    written = json.loads((tmp_path / "run" / "result.json").read_text())
    assert written["settings"]["hyperparameters"]["lr"] == 0.01
    assert written["settings"]["warm_up"] == 2
    assert written["selections"]["train-domain"]["ood_accuracy"] is not None
    again = train(tmp_path / "run", "--set", "lr=0.01", "--set", "warm_up=2")
    assert again.exit_code == 0


def test_quick_takes_the_quick_recipe(tmp_path):
    ended = train(tmp_path / "run", "--quick", "--quiet")
    assert ended.exit_code == 0, ended.output
    assert ended.stdout == ""
    settings = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert settings["weight_average"] is not None


@pytest.mark.parametrize(
    ("arguments", "changes", "message"),
    [
        ([], {"--algorithm": "CORALL"}, "Did you mean 'CORAL'"),
        ([], {"--dataset": "TinyDat"}, "Did you mean 'TinyData'"),
        ([], {"--sampling": "balancd"}, "Did you mean 'balanced'"),
        ([], {"--select": "test"}, "Did you mean 'test-domain'"),
        ([], {"--test-environment": "3"}, "no test environment '3'"),
        ([], {"--test-environment": "west"}, "no test environment 'west'"),
        ([], {"--device": "gpu"}, "unknown device 'gpu'"),
        ([], {"--featurizer": "small-cn"}, "Did you mean 'small-cnn'"),
        ([], {"--dataset": "TwoPlaces", "--algorithm": "VREx", "--test-environment": "1"}, "VREx"),
        (["--set", "learnig_rate=1"], {}, "'learnig_rate'"),
        (["--set", "lr"], {}, "expected name=value"),
        (["--set", "lr=1e30"], {}, "at step"),
        (["--set", "seed=3"], {}, "option of its own"),
        (["--set", "held_out=0"], {}, "held_out must be a share"),
        (["--set", "steps=4"], {}, "steps is given twice"),
        ([], {"--num-workers": "-1"}, "'--num-workers'"),
        (["--set", "warm_up=x"], {}, "warm_up must be a whole number, got 'x'"),
        (["--set", "balancer.max_steps=abc"], {}, "balancer.max_steps must be a whole number"),
        (["--set", "batch_size=2.5"], {}, "batch_size of ERM must be a whole number"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path, arguments, changes, message):
    ended = train(tmp_path / "run", *arguments, **changes)
    assert ended.exit_code == 2
    assert message in " ".join(ended.output.split())
    assert "Traceback" not in ended.output


def test_an_output_that_is_a_file_is_told(tmp_path):
    (tmp_path / "run").write_text("")
    ended = train(tmp_path / "run")
    assert ended.exit_code == 2
    assert "is a file; the output of a run is a directory" in " ".join(ended.output.split())


def test_an_output_that_cannot_be_written_is_told_before_predicting(tmp_path):
    options = {"--dataset": "TinyData", "--output": tmp_path / "labels.txt"}
    ended = invoke("predict", tmp_path / "no run here", **options)
    assert ended.exit_code == 2
    assert "unknown kind of output '.txt'" in " ".join(ended.output.split())


def test_predictions_come_out_as_csv_or_into_a_file(tmp_path):
    train(tmp_path / "run")
    np.save(tmp_path / "x.npy", np.asarray(make_data().fetch(np.arange(4))))
    printed = invoke("predict", tmp_path / "run", **{"--input": tmp_path / "x.npy"})
    assert printed.exit_code == 0, printed.output
    assert printed.stdout.splitlines()[0] == "example,label,probability,p(0),p(1),p(2)"
    assert len(printed.stdout.splitlines()) == 5
    target = tmp_path / "labels.parquet"
    options = {"--dataset": "TinyData", "--environment": "south", "--output": target}
    assert invoke("predict", tmp_path / "run", **options).exit_code == 0
    assert len(pd.read_parquet(target)) == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either --input or --dataset"),
        ({"--input": "none.npy"}, "there is no input none.npy"),
        ({"--dataset": "TinyDta"}, "Did you mean 'TinyData'"),
        ({"--dataset": "TinyData", "--environment": "west"}, "'west'"),
        ({"--dataset": "TinyData", "--selection": "balanced"}, "unknown selection rule"),
    ],
)
def test_a_mistake_in_predict_is_told(tmp_path, options, message):
    train(tmp_path / "run")
    ended = invoke("predict", tmp_path / "run", **options)
    assert ended.exit_code == 2
    assert message in " ".join(ended.output.split())


def test_a_directory_without_a_run_cannot_predict(tmp_path):
    ended = invoke("predict", tmp_path, **{"--dataset": "TinyData"})
    assert ended.exit_code == 2
    assert "holds no run" in " ".join(ended.output.split())


def test_a_table_whose_columns_are_not_named_is_told_the_option_that_names_them(tmp_path):
    file = tmp_path / "patients.csv"
    pd.DataFrame({"ill": [0, 1] * 6, "ward": list("abc") * 4, "age": range(12)}).to_csv(
        file, index=False
    )
    result = train(tmp_path / "run", **{"--dataset": str(file)})
    assert result.exit_code == 2
    assert "it is with --label" in result.output.replace("\n", " ")


@pytest.fixture(scope="module")
def patients():
    rng = np.random.default_rng(0)
    words = {"ward": list("ABC"), "ill": ["yes", "no"], "hospital": ["n", "s", "w"]}
    texts = {name: rng.choice(values, 240) for name, values in words.items()}
    return pd.DataFrame({"age": rng.normal(size=240), **texts})


@pytest.fixture(scope="module", params=["patients.csv", "packed"])
def table_run(request, patients, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    patients.to_csv(folder / "patients.csv", index=False)
    columns = {"--label": "ill", "--environment": "hospital"}
    if request.param == "packed":
        output = {"--output": folder / "packed"}
        ended = invoke("data", "pack", folder / "patients.csv", **columns, **output)
        assert ended.exit_code == 0, ended.output
        columns = {}
    changes = {"--dataset": folder / request.param, "--test-environment": "w", **columns}
    assert train(folder / "run", **changes).exit_code == 0
    return folder / "run"


class TestPredictingATable:
    """The table that was trained on may be given as it is: its label and environment are known."""

    def predict(self, run, frame):
        place = run.parent / "new.csv"
        frame.to_csv(place, index=False)
        return invoke("predict", run, **{"--input": place})

    def test_the_label_and_the_environment_are_left_out_and_this_is_said(self, table_run, patients):
        ended = self.predict(table_run, patients)
        assert ended.exit_code == 0, ended.output
        said = " ".join(ended.stderr.split())
        assert "note: left out of" in said
        assert "'ill', 'hospital', the label or environment in training" in said
        bare = self.predict(table_run, patients[["age", "ward"]])
        assert bare.stdout == ended.stdout
        assert bare.stderr == ""

    def test_another_unknown_column_is_refused(self, table_run, patients):
        ended = self.predict(table_run, patients.assign(other=1))
        assert ended.exit_code == 2
        assert "has 'other', which the model does not know" in " ".join(ended.stderr.split())

    def test_a_name_that_was_not_there_in_training_is_said(self, table_run, patients):
        ended = self.predict(table_run, patients[["age"]].assign(ward="D"))
        assert ended.exit_code == 0, ended.output
        said = " ".join(ended.stderr.split())
        assert "column 'ward'" in said
        assert "holds 'D', which was not there in training" in said
