"""`equipoise theory …` ends in a table, a plot and a sentence, and goes on where it stopped."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise import theory
from equipoise.cli import app
from equipoise.theory.balanced_batches import BALANCE, BalanceCase
from equipoise.theory.minimax import MINIMAX, MinimaxCase

runner = CliRunner()


@pytest.mark.parametrize("name", ["identifiability", "balance", "minimax"])
def test_every_experiment_has_help_with_an_example(name):
    shown = runner.invoke(app, ["theory", name, "--help"]).output
    assert f"equipoise theory {name}" in shown
    assert all(option in shown for option in ("--seed", "--output", "--quick"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--jobs", "0"], "--jobs 0"), (["--seed", "-1"], "--seed")],
)
def test_a_users_mistake_is_exit_code_two(arguments, message, tmp_path):
    result = runner.invoke(
        app, ["theory", "balance", *arguments, "--output", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    result = runner.invoke(app, ["theory", "balance", "--output", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "is a file" in " ".join(result.output.split())


def make_small_balance(seed, quick):
    return [
        BalanceCase(m, a, matching, 4000, 1, 30, seed)
        for m, a in ((3, 1), (3, 2))
        for matching in ("covariate", "true score", "learned score")
    ]


def make_small_minimax(seed, quick):
    return [
        MinimaxCase(world, batches, 500, 20, 500, seed)
        for world in ("discrete", "Gaussian")
        for batches in ("random", "balanced")
    ]


def test_balance_ends_in_tables_a_plot_and_a_sentence_and_is_repeatable(tmp_path, monkeypatch):
    small = replace(BALANCE, list_cases=make_small_balance)
    monkeypatch.setattr(theory, "run_balance", small.run)
    result = runner.invoke(app, ["theory", "balance", "--quick", "--output", str(tmp_path / "a")])
    assert result.exit_code == 0, result.output
    outcome = json.loads((tmp_path / "a" / "outcome.json").read_text())
    assert "Theorem 3.7" in outcome["sentence"]
    assert "Theorem 3.7" in result.output
    assert (tmp_path / "a" / "plot.png").stat().st_size > 5000
    shares = pd.read_csv(tmp_path / "a" / "labels-in-batches.csv")
    assert len(shares) == 6
    exact = shares[shares["matched on"] != "learned score"]
    assert exact.loc[exact["a"] == 2, "largest gap"].max() < 1e-12
    functions = pd.read_csv(tmp_path / "a" / "balancing-scores.csv")
    assert functions["finer"].sum() == 3
    again = small.run(tmp_path / "a", quick=True, verbose=False)
    assert again.sentence == outcome["sentence"]


def test_minimax_compares_closed_forms_and_networks(tmp_path):
    small = replace(MINIMAX, list_cases=make_small_minimax)
    found = small.run(tmp_path, quick=True, verbose=False)
    assert found.sentence.startswith("A quick look")
    again = small.run(tmp_path, verbose=False)  # not quick: too small to be as promised
    assert again.sentence.startswith("Not as promised")
    table = found.tables["worst case over environments"]
    assert set(table["classifier"]) >= {"Bayes, balanced", "network, ERM", "network, balanced"}
    balanced = table[table["classifier"] == "Bayes, balanced"]["cross-entropy"].to_numpy()
    others = table[table["classifier"] == "Bayes, best of the others"]["cross-entropy"].to_numpy()
    assert (balanced < others).all()
    assert (tmp_path / "plot.png").stat().st_size > 5000
    assert "not minimax" in found.sentence
