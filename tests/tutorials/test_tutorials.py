"""The tutorials run as they stand, print what they say they print, and tell a true story."""

import contextlib
import io
import re
from pathlib import Path

import pytest

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def run_tutorial(name, folder, monkeypatch):
    """Run every Python block in order; the text block after one must be what it printed."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(folder / "cache"))
    page = (TUTORIALS / name).read_text()
    blocks = re.findall(r"```(python|text)\n(.*?)```", page, flags=re.DOTALL)
    names: dict[str, object] = {"__name__": "tutorial"}
    printed = ""
    for kind, content in blocks:
        if kind == "text":
            compare_output(printed, content)
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(content, name, "exec"), names)
        printed = out.getvalue()
    return names


def compare_output(printed, expected):
    """The same words, and numbers that another processor may round a little differently."""
    words = [NUMBER.sub("#", text).split() for text in (printed, expected)]
    assert words[0] == words[1], printed
    for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True):
        assert float(ours) == pytest.approx(float(theirs), rel=0.15, abs=0.4), printed


def test_images(tmp_path, monkeypatch):
    names = run_tutorial("images.md", tmp_path, monkeypatch)
    accuracies = names["accuracies"]
    assert accuracies["balanced"] > accuracies["random"] + 0.2
    assert (tmp_path / "batches.png").stat().st_size > 1000


def test_table(tmp_path, monkeypatch):
    names = run_tutorial("table.md", tmp_path, monkeypatch)
    plain, balanced = names["as_they_are"]
    assert plain > balanced
    plain, balanced = names["with_analyser"]
    assert balanced > plain + 10


def test_lalonde(tmp_path, monkeypatch):
    pytest.importorskip("causaldata", reason="LaLonde is not tested: pip install causaldata")
    names = run_tutorial("lalonde.md", tmp_path, monkeypatch)
    assert max(worst for worst, _ in names["results"].values()) < 0.1


def test_embeddings(tmp_path, monkeypatch):
    names = run_tutorial("embeddings.md", tmp_path, monkeypatch)
    assert names["shares"]["balanced"] > names["shares"]["random"] + 10
    assert (tmp_path / "balanced" / "report.html").is_file()


def test_other_features(tmp_path, monkeypatch):
    names = run_tutorial("../howto/other-features.md", tmp_path, monkeypatch)
    assert names["rate"] > 0.9
    assert len(names["x_batch"]) == 2 * 16 * 2
    assert names["balancer"].n_varying_ > 0


def test_the_commands_of_the_tutorials_are_options_that_exist():
    from typer.testing import CliRunner

    from equipoise.cli import app

    known = CliRunner().invoke(app, ["balance", "--help"], env={"COLUMNS": "200"}).output
    for page in TUTORIALS.glob("*.md"):
        for command in re.findall(r"```sh\n(.*?)```", page.read_text(), flags=re.DOTALL):
            assert command.startswith("equipoise balance ")
            for option in re.findall(r"--[a-z-]+", command):
                assert option in known, f"{page.name}: {option}"


@pytest.mark.slow
def test_text(tmp_path, monkeypatch):
    pytest.importorskip("all_minilm_l6_v2", reason="the extra `text` is not installed")
    names = run_tutorial("text.md", tmp_path, monkeypatch)
    assert names["X"].shape == (1000, 384)
