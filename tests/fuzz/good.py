"""A good file of every kind, in one folder, and how each is read."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import yaml

from equipoise import CausalBalancer
from equipoise.balance_job import balance_dataset
from equipoise.benchmark import RunSettings, execute_run, load_run
from equipoise.benchmark.directory import RunDirectory
from equipoise.benchmark.sweep import read_manifest
from equipoise.benchmark.sweep_file import read_sweep
from equipoise.benchmark.trained import predict_table, read_examples
from equipoise.data import Examples, open_dataset, save_dataset
from equipoise.data.cache import RowStore
from equipoise.files import load_state, read_array, read_json, save_state, write_json

N = 60
RNG = np.random.default_rng(0)
Y, E = np.arange(N) % 2, np.arange(N) // 2 % 2
X = RNG.normal(size=(N, 3)) + Y[:, None]
SCORES = np.log(RNG.dirichlet([1, 1], size=N))
FAST = {"hidden": (4,), "batch_size": 16, "random_state": 0}


_FOLDER: list[Path] = []


def use_folder() -> Path:
    """The folder of all that the cases write, and of the cache."""
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
    root = use_folder()
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
        "table of images": (root / "photos.csv", partial(open_dataset, path="file", image_size=4)),
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

    named = [(str(p.relative_to(root)), *p.parts[-3:-1]) for p in (root / "photos").rglob("*.png")]
    listed = pd.DataFrame(named, columns=["file", "environment", "label"])
    listed.to_csv(root / "photos.csv", index=False)


def _read_packed(path: Path) -> None:
    data = open_dataset(path)
    data.fetch(np.arange(len(data)))


def _read_store(path: Path) -> None:
    store = RowStore(path, (2,), np.float32)
    found = store.find([bytes([i]) * 32 for i in range(5)])
    store.read(found[found >= 0])


def _balance(path: Path) -> None:
    data = Examples(X, Y, E)
    balance_dataset(data, path, report=False, **{**FAST, "max_steps": 2})


def _predict(run: Path, path: Path) -> None:
    trained = load_run(run)
    predict_table(trained, read_examples(path, features=trained.feature_names))
