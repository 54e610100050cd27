"""The Python of every page runs as it stands, and every command on a page exists."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

from equipoise.algorithms import registry
from equipoise.cli import app
from interop.test_sklearn import make_data
from tests.data.image_tree import write_image_tree

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)
SNIPPET = re.compile(r'^--8<-- "([\w.]+)(?::(\d+):(\d+))?"$', flags=re.MULTILINE)
PAGES = [
    page.relative_to(DOCS).as_posix()
    for page in sorted(DOCS.rglob("*.md"))
    if any(kind == "python" for kind, _ in BLOCK.findall(page.read_text()))
]
NEEDED = {"tutorials/text.md": "all_minilm_l6_v2", "tutorials/lalonde.md": "causaldata"}


def read_snippet(found):
    name, first, last = found.groups()
    lines = (ROOT / "examples" / name).read_text().splitlines(keepends=True)
    return "".join(lines[int(first) - 1 : int(last)] if first else lines)


def make_names(page):
    """What the page takes for granted, beside the files in the working directory."""
    if page == "data.md":
        write_image_tree("photos", per_class=4)
        rng = np.random.default_rng(0)
        table = pd.DataFrame(
            {"age": rng.integers(20, 90, 200), "ill": rng.choice(["yes", "no"], 200)}
        )
        table["hospital"] = np.array(["north", "south", "west", "east"])[np.arange(200) % 4]
        table.assign(weight=rng.normal(70, 9, 200)).to_csv("patients.csv", index=False)
    if page == "howto/scikit-learn.md":
        given = dict(zip(("X", "y", "environments"), make_data(), strict=True))
        held_out = zip(("X_val", "y_val", "environments_val"), make_data(seed=1), strict=True)
        return given | dict(held_out)
    return {}


def compare_output(printed, expected):
    """The same words, and numbers that another processor may round a little differently."""
    words = [NUMBER.sub("#", text).split() for text in (printed, expected)]
    assert words[0] == words[1], printed
    for ours, theirs in zip(NUMBER.findall(printed), NUMBER.findall(expected), strict=True):
        rounded = 0.4 if "." in theirs else 1.0
        assert float(ours) == pytest.approx(float(theirs), rel=0.15, abs=rounded), printed


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_runs_and_prints_what_the_page_says(page, tmp_path, monkeypatch):
    if page in NEEDED:
        pytest.importorskip(
            NEEDED[page], reason=f"{page} is not tested: pip install {NEEDED[page]}"
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr("sys.argv", ["page", "picture.png"])
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    names = {"__name__": "page", **make_names(page)}
    printed = None
    for kind, content in BLOCK.findall((DOCS / page).read_text()):
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(SNIPPET.sub(read_snippet, content), page, "exec"), names)
            printed = out.getvalue()
        elif printed is not None:
            compare_output(printed, content)
    if page in CHECKS:
        CHECKS[page](names)


def check_algorithms(names):
    assert names["last"] < names["first"]
    assert names["averaged_logits"].shape == (16, 10)
    ended, resumed = names["model"].training_state(), names["resumed"].training_state()
    assert ended.values == resumed.values


def check_data(names):
    assert len(names["photos"]) == len(names["saved"]) == 4 * 7 * 4
    assert names["saved"].input_shape == (16 * 8 * 8,)
    assert names["patients"].n_environments == 4


def check_diagnostics(names):
    known = names["found"].worst.query("kind == 'known'")
    assert known["smd_before"].min() > 0.5
    assert known["smd_after"].max() < 0.1
    assert names["found"].verdict.recommendation in ("balance", "trade-off")
    assert "Verdict" in names["page"]
    assert isinstance(names["table"], pd.DataFrame)


def check_other_features(names):
    assert names["rate"] > 0.9
    assert len(names["x_batch"]) == 2 * 16 * 2
    assert names["balancer"].n_varying_ > 0


def check_report(names):
    assert "Label × scanner" in names["page"].read_text()
    assert (names["output"] / "love.svg").is_file()


def check_runs(names):
    assert names["probabilities"].shape == (900, 2)
    assert [record.step for record in names["records"]] == [10, 20]


def check_embeddings(names):
    assert names["shares"]["balanced"] > names["shares"]["random"] + 10
    assert Path("balanced/report.html").is_file()


def check_images(names):
    assert names["accuracies"]["balanced"] > names["accuracies"]["random"] + 0.2
    assert Path("batches.png").stat().st_size > 1000


def check_table(names):
    plain, balanced = names["as_they_are"]
    assert plain > balanced
    plain, balanced = names["with_analyser"]
    assert balanced > plain + 10


def holds(fact):
    """A check of one line."""

    def check(names):
        assert fact(names)

    return check


CHECKS = {
    "algorithms.md": check_algorithms,
    "benchmark.md": holds(lambda n: n["steps"] == {"train-domain": 100, "balanced": 200}),
    "data.md": check_data,
    "diagnostics.md": check_diagnostics,
    "howto/given-covariates.md": holds(lambda n: len(n["entropy"]) == 2_000),
    "howto/infer-environments.md": holds(lambda n: len(n["made"]) == 4_000),
    "howto/other-features.md": check_other_features,
    "howto/scikit-learn.md": holds(lambda n: n["search"].best_score_ > 0.5),
    "matching.md": holds(lambda n: len(n["matches"]) == 2_000),
    "report.md": check_report,
    "runs.md": check_runs,
    "theory.md": holds(lambda n: n["sample"].z.shape == (1_000, 5)),
    "tutorials/embeddings.md": check_embeddings,
    "tutorials/images.md": check_images,
    "tutorials/lalonde.md": holds(lambda n: max(worst for worst, _ in n["results"].values()) < 0.1),
    "tutorials/table.md": check_table,
    "tutorials/text.md": holds(lambda n: n["X"].shape == (1000, 384)),
}


def list_commands(text):
    """Every `equipoise …` of a page, in a block or in the middle of a sentence."""
    joined = re.sub(r"\\\n\s*", " ", text)
    blocks = "\n".join(joined.split("```")[1::2])
    found = re.findall(r"^(?:\w+=\S+ )*equipoise (.+)$", blocks, flags=re.MULTILINE)
    return found + re.findall(r"`equipoise ([^`]+)`", re.sub(r"\n", " ", joined))


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda page: page.stem
)
def test_every_command_on_a_page_exists_with_its_options(page):
    for line in list_commands(page.read_text()):
        command = typer.main.get_command(app)
        words = shlex.split(line, comments=True)
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands or words[0].startswith(("-", "…")), line
            if words[0] not in command.commands:
                break
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        known |= {option for parameter in command.params for option in parameter.secondary_opts}
        asked = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert asked <= known | {"--help"}, line
