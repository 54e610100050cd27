import json
from itertools import combinations

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise.benchmark import plan_sweep, summarise
from equipoise.benchmark.domainbed import read_domainbed, translate_hyperparameters
from equipoise.benchmark.selection import select_runs
from equipoise.benchmark.sweep_file import read_sweep
from equipoise.cli import app


def write_run(folder, test_envs, lr, accuracies, *, seed=0, algorithm="ERM", tail="", **drawn):
    """A run of DomainBed on ColoredMNIST: (in, out) of three environments at two checkpoints."""
    folder.mkdir(parents=True)
    lines = []
    for step, row in zip((0, 100), accuracies, strict=True):
        line = {
            "args": {
                "algorithm": algorithm,
                "dataset": "ColoredMNIST",
                "test_envs": test_envs,
                "trial_seed": seed,
                "hparams_seed": 0,
            },
            "hparams": {
                **{"lr": lr, "batch_size": 64, "class_balanced": False, "resnet_dropout": 0.1},
                **drawn,
            },
            "step": step,
            "loss": 0.5,
        }
        for i, (inside, outside) in enumerate(row):
            line |= {f"env{i}_in_acc": inside, f"env{i}_out_acc": outside}
        lines.append(json.dumps(line))
    (folder / "results.jsonl").write_text("\n".join(lines) + "\n" + tail)


@pytest.fixture
def logs(tmp_path):
    """Two draws on every test environment and pair; the second has the better validation."""
    for draw, lr in ((0, 0.1), (1, 0.001)):
        for test in range(3):
            rows = [
                [(0.5, 0.5 + 0.1 * draw)] * 3,
                [(0.6 + 0.1 * draw, 0.7 + 0.1 * draw)] * 3,
            ]
            write_run(tmp_path / f"{draw}-{test}", [test], lr, rows)
        for pair in combinations(range(3), 2):
            rows = [[(0.9 - 0.2 * draw, 0.5)] * 3, [(0.2, 0.5)] * 3]
            write_run(tmp_path / f"{draw}-pair-{pair[0]}{pair[1]}", list(pair), lr, rows)
    return tmp_path


def test_train_domain_validation_takes_the_best_held_out_accuracy_where_it_trained(
    logs,
):
    chosen = select_runs(read_domainbed(logs), ["train-domain"])
    assert {each.test_environment for each in chosen} == {"0.1", "0.2", "0.9"}
    assert all(each.hyperparameters["lr"] == 0.001 for each in chosen)
    assert all((each.step, each.ood_accuracy) == (100, 0.7) for each in chosen)


def test_leave_one_domain_out_takes_pairs_of_test_environments(logs):
    chosen = select_runs(read_domainbed(logs), ["leave-one-domain-out"])
    assert len(chosen) == 3
    assert all((each.step, each.hyperparameters["lr"]) == (0, 0.1) for each in chosen)


def test_the_command_prints_the_table_and_writes_a_sweep_of_ours(logs, tmp_path):
    output, table = tmp_path / "chosen.yaml", tmp_path / "table.md"
    result = CliRunner().invoke(
        app, ["import-sweep", str(logs), "--output", str(output), "--table", str(table)]
    )
    assert result.exit_code == 0, result.output
    assert "70.0" in result.output
    assert "ERM: class_balanced" in result.output  # what has no counterpart here is told
    assert "(51.5, +18.5)" in table.read_text()
    spec = read_sweep(output)
    assert spec.algorithms == ("ERM",)
    assert spec.test_environments == {"ColoredMNIST": ("0.1", "0.2", "0.9")}
    only = spec.adjustments[0]
    assert only.only["test_environment"] == "0.1"
    assert only.settings["hyperparameters"] == {"lr": 0.001, "batch_size": 64}


def test_what_was_cut_off_does_not_count_and_what_is_damaged_is_named(tmp_path):
    rows = [[(0.5, 0.5)] * 3] * 2
    write_run(tmp_path / "cut", [0], 0.1, rows, tail='{"args": {"algor')
    (run,) = read_domainbed(tmp_path)
    assert [record.step for record in run.records] == [0, 100]
    write_run(tmp_path / "damaged", [0], 0.1, rows)
    file = tmp_path / "damaged" / "results.jsonl"
    file.write_text('{"step": 3}\n' + file.read_text())
    with pytest.raises(ValueError, match=r"damaged/results.jsonl, line 1"):
        read_domainbed(tmp_path)


def test_a_folder_without_logs_is_told(tmp_path):
    with pytest.raises(ValueError, match=r"no results.jsonl below"):
        read_domainbed(tmp_path)
    with pytest.raises(ValueError, match="there is no directory"):
        read_domainbed(tmp_path / "gone")


