"""`equipoise report` and `equipoise plot` as a user types them."""

import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.balancer import CausalBalancer
from equipoise.cli import app
from equipoise.data import save_dataset
from equipoise.report import PLOTS
from report.subjects import fit_pictures, fit_table, make_pictures, make_table, train_tiny

TO_PNG = ("--output", "x.png")
STARTS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run, saved balancers with and without a model of Z, and their data as files."""
    root = tmp_path_factory.mktemp("subjects")
    data = train_tiny(root / "run")
    save_dataset(data, root / "vectors")
    features, labels, places = make_table()
    table = features.assign(label=labels, environment=places)
    table.to_csv(root / "patients.csv", index=False)
    (root / "of-table").mkdir()
    balancer = CausalBalancer("all", max_steps=20, n_nearest=5).fit(features, labels, places)
    balancer.save(root / "of-table" / "balancer.safetensors")
    save_dataset(make_pictures(), root / "pictures")
    fit_pictures("all").save(root / "of-pictures.safetensors")
    fit_pictures().save(root / "of-varying.safetensors")
    fit_table().save(root / "of-nothing.safetensors")
    return root


def test_a_run_is_reported_with_its_data(folder):
    result = call("report", folder / "run", "--data", folder / "vectors")
    assert result.exit_code == 0, result.output
    page = (folder / "run" / "report.html").read_text()
    for name in ("curves", "confusions", "gallery", "balance"):
        assert f'id="{name}"' in page


def test_a_run_is_reported_without_its_data_and_says_so(folder, tmp_path):
    result = call("report", folder / "run", "--output", tmp_path / "x.html")
    assert result.exit_code == 0
    assert "not at hand" in result.output
    assert 'id="curves"' in (tmp_path / "x.html").read_text()


def test_a_saved_balancer_is_reported_with_a_table(folder):
    result = call("report", folder / "of-table", "--data", folder / "patients.csv", "--quiet")
    assert result.exit_code == 0, result.output
    assert result.output == ""
    page = (folder / "of-table" / "report.html").read_text()
    assert '"features":["signal"' in page
    assert "healthy" in page


def test_an_environment_that_was_left_out_is_left_out_again(folder, tmp_path):
    data = pd.read_csv(folder / "patients.csv")
    further = data.assign(environment="elsewhere").head(30)
    pd.concat([data, further]).to_csv(tmp_path / "more.csv", index=False)
    target = folder / "of-table" / "balancer.safetensors"
    result = call(
        "report", target, "--data", tmp_path / "more.csv", "--output", tmp_path / "x.html"
    )
    assert result.exit_code == 0, result.output
    page = (tmp_path / "x.html").read_text()
    assert "240 examples" in page
    assert "elsewhere" not in page


@pytest.mark.parametrize("kind", sorted(PLOTS))
def test_every_plot_is_drawn_of_what_has_it(folder, tmp_path, kind):
    is_run = kind in ("curves", "confusions")
    target = folder / ("run" if is_run else "of-pictures.safetensors")
    data = folder / ("vectors" if is_run else "pictures")
    ending = sorted(STARTS)[sorted(PLOTS).index(kind) % 3]
    output = tmp_path / f"{kind}{ending}"
    result = call("plot", kind, target, "--data", data, "--output", output)
    assert result.exit_code == 0, result.output
    assert output.read_bytes().startswith(STARTS[ending])


def test_counterfactuals_of_a_table_are_effects_on_its_features(folder, tmp_path):
    output = tmp_path / "effects.svg"
    words = ("--data", folder / "patients.csv", "--output", output)
    result = call("plot", "counterfactuals", folder / "of-table", *words)
    assert result.exit_code == 0, result.output
    assert "signal" in output.read_text()


def test_one_environment_can_be_plotted(folder, tmp_path):
    target, output = folder / "of-pictures.safetensors", tmp_path / "love.svg"
    words = ("--data", folder / "pictures", "--output", output, "--in", "night")
    assert call("plot", "love", target, *words).exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("report", "nowhere"), "neither the directory of a run"),
        (("plot", "lvoe", "run", "--output", "x.png"), "love"),
        (("plot", "love", "run", "--output", "x.gif"), "kind of picture"),
        (("plot", "love", "run", "--output", "x.png"), "--data"),
        (("plot", "curves", "of-table", "--output", "x.png"), "is not a run"),
        (("plot", "gallery", "of-table", "--output", "x.png"), "--data"),
        (
            ("plot", "gallery", "of-table", "--data", "patients.csv", "--output", "x.png"),
            "rows of a table",
        ),
        (
            ("plot", "love", "of-pictures.safetensors", "--output", "x.png", "--in", "noon"),
            "environment",
        ),
        (
            ("plot", "traversals", "of-varying.safetensors", "--data", "pictures", *TO_PNG),
            'needs a model of Z, and this balancer fitted none: fit one with balance_on="all"',
        ),
        (
            (
                "plot",
                "counterfactuals",
                "of-nothing.safetensors",
                "--data",
                "patients.csv",
                *TO_PNG,
            ),
            "needs a model of Z",
        ),
        (
            ("plot", "tuning", "of-nothing.safetensors", "--data", "patients.csv", *TO_PNG),
            "nothing was balanced",
        ),
        (("report", "of-table", "--data", "vectors"), "was fitted on environments"),
        (("report", "of-table", "--label", "ill"), "name the data as well"),
    ],
)
def test_a_mistake_is_one_sentence(folder, monkeypatch, words, sentence):
    monkeypatch.chdir(folder)
    result = call(*words)
    assert result.exit_code == 2
    said = " ".join(result.output.split())
    assert said.startswith("error: ")
    assert sentence in said
    assert "Traceback" not in said
