"""The scripts of the gallery: short, they run, and they show what the site says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

GALLERY = (
    "unknown_covariate",
    "sample_weights",
    "balanced_validation",
    "known_covariates",
    "lightning_training",
)


def run(name, folder):
    environment = {**os.environ, "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(ROOT / "src")
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "picture.png"]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(line):
    return [float(number) for number in NUMBER.findall(line)]


def test_every_script_has_at_most_sixty_lines_and_a_picture_on_the_site():
    page = (ROOT / "docs" / "gallery.md").read_text()
    for name in GALLERY:
        assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 60
        assert f"images/gallery/{name}.png" in page
        assert (ROOT / "docs" / "images" / "gallery" / f"{name}.png").is_file()


def test_five_lines(tmp_path):
    before, after = run("five_lines", tmp_path).splitlines()
    assert numbers(before)[0] > 0.5
    assert abs(numbers(after)[0]) < 0.15


def test_unknown_covariate(tmp_path):
    _, balanced = run("unknown_covariate", tmp_path).splitlines()
    _, first, _, second = numbers(balanced)
    assert abs(first - second) < 10
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_sample_weights(tmp_path):
    plain, weighted = run("sample_weights", tmp_path).splitlines()
    assert numbers(plain)[0] < 40
    assert numbers(weighted)[0] > 65


def test_balanced_validation(tmp_path):
    plain, balanced = run("balanced_validation", tmp_path).splitlines()
    assert numbers(balanced)[0] > numbers(plain)[0] + 3


def test_known_covariates(tmp_path):
    before, *after = run("known_covariates", tmp_path).splitlines()
    assert numbers(before)[0] > 0.5
    assert all(numbers(line)[0] < 0.1 for line in after)


@pytest.mark.slow
def test_lightning_training(tmp_path):
    assert "kept the model with balanced accuracy" in run("lightning_training", tmp_path)
    assert any((tmp_path / "checkpoints").iterdir())