def test_algorithms_that_are_not_known_here_are_in_the_table_and_not_in_the_sweep(tmp_path):
    rows = [[(0.5, 0.5)] * 3] * 2
    write_run(tmp_path / "logs" / "a", [0], 0.1, rows, algorithm="IB_ERM")
    result = CliRunner().invoke(app, ["import-sweep", str(tmp_path / "logs")])
    assert result.exit_code == 0
    assert "IB_ERM" in result.output
    refused = CliRunner().invoke(
        app, ["import-sweep", str(tmp_path / "logs"), "--output", str(tmp_path / "x.yaml")]
    )
    assert refused.exit_code == 2
    assert "IB_ERM" in refused.output


def test_a_rule_that_the_logs_cannot_serve_is_told(tmp_path):
    write_run(tmp_path / "a", [0], 0.1, [[(0.5, 0.5)] * 3] * 2)
    result = CliRunner().invoke(app, ["import-sweep", str(tmp_path), "--selection", "balanced"])
    assert result.exit_code == 2
    assert "cannot choose" in result.output


def test_what_an_adversarial_run_and_fishr_used_reaches_its_counterpart(tmp_path):
    """DomainBed's DANN trains with lr_g, weight_decay_g and lambda; its lr is drawn and unused."""
    rows = [[(0.5, 0.5)] * 3] * 2
    drawn = {"lr_g": 3e-4, "lr_d": 2e-4, "weight_decay_g": 0.0, "weight_decay": 0.1, "lambda": 7.0}
    write_run(tmp_path / "logs" / "a", [0], 0.1, rows, algorithm="DANN", **drawn)
    write_run(tmp_path / "logs" / "b", [0], 0.02, rows, algorithm="Fishr", **{"lambda": 50.0})
    output = tmp_path / "chosen.yaml"
    result = CliRunner().invoke(
        app, ["import-sweep", str(tmp_path / "logs"), "--output", str(output)]
    )
    assert result.exit_code == 0, result.output
    chosen = {each.only["algorithm"]: each.settings for each in read_sweep(output).adjustments}
    assert chosen["DANN"]["hyperparameters"] == {
        **{"lr": 3e-4, "lr_d": 2e-4, "weight_decay": 0.0, "dann_lambda": 7.0, "batch_size": 64}
    }
    assert chosen["Fishr"]["hyperparameters"] == {
        **{"lr": 0.02, "fishr_lambda": 50.0, "batch_size": 64}
    }
    assert "DANN: lr," in result.output.replace("\n", " ")


@pytest.mark.parametrize(("dataset", "expected"), [("PACS", 0.5), ("ColoredMNIST", None)])
def test_dropout_comes_along_only_where_domainbed_applied_it(dataset, expected):
    translated, _ = translate_hyperparameters("ERM", dataset, {"resnet_dropout": 0.5})
    assert translated.get("dropout") == expected


def test_the_oracle_takes_the_largest_step_and_not_the_last_line(tmp_path):
    write_run(tmp_path / "a", [0], 0.1, [[(0.3, 0.3)] * 3, [(0.8, 0.8)] * 3])
    file = tmp_path / "a" / "results.jsonl"
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))
    (chosen,) = select_runs(read_domainbed(tmp_path), ["test-domain"])
    assert (chosen.step, chosen.ood_accuracy) == (100, 0.8)


def test_plus_minus_is_what_domainbed_prints():
    accuracies = [0.70, 0.74, 0.72]
    expected = 100 * np.std(accuracies) / np.sqrt(3)
    assert summarise(accuracies, spread="domainbed").spread == pytest.approx(expected)


def test_the_table_command_reads_domainbeds_logs(logs):
    result = CliRunner().invoke(app, ["table", str(logs), "--selection", "train-domain"])
    assert result.exit_code == 0, result.output
    assert "70.0" in result.output


def test_the_sweep_trains_as_long_as_the_logged_runs(tmp_path):
    """DomainBed logs null where nobody said anything: then the profile decides."""
    short, untold = {"steps": 301, "holdout_fraction": 0.3}, {"steps": None}
    for number, (seed, accuracy, told) in enumerate(
        [(0, 0.9, short), (0, 0.5, untold), (1, 0.9, untold)]
    ):
        folder = tmp_path / "logs" / str(number)
        write_run(folder, [0], 0.1 + number, [[(accuracy, accuracy)] * 3] * 2, seed=seed)
        file = folder / "results.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        written = [{**line, "args": {**line["args"], **told}} for line in lines]
        file.write_text("".join(json.dumps(line) + "\n" for line in written))
    sweep = tmp_path / "chosen.yaml"
    arguments = ["import-sweep", str(tmp_path / "logs"), "--output", str(sweep)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    runs = plan_sweep(read_sweep(sweep))
    found = {(run.settings.seed, run.settings.steps, run.settings.held_out) for run in runs}
    assert found == {(0, 301, 0.3), (1, 5001, 0.2)}
