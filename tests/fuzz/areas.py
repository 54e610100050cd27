"""Cases by area: every public call, every kind of file and every command with bad input."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

from equipoise.benchmark.sweep_file import parse_sweep
from equipoise.cli import app
from tests.fuzz.calls import draw_calls, table_calls
from tests.fuzz.forked import Case, Draw
from tests.fuzz.good import make_files, use_folder
from tests.fuzz.grammar import TEXTS, mutate

# --- files -------------------------------------------------------------------------------------


def _with_content(path: Path, read: Callable[[Path], Any], content: bytes) -> None:
    """Read the file with other bytes; afterwards it is as before, and nothing was left there."""
    before, there = path.read_bytes(), set(path.parent.iterdir())
    path.write_bytes(content)
    try:
        read(path)
    finally:
        path.write_bytes(before)
        left = [p for p in set(path.parent.iterdir()) - there if p.suffix == ".part"]
        if left:
            raise AssertionError(f"left behind {left}")


def table_files() -> Iterator[Case]:
    """Each kind of file with each of the odd contents."""
    for kind, (path, read) in make_files().items():
        for content in TEXTS:
            yield Case(f"{kind} = {content[:40]!r}", partial(_with_content, path, read, content))


def draw_files() -> list[Draw]:
    """A good file of each kind, mutated."""

    def draw(kind: str, path: Path, read: Callable[[Path], Any], rng: np.random.Generator) -> Case:
        content = mutate(path.read_bytes(), rng)
        return Case(f"{kind} mutated {content[:60]!r}", partial(_with_content, path, read, content))

    files = make_files()
    # A mutated sweep is text with a grammar, and worth more cases than a damaged archive.
    kinds = [*files, *["sweep.yaml", "table.csv", "settings of a run"] * 2]
    return [partial(draw, kind, *files[kind]) for kind in kinds]


# --- sweeps ------------------------------------------------------------------------------------

WORDS = ("ERM", "ColoredMNIST", "null", "-1", "1e99", "[]", "{}", "&a [*a]", "~", "'", "|", "*b")
WORDS += ("!!int x", "0x1F", "12:30:45", "2020-01-01", ".inf", "10000000000", "random", "seeds")
KEYS = ("datasets", "algorithms", "samplings", "seeds", "draws", "profile", "settings", "imports")
KEYS += ("hyperparameters", "adjust", "leave_one_domain_out", "test_environments", "<<", "x")


def draw_sweeps() -> list[Draw]:
    """Sweep files of random keys and values."""

    def draw(rng: np.random.Generator) -> Case:
        lines = ["datasets: ColoredMNIST", "algorithms: ERM"]
        for _ in range(int(rng.integers(1, 5))):
            word = WORDS[rng.integers(len(WORDS))]
            key = KEYS[rng.integers(len(KEYS))]
            form = rng.integers(4)
            value = (word, f"[{word}]", f"{{{word}: {word}}}", f"\n  - {word}")[form]
            lines.append(f"{key}: {value}")
        text = "\n".join(lines[int(rng.integers(3)) :])
        return Case(f"sweep {text!r}", partial(parse_sweep, text, execute=False))

    return [draw]


# --- commands ----------------------------------------------------------------------------------

VALUES = ("", "-1", "0", "1e999", "99999999999999999999", "nan", "a", "[/red]", "\x00", "../..")
VALUES += ("/dev/zero", "/dev/null", "{t}", "{p}", "{r}", "{o}", "{n}", "cuda:99", "x=y", "[1", "ü")
VALUES += ("given", "all", "entropy", "a,b", "a,a", "label", "{m}", "JTT", "EIIL", "DFR")
COMMANDS: dict[str, list[str]] = {
    "balance {t} --output {n} --steps 1 --no-report --quiet": [
        *("--label", "--environment", "--features", "--leave-out", "--n-matches", "--latent-dim"),
        *("--caliper", "--metric", "--set", "--steps", "--image-size", "--seed", "--device"),
        *("--n-jobs", "--data-dir", "--output", "--balance-on", "--method", "--covariates"),
        *("--covariate-table", "--exact", "--path"),
    ],
    "balance {t} --output {n} --balance-on given --covariates a --no-report --quiet": [
        *("--method", "--covariates", "--covariate-table", "--exact", "--features", "--caliper"),
    ],
    "balance {m} --path file --image-size 4 --output {n} --steps 1 --no-report --quiet": [
        *("--path", "--image-size", "--covariate-table", "--balance-on", "--label", "--n-jobs"),
    ],
    "export {r} --output {n}.pt2 --format torch": ["--output", "--format", "--selection"],
    "train --dataset {p} --algorithm ERM --test-environment 0 --output {n} --steps 1 --quiet "
    "--sampling random --checkpoint-every 1": [
        *("--dataset", "--algorithm", "--test-environment", "--output", "--sampling", "--seed"),
        *("--set", "--steps", "--checkpoint-every", "--featurizer", "--augmentation"),
        *("--select", "--precision", "--device", "--data-dir", "--num-workers"),
    ],
    "predict {r} --input {i}": [
        *("--input", "--key", "--dataset", "--output", "--selection", "--device", "--data-seed"),
    ],
    "data pack {t} --output {n} --quiet": [
        *("--output", "--label", "--environment", "--features", "--image-size", "--on-broken"),
        *("--data-dir", "--n-jobs"),
    ],
    "data check {f} --quiet": ["--dataset", "--ignore", "--show", "--n-jobs"],
    "data features {p} --output {n} --backbone x.py:y --quiet": ["--backbone", "--batch-size"],
    "sweep {s} --dry-run": ["--output", "--workers", "--device", "--data-dir", "--cpus-per-run"],
    "table {r}": ["--selection", "--spread", "--by", "--where", "--format"],
    "report {o} --output {n}.html --quiet": ["--data", "--label", "--image-size", "--cache"],
    "plot love {o} --output {n}.png": ["--in", "--data", "--features", "--seed", "--output"],
    "import-sweep {f}": ["--selection", "--spread"],
    "list datasets": ["--json"],
    "reproduce table1 --output {n} --runs {n}": ["--profile", "--seeds", "--workers", "--set"],
    "theory balance --quick --output {o}": ["--seed", "--jobs"],
}
# What would train for long if it were allowed.
LONG = ("reproduce", "theory", "sweep")


def list_places() -> dict[str, str]:
    root = use_folder()
    make_files()
    return {
        "t": str(root / "t.csv"),
        "p": str(root / "packed"),
        "r": str(root / "run"),
        "o": str(root / "out"),
        "i": str(root / "in.csv"),
        "s": str(root / "s.yaml"),
        "f": str(root / "photos"),
        "m": str(root / "photos.csv"),
        "n": str(root / "new"),
    }


def _command(arguments: list[str]) -> None:
    new = Path(list_places()["n"])
    (use_folder() / "here").mkdir(exist_ok=True)
    os.chdir(use_folder() / "here")  # what a command writes to a relative path belongs to nobody
    try:
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        if result.exit_code not in (0, 1, 2):
            raise AssertionError(f"exit code {result.exit_code}: {result.output[-300:]}")
        if "Traceback" in result.output:
            raise AssertionError(result.output[-500:])
    except (ValueError, TypeError, OSError, ImportError) as error:
        # Whatever leaves a command is raw, even an error of ours.
        raise AssertionError(f"{type(error).__name__}: {error}") from error
    finally:
        for path in new.parent.glob("new*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        os.chdir(use_folder())
        shutil.rmtree(use_folder() / "here")


def _is_harmless(command: str, option: str, value: str) -> bool:
    """Leave out what is no mistake and takes long or writes to where the tests live."""
    if command.startswith(LONG) and option in ("--seed", "--seeds", "--workers", "--jobs"):
        return value not in ("0", "99999999999999999999")
    return not (option == "--output" and value == "../..")


def table_commands() -> Iterator[Case]:
    """Each option of each command with each odd value."""
    places = list_places()
    for command, options in COMMANDS.items():
        base = [part.format(**places) for part in command.split()]
        for option in options:
            for value in VALUES:
                if not _is_harmless(command, option, value):
                    continue
                given = value.format(**places) if value.startswith("{") else value
                arguments = [*base, option, given]
                yield Case(
                    f"equipoise {' '.join(command.split()[:2])} {option} {value!r}",
                    partial(_command, arguments),
                )


def draw_commands() -> list[Draw]:
    """Two options of a command at once."""

    def draw(rng: np.random.Generator) -> Case:
        places = list_places()
        command = list(COMMANDS)[rng.integers(len(COMMANDS))]
        arguments = [part.format(**places) for part in command.split()]
        told = []
        while len(told) < 2:
            option = COMMANDS[command][rng.integers(len(COMMANDS[command]))]
            value = VALUES[rng.integers(len(VALUES))]
            if _is_harmless(command, option, value):
                arguments += [option, value.format(**places) if value.startswith("{") else value]
                told.append(f"{option} {value!r}")
        return Case(f"equipoise {command[:20]} {' '.join(told)}", partial(_command, arguments))

    return [draw]


TABLES = {"calls": table_calls, "files": table_files, "commands": table_commands}
DRAWS = {
    "calls": draw_calls,
    "files": draw_files,
    "sweeps": draw_sweeps,
    "commands": draw_commands,
}


def draw_cases(area: str, n: int, seed: int) -> list[Case]:
    """`n` random cases of an area."""
    rng = np.random.default_rng([seed, len(area)])
    draws = DRAWS[area]()
    return [draws[i % len(draws)](rng) for i in range(n)]
