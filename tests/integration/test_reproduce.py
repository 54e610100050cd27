"""Exhibits end to end, on a few random digits: what they are is wrong, how they are made is not."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise.benchmark import load_run
from equipoise.cli import app
from equipoise.cli.reproduce import ExhibitName
from equipoise.data import Examples, get_dataset, save_dataset
from equipoise.exhibits import (
    EXHIBITS,
    ExhibitRequest,
    reproduce_figure4a,
    reproduce_figure4b,
    reproduce_figure4c,
    reproduce_rivals,
    reproduce_table1,
    reproduce_table2,
    reproduce_table4,
    reproduce_validation,
)
from equipoise.exhibits.comparisons import METHODS, OURS, WORLDS, make_world, measure_groups
from equipoise.exhibits.figures import measure_accuracy
from equipoise.exhibits.tables import ALGORITHMS

SETTINGS = {
    "steps": 2,
    "checkpoint_every": 1,
    "anchors_per_environment": 4,
    "balancer": {"max_steps": 5, "hidden": [8], "n_nearest": 2},
}


@pytest.fixture
def request_of(tmp_path, fake_mnist):
    def make(**changes):
        given = {"output": tmp_path / "results", "runs": tmp_path / "runs", "workers": 0}
        return ExhibitRequest(
            **{**given, "seeds": 1, "settings": SETTINGS, "verbose": False, **changes}
        )

    return make


def read_file(request, exhibit):
    return json.loads((request.output / f"{exhibit}-{request.profile}.json").read_text())


def read_records(request, exhibit):
    return read_file(request, exhibit)["records"]


def count_trainings(monkeypatch):
    """How many runs are trained from now on."""
    from equipoise.benchmark.training import Training

    trained, whole = [], Training.run

    def run(self, **options):
        trained.append(self.settings)
        return whole(self, **options)

    monkeypatch.setattr(Training, "run", run)
    return trained


def test_table1_has_a_record_for_every_run_and_rule_and_the_papers_number_beside_ours(request_of):
    request = request_of(seeds=2)
    made = reproduce_table1(request, datasets=("ColoredMNIST",), algorithms=("ERM",))
    records = read_records(request, "table1")
    assert len(records) == 2 * 2 * 3  # samplings × seeds × rules
    assert set(records[0]) == {
        *("dataset", "algorithm", "sampling", "seed", "selection", "ood_accuracy", "step")
    }
    row = next(row for row in made.tables[0].rows if row.labels[0] == "train-domain")
    assert row.labels == ("train-domain", "ColoredMNIST", "random")
    ours = [
        100 * record["ood_accuracy"]
        for record in records
        if (record["selection"], record["sampling"]) == ("train-domain", "random")
    ]
    assert row.cells[0].mean == pytest.approx(sum(ours) / 2)
    assert row.cells[0].paper == 10.0
    written = read_file(request, "table1")
    run = json.loads(next(request.runs.glob("*/settings.json")).read_text())
    assert (written["code"], written["equipoise"]) == (run["code"], run["equipoise"])
    assert (written["seeds"], written["settings"]) == (2, SETTINGS)
    assert all(file.stat().st_size > 0 for file in made.files)


def test_validation_reads_the_runs_of_table1_and_trains_none(request_of, monkeypatch):
    request = request_of()
    chosen = {"datasets": ("ColoredMNIST",), "algorithms": ("ERM",)}
    reproduce_table1(request, **chosen)
    trained = count_trainings(monkeypatch)
    made = reproduce_validation(request, **chosen)
    assert trained == []
    found = read_records(request, "validation")
    assert len(found["checkpoints"]) == 2 * 2 * 2  # samplings × checkpoints × rules
    assert {each["sampling"] for each in found["shortfalls"]} == {"random", "balanced", "either"}
    assert all(each["shortfall"] >= 0 for each in found["shortfalls"])
    assert len(made.sentences) == 1


def test_figure4a_and_4b_vary_one_setting_only(request_of):
    request = request_of()
    reproduce_figure4a(request, dataset="ColoredMNIST", points=(0.0, 1.0))
    degrees = [each["degree_of_balancing"] for each in read_records(request, "figure4a")]
    assert sorted(set(degrees)) == [0.0, 1.0]
    made = reproduce_figure4b(request, dataset="ColoredMNIST10", points=(1, 9))
    assert made.tables[0].columns == ("1", "9")
    assert "onfirmed" in made.sentences[0]
    left, sizes = (
        [cell.mean for cell in row.cells if cell is not None] for row in made.tables[1].rows
    )
    assert left[1] < left[0] < 100  # more matches, less of the link
    assert sizes[1] < sizes[0] < 100  # and examples repeated more often
    assert "of the matches have their anchor's colour" in made.sentences[1]


def test_figure4c_tests_the_model_that_was_trained_on_the_environment_it_was_recorded_on(
    request_of, monkeypatch
):
    request = request_of()
    made = reproduce_figure4c(request, dataset="ColoredMNIST", points=(0.1, 0.9))
    assert made.tables[0].columns == ("0.1", "0.9")
    run = next(path for path in request.runs.iterdir() if "balanced" in path.name)
    trained = load_run(run, selection="train-domain")
    data = get_dataset("ColoredMNIST", environments=(0.1, 0.2, 0.9))
    recorded = json.loads((run / "result.json").read_text())["selections"]["train-domain"]
    assert measure_accuracy(trained, data) == recorded["ood_accuracy"]
    trainings = count_trainings(monkeypatch)
    reproduce_figure4c(request, dataset="ColoredMNIST", points=(0.5,))
    assert trainings == []


def test_table2_says_which_data_are_missing_and_goes_on(request_of, tmp_path):
    request = request_of(data_dir=tmp_path)
    made = reproduce_table2(request, datasets=("ColoredMNIST", "PACS"), algorithms=("ERM",))
    assert made.tables[0].columns == ("ColoredMNIST", "PACS", "average")
    assert made.tables[0].rows[0].cells[0] is not None
    assert made.tables[0].rows[0].cells[1] is None
    assert "PACS is not in the table" in made.sentences[0]
    assert "art_painting" in made.sentences[0]


def test_table2_without_any_data_is_an_error(request_of, tmp_path):
    with pytest.raises(ValueError, match="no dataset of Table 2 is on this machine"):
        reproduce_table2(request_of(data_dir=tmp_path), datasets=("PACS", "VLCS"))


def test_a_failed_run_is_told_and_the_others_are_in_the_table(request_of, monkeypatch):
    from equipoise.algorithms.feature_matching import CORAL

    def fail(self, batches):
        raise RuntimeError("no luck")

    monkeypatch.setattr(CORAL, "_update", fail)
    request = request_of()
    made = reproduce_table1(request, datasets=("ColoredMNIST",), algorithms=("ERM", "CORAL"))
    assert made.tables[0].columns == ("ERM",)
    assert "2 runs failed" in made.sentences[-1]
    assert "no luck" in made.sentences[-1]


def test_an_exhibit_of_which_every_run_fails_is_an_error_with_the_reason(request_of):
    request = request_of(settings={**SETTINGS, "featurizer": "mlp"})
    with pytest.raises(ValueError, match=r"every run failed, .* 'mlp' is for vectors"):
        reproduce_table1(request, datasets=("ColoredMNIST",), algorithms=("ERM",))


def test_table4_has_a_column_for_every_distance_and_the_papers_numbers(request_of):
    made = reproduce_table4(request_of(), dataset="ColoredMNIST10")
    assert made.tables[0].columns == ("l1", "l2", "linf", "kl")
    row = next(row for row in made.tables[0].rows if row.labels == ("train-domain",))
    assert [cell.paper for cell in row.cells] == [69.3, 69.5, 69.8, 69.2]


@pytest.mark.parametrize("exhibit", ["figure3", "figure5"])
def test_the_command_writes_records_tables_and_plot(tmp_path, fake_mnist, exhibit):
    settings = ["anchors_per_environment=4", "balancer.max_steps=5", "balancer.hidden=[8]"]
    result = CliRunner().invoke(
        app,
        [
            *("reproduce", exhibit, "--seeds", "1", "--workers", "0"),
            *("--output", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")),
            *(part for setting in settings for part in ("--set", setting)),
        ],
    )
    assert result.exit_code == 0, result.output
    assert "onfirmed" in result.output
    stem = tmp_path / "results" / f"{exhibit}-quick"
    assert json.loads(stem.with_suffix(".json").read_text())["records"]
    assert next(csv.reader(stem.with_suffix(".csv").open()))[0] == "table"
    for ending in (".md", ".tex", ".png"):
        assert stem.with_suffix(ending).stat().st_size > 0


def test_another_data_seed_deals_the_digits_anew(tmp_path, fake_mnist):
    found = []
    for seed in ("0", "1", "0"):
        place = tmp_path / str(len(found))
        result = CliRunner().invoke(
            app,
            [
                *("reproduce", "figure5", "--seeds", "1", "--workers", "0", "--quiet"),
                *("--data-seed", seed, "--output", str(place), "--runs", str(place / "runs")),
                *("--set", "balancer.max_steps=5", "--set", "balancer.hidden=[8]"),
            ],
        )
        assert result.exit_code == 0, result.output
        found.append((place / "figure5-quick.json").read_text())
    assert found[0] == found[2] != found[1]


def test_every_exhibit_has_a_command():
    assert [name.value for name in ExhibitName] == list(EXHIBITS)


def test_an_unknown_profile_is_refused(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'quick'"):
        ExhibitRequest(output=tmp_path, profile="quik")


def test_rivals_are_measured_on_every_group_of_the_test_environment(request_of):
    request = request_of(seeds=2)
    chosen = [method for method in METHODS if method.name in ("ERM", OURS, "DFR", "JTT")]
    made = reproduce_rivals(request, datasets=("ColoredMNIST",), methods=chosen)
    records = read_records(request, "rivals")
    assert len(records) == 4 * 2
    for record in records:
        assert record["worst_group_accuracy"] <= record["average_accuracy"]
        assert record["seconds"] > 0
    assert [row.labels[1] for row in made.tables[0].rows] == [method.name for method in chosen]
    assert made.tables[0].columns == ("average", "worst group", "CPU-seconds")
    assert "highest worst-group accuracy" in made.sentences[0]
    run = next(path for path in request.runs.iterdir() if "-DFR-" in path.name)
    data = get_dataset("ColoredMNIST")
    trained = load_run(run, selection="test-domain")
    last = json.loads((run / "records.jsonl").read_text().splitlines()[-1])
    assert measure_groups(trained, data)[0] == pytest.approx(last["ood_accuracy"])


@pytest.mark.slow
def test_rivals_meet_in_worlds_whose_truth_is_known(request_of):
    request = request_of(settings={"steps": 60, "checkpoint_every": 60})
    chosen = [method for method in METHODS if method.name in ("ERM", OURS)]
    reproduce_rivals(request, datasets=WORLDS, methods=chosen)
    records = {(r["dataset"], r["method"]): r for r in read_records(request, "rivals")}
    assert len(records) == 4
    for world in WORLDS:
        erm, ours = (records[world, name]["average_accuracy"] for name in ("ERM", OURS))
        assert erm < 0.5 < 0.65 < ours < 0.78


def test_no_group_of_a_world_is_told_better_by_its_content_than_another():
    for world in WORLDS:
        data = make_world(world, 0)
        x = data.fetch(np.arange(len(data))).numpy()
        right = (x[:, 0] > 0) == data.labels
        for label in range(2):
            for value in range(2):
                group = (data.labels == label) & (data.covariate == value)
                assert abs(right[group].mean() - 0.75) < 0.03
        agree = data.labels == data.covariate
        found = [agree[data.environments == e].mean() for e in range(3)]
        assert found == pytest.approx([0.9, 0.8, 0.1], abs=0.02)


def test_table2_on_features_leaves_out_every_domain_with_the_papers_numbers_beside(
    request_of, tmp_path
):
    rng = np.random.default_rng(0)
    labels, sites = rng.integers(3, size=480), np.arange(480) % 4
    names = np.array(["art_painting", "cartoon", "photo", "sketch"])
    x = rng.normal(size=(480, 5)) + labels[:, None]
    save_dataset(Examples(x, labels, names[sites]), tmp_path / "features")
    request = request_of(features=tmp_path / "features")
    made = reproduce_table2(request)
    (table,) = made.tables
    assert table.title == "Table 2, PACS, frozen features"
    assert table.columns == ("art_painting", "cartoon", "photo", "sketch", "average")
    assert {row.labels[1] for row in table.rows} == {*ALGORITHMS}
    first = next(r for r in table.rows if r.labels == ("train-domain", "ERM", "random"))
    assert first.cells[0].paper == 84.7
    assert any("Frozen features" in sentence for sentence in made.sentences)
    assert len(read_records(request, "table2-features")) == 5 * 2 * 4 * 2


def test_features_are_for_table2_only():
    result = CliRunner().invoke(app, ["reproduce", "table1", "--features", "x"])
    assert result.exit_code == 2
    assert "--features is for table2 only" in result.output
