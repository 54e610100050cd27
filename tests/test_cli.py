"""Commands answer in plain words, and in JSON for programs."""

import json

import pytest
from typer.testing import CliRunner

from equipoise import __version__
from equipoise.balance.distances import METRICS
from equipoise.cli import app

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
