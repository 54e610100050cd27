"""Commands answer in plain words, and in JSON for programs."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from equipoise import __version__
from equipoise.balance.distances import METRICS
from equipoise.cli import app
from tests.data.image_tree import write_image_tree

runner = CliRunner()


def test_version():
    assert runner.invoke(app, ["--version"]).output.strip() == f"equipoise {__version__}"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("datasets", {"ColoredMNIST", "ColoredMNIST10", "RotatedMNIST"}),
        ("algorithms", {"ERM", "IRM", "GroupDRO", "CORAL", "CausIRL_CORAL"}),
        ("metrics", set(METRICS)),
        ("selections", {"train-domain", "balanced", "test-domain"}),
    ],
)
def test_list_names_everything_with_a_line_on_each(kind, expected):
    found = json.loads(runner.invoke(app, ["list", kind, "--json"]).output)
    assert expected <= set(found)
    assert all(meaning.strip() for meaning in found.values())
    shown = runner.invoke(app, ["list", kind]).output
    assert all(name in shown for name in expected)


def test_what_is_listed_as_a_metric_is_a_metric():
    assert set(json.loads(runner.invoke(app, ["list", "metrics", "--json"]).output)) == set(METRICS)


@pytest.mark.parametrize("command", ["demo", "list", "train", "predict"])
def test_every_command_has_help_with_an_example(command):
    result = runner.invoke(app, [command, "--help"])
    assert result.exit_code == 0
    assert f"equipoise {command}" in result.output
    assert "Example" in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--dataset", "ColoredMNIST11"], "Did you mean 'ColoredMNIST10'"),
        (["demo", "--data-dir", "/nowhere/at/all"], "does not exist"),
        (["demo", "--steps", "0"], "--steps"),
        (["list", "fruits"], "fruits"),
    ],
)
def test_a_users_mistake_is_exit_code_two_and_no_traceback(arguments, message, tmp_path):
    where = [] if arguments[0] == "list" else ["--output", str(tmp_path / "out")]
    result = runner.invoke(app, [*arguments, *where])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_a_manifest_serves_every_command(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    write_image_tree(tmp_path / "photos", ("day", "night"), ("cat", "dog"), 12, seed=1, size=8)
    files = sorted((tmp_path / "photos").rglob("*.*"))
    rows = [f"{p.relative_to(tmp_path)},{p.parts[-2]},{p.parts[-3]}" for p in files if p.is_file()]
    (tmp_path / "photos.csv").write_text("\n".join(["file,animal,time", *rows]) + "\n")
    names = ["--path", "file", "--label", "animal", "--environment", "time", "--image-size", "8"]
    manifest, quiet = str(tmp_path / "photos.csv"), [*names, "--quiet"]
    train = ["train", "--dataset", manifest, "--algorithm", "ERM", "--test-environment", "night"]
    train += ["--sampling", "random", "--steps", "2", "--checkpoint-every", "1"]
    for command in (
        ["balance", manifest, "--steps", "2", "--set", "hidden=4", "--no-report"],
        ["data", "pack", manifest],
        [*train, "--featurizer", "small-cnn"],
    ):
        output = ["--output", str(tmp_path / f"of-{command[0]}")]
        result = runner.invoke(app, [*command, *output, *quiet])
        assert result.exit_code == 0, result.output
    balancer, page = str(tmp_path / "of-balance"), str(tmp_path / "page.html")
    of_data = ["--data", manifest, *names]
    shown = runner.invoke(app, ["report", balancer, "--output", page, "--quiet", *of_data])
    assert shown.exit_code == 0, shown.output
    picture = ["plot", "gallery", balancer, "--output", str(tmp_path / "gallery.png")]
    drawn = runner.invoke(app, [*picture, *of_data])
    assert drawn.exit_code == 0, drawn.output
    predict = ["predict", str(tmp_path / "of-train"), "--input", manifest, "--path", "file"]
    predicted = runner.invoke(app, [*predict, "--json"])
    assert predicted.exit_code == 0, predicted.output
    names_of = [row["example"] for row in json.loads(predicted.stdout)]
    assert names_of == [row.split(",")[0] for row in rows]
    refused = runner.invoke(app, [*predict[:-1], "picture"])
    assert refused.exit_code == 2
    assert "picture" in refused.output


def test_balance_prints_its_verdict_and_tables_for_programs(tmp_path):
    make_table(tmp_path / "t.csv")
    command = ["balance", str(tmp_path / "t.csv"), "--output", str(tmp_path / "out"), "--json"]
    result = runner.invoke(app, [*command, "--no-report", "--quiet"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["n_examples"] == 400
    assert found["verdict"]["recommendation"]
    assert {"balance", "information", "situations", "varying"} <= set(found["tables"])
    assert {"environment", "covariate", "smd_before", "smd_after"} <= set(
        found["tables"]["balance"][0]
    )
    assert str(tmp_path / "out" / "weights.parquet") in found["files"]


@pytest.mark.parametrize(
    "command",
    ["balance", "data check", "list", "demo", "train", "predict", "sweep", "table"]
    + ["import-sweep", "reproduce"]
    + [f"theory {name}" for name in ("identifiability", "balance", "minimax")],
)
def test_every_command_that_prints_a_table_has_json(command):
    found = typer.main.get_command(app)
    for name in command.split():
        found = found.commands[name]
    assert "--json" in [flag for option in found.params for flag in option.opts]


def make_table(path):
    rng = np.random.default_rng(0)
    y, site = rng.integers(2, size=400), rng.integers(2, size=400)
    colour = np.where(rng.random(400) < np.where(site, 0.95, 0.7), y, 1 - y)
    rows = [
        f"{c + 0.1 * a:.3f},{label + b:.3f},{label},{'ab'[s]}"
        for c, label, s, (a, b) in zip(colour, y, site, rng.normal(size=(400, 2)), strict=True)
    ]
    path.write_text("\n".join(["colour,size,label,environment", *rows]) + "\n")


def test_train_reads_a_table_by_the_names_of_its_columns(tmp_path):
    rows = [f"{i % 7},{i % 2},{'ab'[i // 2 % 2]}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["age,ill,site", *rows]) + "\n")
    command = ["train", "--dataset", str(tmp_path / "t.csv"), "--algorithm", "ERM", "--json"]
    command += ["--test-environment", "b", "--sampling", "random", "--steps", "2"]
    command += ["--checkpoint-every", "1", "--output", str(tmp_path / "run"), "--quiet"]
    refused = runner.invoke(app, command)
    assert refused.exit_code == 2
    assert "with --label" in " ".join(refused.output.split())
    result = runner.invoke(app, [*command, "--label", "ill", "--environment", "site"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["train-domain"]["step"] in (1, 2)
