"""The demo, end to end, on digits small enough for a test."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from equipoise.cli import app


@pytest.fixture
def simple_digits(monkeypatch):
    """Ten different shapes with noise in place of MNIST: learnable in a few steps."""
    rng = np.random.default_rng(0)
    digits = (np.arange(3000) % 10).astype(np.uint8)
    shapes = np.zeros((10, 28, 28), dtype=np.uint8)
    for digit in range(10):
        row, column = divmod(digit, 5)
        shapes[digit, 4 + 10 * row : 12 + 10 * row, 2 + 5 * column : 6 + 5 * column] = 220
    pixels = shapes[digits] + rng.integers(0, 30, size=(3000, 28, 28), dtype=np.uint8)
    monkeypatch.setattr(
        "equipoise.data.published.fetch_mnist", lambda data_dir=None: (pixels, digits)
    )


def run(*arguments):
    result = CliRunner().invoke(app, ["demo", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
@pytest.mark.usefixtures("simple_digits")
def test_the_demo_shows_balancing_work_and_writes_what_it_promises(tmp_path):
    output = run(
        "--dataset", "ColoredMNIST", "--quick", "--steps", "120", "--output", str(tmp_path)
    )
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["n_varying"] == 1
    assert results["same_covariate_rate"] > 0.85  # 0.15 by chance
    assert results["mutual_information_ratio"] < 0.05
    assert results["balanced"]["ood_accuracy"] > results["random"]["ood_accuracy"] + 20
    assert results["seconds"] > 0
    assert "out of domain" in output
    assert f"recommendation: {results['recommendation']}" in output
    for name in ("batches.png", "tables.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    # Called again it finds everything done and says the same.
    run("--dataset", "ColoredMNIST", "--quick", "--steps", "120", "--output", str(tmp_path))
    again = json.loads((tmp_path / "results.json").read_text())
    assert again == results


@pytest.mark.slow
@pytest.mark.usefixtures("simple_digits")
def test_the_demo_runs_where_the_covariate_is_unknown(tmp_path):
    run("--dataset", "RotatedMNIST", "--quick", "--steps", "5", "--output", str(tmp_path))
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["same_covariate_rate"] is None
    assert results["paper"] == {"random": 96.4, "balanced": 96.4}
