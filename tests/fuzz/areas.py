"""Cases by area: every public call, every kind of file and every command with bad input."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml
from typer.testing import CliRunner

from equipoise import CausalBalancer
from equipoise.balance import (
    BalancedBatchSampler,
    balanced_frequencies,
    effective_sample_size,
    match_covariate,
    match_scores,
)
from equipoise.balance_job import balance_dataset
from equipoise.benchmark import RunSettings, execute_run, load_run
from equipoise.benchmark.directory import RunDirectory
from equipoise.benchmark.sweep import read_manifest
from equipoise.benchmark.sweep_file import parse_sweep, read_sweep
from equipoise.benchmark.trained import predict_table, read_examples
from equipoise.cli import app
from equipoise.data import (
    Examples,
    as_environments,
    as_source,
    check_folders,
    collect_examples,
    compute_features,
    get_dataset,
    load_backbone,
    open_dataset,
    save_dataset,
    split_environments,
)
from equipoise.data.cache import RowStore
from equipoise.files import load_state, read_array, read_json, save_state, write_json
from tests.fuzz.forked import Case
from tests.fuzz.grammar import COLUMNS, EXAMPLES, SCALARS, TEXTS, mutate

Draw = Callable[[np.random.Generator], Case]
N = 60
RNG = np.random.default_rng(0)
Y, E = np.arange(N) % 2, np.arange(N) // 2 % 2
X = RNG.normal(size=(N, 3)) + Y[:, None]
SCORES = np.log(RNG.dirichlet([1, 1], size=N))
FAST = {"hidden": (4,), "batch_size": 16, "random_state": 0}


def _show(value: Any) -> str:
    try:
        return f"{type(value).__name__} {str(value)[:40]!r}"
    except Exception:
        return type(value).__name__


def _vary(
    name: str, call: Callable[..., Any], good: dict[str, Any], pools: dict[str, tuple]
) -> Iterator[Case]:
    """The call with each argument in turn replaced by each value of its pool."""
    for argument, pool in pools.items():
        for value in pool:
            given = {**good, argument: value}
            yield Case(f"{name}({argument}={_show(value)})", partial(call, **given))


def _vary_some(
    name: str, call: Callable[..., Any], good: dict[str, Any], pools: dict[str, tuple]
) -> Draw:
    """The same with several arguments at once, drawn at random."""

    def draw(rng: np.random.Generator) -> Case:
        chosen = rng.choice(
            list(pools), size=min(len(pools), int(rng.integers(1, 4))), replace=False
        )
        given = {a: pools[a][rng.integers(len(pools[a]))] for a in map(str, chosen)}
        told = ", ".join(f"{a}={_show(v)}" for a, v in given.items())
        return Case(f"{name}({told})", partial(call, **{**good, **given}))

    return draw


# --- calls -------------------------------------------------------------------------------------


def _fit(X: Any = X, y: Any = Y, environments: Any = E, **parameters: Any) -> None:
    steps = "steps" if "steps" in CausalBalancer().get_params() else "max_steps"
    CausalBalancer(**{**FAST, steps: 2, **parameters}).fit(X, y, environments)


MATCHES = match_scores(SCORES, Y, E)


def _sample(**settings: Any) -> None:
    given = {"labels": Y, "environments": E, "anchors_per_environment": 4, "n_matches": 1}
    sampler = BalancedBatchSampler(**{**given, "matches": MATCHES, **settings})
    for number, _ in enumerate(sampler):
        if number == 2:
            break


def _open(place: Any) -> None:
    open_dataset(place)


def _fetch_first(x: Any) -> None:
    source = as_source(x)
    source.fetch(np.arange(min(1, len(source))))


def list_calls() -> list[tuple[str, Callable[..., Any], dict[str, Any], dict[str, tuple]]]:
    """Public calls with good arguments, and the pool for each that may be bad."""
    parameters = [name for name in CausalBalancer().get_params() if name != "verbose"]
    samplers = [
        name
        for name in inspect.signature(BalancedBatchSampler.__init__).parameters
        if name != "self"
    ]
    matching = [
        name
        for name, about in inspect.signature(match_scores).parameters.items()
        if about.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    columns = {"labels": COLUMNS, "environments": COLUMNS}
    steps = 2
    settings = {"dataset": "tiny", "algorithm": "ERM", "steps": steps, "checkpoint_every": 1}
    fields = ("steps", "checkpoint_every", "seed", "sampling", "held_out", "hyperparameters")
    fields += ("n_matches", "anchors_per_environment", "balancer", "test_environment", "precision")
    frame = pd.DataFrame({"a": X[:, 0], "y": Y, "e": E})
    return [
        ("fit", _fit, {}, dict.fromkeys(parameters, SCALARS)),
        ("fit", _fit, {}, {"X": EXAMPLES, "y": COLUMNS, "environments": COLUMNS}),
        (
            "match_scores",
            match_scores,
            {"log_scores": SCORES, "labels": Y, "environments": E},
            {"log_scores": EXAMPLES, **columns, **dict.fromkeys(matching, SCALARS)},
        ),
        (
            "match_covariate",
            match_covariate,
            {"covariate": Y, "labels": Y, "environments": E, "generator": RNG},
            {"covariate": COLUMNS, **columns, "generator": SCALARS, "n_nearest": SCALARS},
        ),
        ("BalancedBatchSampler", _sample, {}, dict.fromkeys(samplers, SCALARS)),
        ("balanced_frequencies", balanced_frequencies, {}, {"matches": SCALARS}),
        ("effective_sample_size", effective_sample_size, {}, {"weights": COLUMNS}),
        (
            "Examples",
            Examples,
            {"X": X, "labels": Y, "environments": E},
            {"X": EXAMPLES, **columns},
        ),
        (
            "collect_examples",
            collect_examples,
            {"X": frame, "label": "y", "environment": "e"},
            {"X": EXAMPLES, "label": SCALARS, "environment": SCALARS, "features": SCALARS},
        ),
        (
            "as_environments",
            as_environments,
            {"x": X, "labels": Y, "environments": E},
            {"x": EXAMPLES, **columns},
        ),
        ("as_source", _fetch_first, {}, {"x": EXAMPLES}),
        (
            "split_environments",
            split_environments,
            {"environments": E},
            {"environments": COLUMNS, "held_out": SCALARS, "data_seed": SCALARS},
        ),
        (
            "compute_features",
            partial(compute_features, Examples(X, Y, E)),
            {"backbone": torch.nn.Linear(3, 2), "cache": _folder() / "features"},
            {"backbone": SCALARS, "batch_size": SCALARS, "device": SCALARS, "cache": SCALARS[:1]},
        ),
        ("load_backbone", load_backbone, {}, {"name": SCALARS}),
        ("get_dataset", get_dataset, {"name": "nothing"}, {"name": SCALARS, "data_dir": SCALARS}),
        ("open_dataset", _open, {}, {"place": SCALARS}),
        (
            "check_folders",
            check_folders,
            {"root": "nothing"},
            {"root": SCALARS, "dataset": SCALARS},
        ),
        ("RunSettings", RunSettings, settings, dict.fromkeys(fields, SCALARS)),
        ("load", CausalBalancer.load, {}, {"path": SCALARS}),
        ("load_run", load_run, {"path": "nothing"}, {"path": SCALARS, "selection": SCALARS}),
    ]


def table_calls() -> Iterator[Case]:
    """Each argument of each call by itself."""
    for name, call, good, pools in list_calls():
        yield from _vary(name, call, good, pools)


def draw_calls() -> list[Draw]:
    """Several arguments at once."""
    return [_vary_some(*each) for each in list_calls()]


# --- files -------------------------------------------------------------------------------------

_FOLDER: list[Path] = []


def _folder() -> Path:
    if not _FOLDER:
        _FOLDER.append(Path(tempfile.mkdtemp(prefix="equipoise-fuzz-")))
        os.environ["EQUIPOISE_CACHE"] = str(_FOLDER[0] / "cache")
    return _FOLDER[0]


def remove_folder() -> None:
    """Remove all that the cases wrote."""
    while _FOLDER:
        shutil.rmtree(_FOLDER.pop(), ignore_errors=True)


def make_files() -> dict[str, tuple[Path, Callable[[Path], Any]]]:
    """A good file of each kind, and how it is read."""
    root = _folder()
    if not (root / "run").exists():
        _write_good_files(root)
    return {
        "table.csv": (root / "t.csv", open_dataset),
        "table.parquet": (root / "t.parquet", open_dataset),
        "arrays.npz": (root / "a.npz", open_dataset),
        "array.npy": (root / "a.npy", read_array),
        "dataset.json": (root / "packed/dataset.json", lambda p: _read_packed(p.parent)),
        "examples.csv": (root / "packed/examples.csv", lambda p: _read_packed(p.parent)),
        "x.npy": (root / "packed/x.npy", lambda p: _read_packed(p.parent)),
        "state": (root / "s.safetensors", load_state),
        "balancer": (root / "out/balancer.safetensors", CausalBalancer.load),
        "settings of balance": (root / "out/settings.json", lambda p: _balance(p.parent)),
        "settings of a run": (
            root / "run/settings.json",
            lambda p: RunDirectory(p.parent).describe(),
        ),
        "records": (root / "run/records.jsonl", lambda p: RunDirectory(p.parent).load_records()),
        "result": (root / "run/result.json", lambda p: RunDirectory(p.parent).load_result()),
        "weights of a run": (
            root / "run/best/train-domain.safetensors",
            lambda p: load_run(p.parents[1]),
        ),
        "manifest": (root / "sweep-x.json", read_manifest),
        "json": (root / "x.json", partial(read_json, schema={"a": int, "b": [str]})),
        "sweep.yaml": (root / "s.yaml", partial(read_sweep, execute=False)),
        "store.json": (root / "store/store.json", lambda p: _read_store(p.parent)),
        "rows.bin": (root / "store/rows.bin", lambda p: _read_store(p.parent)),
        "digests.bin": (root / "store/digests.bin", lambda p: _read_store(p.parent)),
        "input.csv": (root / "in.csv", lambda p: _predict(root / "run", p)),
        "input.npy": (root / "in.npy", lambda p: _predict(root / "run", p)),
        "image": (root / "photos/a/x/0.png", lambda p: open_dataset(p.parents[2], image_size=4)),
    }


def _write_good_files(root: Path) -> None:
    from PIL import Image

    frame = pd.DataFrame(X, columns=list("abc")).assign(label=Y, environment=E)
    frame.to_csv(root / "t.csv", index=False)
    frame.to_parquet(root / "t.parquet")
    np.savez(root / "a.npz", x=X, y=Y, environment=E)
    np.save(root / "a.npy", X)
    np.save(root / "in.npy", X)
    frame[list("abc")].to_csv(root / "in.csv", index=False)
    save_dataset(open_dataset(root / "t.csv"), root / "packed")
    save_state(root / "s.safetensors", {"a": torch.ones(3)}, {"a": 1})
    _balance(root / "out")
    settings = RunSettings(
        dataset="t", algorithm="ERM", sampling="random", steps=2, checkpoint_every=1
    )
    execute_run(settings, open_dataset(root / "t.csv"), root / "run")
    write_json(root / "sweep-x.json", {"version": 2, "sweep": "x", "runs": {"run": "run"}})
    write_json(root / "x.json", {"a": 1, "b": ["c"]})
    (root / "s.yaml").write_text(
        yaml.safe_dump(
            {
                "datasets": [str(root / "t.csv")],
                "algorithms": ["ERM", "IRM"],
                "seeds": 2,
                "settings": {"steps": 2},
                "adjust": [{"only": {"algorithm": "IRM"}, "hyperparameters": {"irm_lambda": 1}}],
            }
        )
    )
    store = RowStore(root / "store", (2,), np.float32)
    with store.writing():
        store.add([bytes([i]) * 32 for i in range(5)], np.ones((5, 2), dtype=np.float32))
    for site in "ab":
        for label in "xy":
            (root / "photos" / site / label).mkdir(parents=True)
            for i in range(2):
                Image.new("RGB", (5, 5), (i, ord(site), ord(label))).save(
                    root / "photos" / site / label / f"{i}.png"
                )


def _read_packed(path: Path) -> None:
    data = open_dataset(path)
    data.fetch(np.arange(len(data)))


def _read_store(path: Path) -> None:
    store = RowStore(path, (2,), np.float32)
    found = store.find([bytes([i]) * 32 for i in range(5)])
    store.read(found[found >= 0])


def _balance(path: Path) -> None:
    data = Examples(X, Y, E)
    steps = "steps" if "steps" in CausalBalancer().get_params() else "max_steps"
    balance_dataset(data, path, report=False, **{**FAST, steps: 2})


def _predict(run: Path, path: Path) -> None:
    trained = load_run(run)
    predict_table(trained, read_examples(path, features=trained.feature_names))


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
COMMANDS: dict[str, list[str]] = {
    "balance {t} --output {n} --steps 1 --no-report --quiet": [
        *("--label", "--environment", "--features", "--leave-out", "--n-matches", "--latent-dim"),
        *("--caliper", "--metric", "--set", "--steps", "--image-size", "--seed", "--device"),
        *("--n-jobs", "--data-dir", "--output"),
    ],
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


def _places() -> dict[str, str]:
    root = _folder()
    make_files()
    return {
        "t": str(root / "t.csv"),
        "p": str(root / "packed"),
        "r": str(root / "run"),
        "o": str(root / "out"),
        "i": str(root / "in.csv"),
        "s": str(root / "s.yaml"),
        "f": str(root / "photos"),
        "n": str(root / "new"),
    }


def _command(arguments: list[str]) -> None:
    new = Path(_places()["n"])
    (_folder() / "here").mkdir(exist_ok=True)
    os.chdir(_folder() / "here")  # what a command writes to a relative path belongs to nobody
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
        os.chdir(_folder())
        shutil.rmtree(_folder() / "here")


def _is_harmless(command: str, option: str, value: str) -> bool:
    """Leave out what is no mistake and takes long or writes to where the tests live."""
    if command.startswith(LONG) and option in ("--seed", "--seeds", "--workers", "--jobs"):
        return value not in ("0", "99999999999999999999")
    return not (option == "--output" and value == "../..")


def table_commands() -> Iterator[Case]:
    """Each option of each command with each odd value."""
    places = _places()
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
        places = _places()
        command = list(COMMANDS)[rng.integers(len(COMMANDS))]
        arguments = [part.format(**places) for part in command.split()]
        told = []
        for _ in range(2):
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
