"""A user's own data from beginning to end: fit, match, and write all there is to keep."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.balance import (
    LazyMatches,
    Matches,
    effective_sample_size,
    write_matches,
    write_weights,
)
from equipoise.balancer import CausalBalancer
from equipoise.balancing import METHODS
from equipoise.checks import check_choice
from equipoise.data import EnvironmentDataset, EnvironmentSubset, fingerprint_data, read_frame
from equipoise.diagnosis import BalanceDiagnostics, summarise_balance
from equipoise.files import (
    make_plain,
    own_directory,
    read_json,
    remove_parts,
    write_json,
    write_whole,
)

SETTINGS = "settings.json"
CHECKPOINT = "fit.safetensors"


@dataclass(frozen=True)
class BalanceResult:
    """The fitted balancer, what was found, and where it was written."""

    balancer: CausalBalancer
    diagnostics: BalanceDiagnostics
    output: Path


def balance_dataset(
    dataset: EnvironmentDataset,
    output: str | Path,
    *,
    leave_out: Sequence[str] = (),
    known: Mapping[str, Any] | None = None,
    covariates: pd.DataFrame | None = None,
    compare: bool = False,
    report: bool = True,
    verbose: bool = False,
    **parameters: Any,
) -> BalanceResult:
    """Fit a `CausalBalancer` and write its matches, weights, summary and report to a directory.

    Interrupted, the same call goes on where it stopped and ends with the same files. A
    directory that holds the result of another call is refused; one that holds only what
    another call began is begun anew, which is said. Matches of very many labels are searched on
    demand and not written, which is said too.

    Parameters
    ----------
    dataset : as `equipoise.data.open_dataset` gives it
    output : directory for balancer.safetensors, matches.parquet, weights.parquet, summary.txt,
        report.html and settings.json
    leave_out : environments that are kept apart, to test on: no example of theirs is looked at
    known : covariates that you know, by name, a value for each example of the dataset
    covariates : what may be spurious, a row for each example of the dataset
    compare : fit all methods, and show them beside each other
    report : write report.html
    parameters : of `CausalBalancer`
    """
    output = Path(output)
    for name in leave_out:
        check_choice("environment to leave out", name, dataset.environment_names)
    codes = [dataset.environment_names.index(name) for name in leave_out]
    rows = np.flatnonzero(~np.isin(dataset.environments, codes))
    training = dataset.subset(rows)
    balancer = CausalBalancer(**parameters, verbose=verbose)
    table = None if covariates is None else covariates.iloc[rows].reset_index(drop=True)
    balancer.check_fit(training, covariates=table)
    sites = np.unique(training.environments)
    if table is None and len(sites) == 1:
        raise ValueError(
            f"every example is of the environment {training.environment_names[sites[0]]!r}, so no "
            "link can be seen to vary: give two environments or more, or covariates that may be "
            "spurious"
        )
    _check_place(output)
    with own_directory(output):
        _begin(output, balancer, training, known, table)
        place = output / "balancer.safetensors"
        if place.is_file():
            balancer = CausalBalancer.load(place)
        else:
            balancer.fit(training, covariates=table, checkpoint=output / CHECKPOINT)
            balancer.save(place)
            _remove_checkpoints(output)
        methods = compare_methods(balancer, training, table) if compare else None
        examined = balancer.examine(training, covariates=balancer.covariates_)
        chosen = {name: np.asarray(values)[rows] for name, values in (known or {}).items()}
        diagnostics = balancer.diagnose(examined, known=chosen or None)
        groups = diagnostics.groups
        place = output / "matches.parquet"
        if isinstance(balancer.matches_, Matches) and not place.is_file():
            write_matches(place, balancer.matches_, groups, rows, verbose=verbose)
        elif isinstance(balancer.matches_, LazyMatches):
            warnings.warn(
                f"matches.parquet is not written: matches of {len(rows):,} examples and "
                f"{len(groups.label_names)} labels are searched on demand. "
                "CausalBalancer.load(…).batch_sampler() draws from them",
                stacklevel=2,
            )
        paths = None if training.paths is None else [str(path) for path in training.paths]
        write_weights(output / "weights.parquet", diagnostics.weights, groups, rows, paths)
        with write_whole(output / "summary.txt") as temporary:
            temporary.write_text(summarise_balance(diagnostics) + "\n", encoding="utf-8")
        if report:
            from equipoise.report import write_report

            write_report(
                output / "report.html",
                balancer,
                examined,
                diagnostics=diagnostics,
                methods=methods,
                seed=int(balancer.random_state or 0),
                verbose=verbose,
            )
        return BalanceResult(balancer, diagnostics, output)


def compare_methods(
    balancer: CausalBalancer, training: EnvironmentDataset, covariates: pd.DataFrame | None
) -> pd.DataFrame:
    """Matching, overlap weights and entropy balancing on the same examples, a row each.

    A method that has no solution has NaN, and a warning says why.
    """
    rows: list[dict[str, Any]] = []
    for method in METHODS:
        fitted = balancer
        if method != balancer.method:
            fitted = CausalBalancer(**{**balancer.get_params(), "method": method, "exact": ()})
            try:
                fitted.fit(training, covariates=covariates)
            except ValueError as error:
                warnings.warn(f"method {method!r} has no solution: {error}", stacklevel=2)
                rows.append({"method": method})
                continue
        found = fitted.diagnose(with_price=False)
        own = found.table[found.table["kind"].isin(["given", "z"])]
        told = found.information[found.information["variable"] == "score"]
        size = effective_sample_size(fitted.weights_)
        rows.append(
            {
                "method": method,
                "effective_sample_size": size,
                "effective_share": size / len(fitted.weights_),
                "largest_weight": float(fitted.weights_.max()),
                "worst_smd_before": float(own["smd_before"].abs().max()),
                "worst_smd_after": float(own["smd_after"].abs().max()),
                "mean_smd_after": float(own["smd_after"].abs().mean()),
                "information_before": float(told["before"].mean()),
                "information_after": float(told["after"].mean()),
            }
        )
    return pd.DataFrame(rows)


def read_covariate_table(
    dataset: EnvironmentDataset, data: str, names: Sequence[str], table: Path | None
) -> pd.DataFrame | None:
    """Covariates by name: columns of the table that holds the data, or of one by file name."""
    if table is None and not names:
        return None
    if table is None and not Path(data).is_file():
        raise ValueError(
            f"{data} is no table with a column {names[0]!r}: name a file of covariates with "
            "--covariate-table"
        )
    if table is not None and dataset.paths is None:
        raise ValueError("--covariate-table goes with images in files; use --covariates")
    place = data if table is None else table
    frame = read_frame(Path(place))
    names = list(names) or list(frame.columns[1:])
    for name in names:
        check_choice(f"covariate of {place}", name, frame)
    if table is None:
        return frame[names]
    by_key = frame.set_index(frame.iloc[:, 0].astype(str))
    twice = by_key.index[by_key.index.duplicated()]
    if len(twice):
        raise ValueError(f"{table} names {twice[0]!r} twice")
    rows = []
    for path in map(str, dataset.paths or ()):
        keys = [key for key in (path, Path(path).name) if key in by_key.index]
        keys = keys or [key for key in by_key.index if path.endswith("/" + key)]
        if not keys:
            raise ValueError(f"{table} has no row for {path}: its first column names files")
        rows.append(keys[0])
    return by_key.loc[rows, names].reset_index(drop=True)


def _check_place(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file; the output is a directory")
    held = [] if not output.is_dir() or (output / SETTINGS).exists() else list(output.iterdir())
    if any(file.name != ".lock" and file.suffix != ".part" for file in held):
        raise ValueError(f"{output} is not empty and holds no result: choose another output")


def _begin(
    output: Path,
    balancer: CausalBalancer,
    training: EnvironmentSubset,
    known: Mapping[str, Any] | None,
    covariates: pd.DataFrame | None,
) -> None:
    """Write down what this directory is about, or see that it is about the same."""
    parameters = balancer.get_params()
    for name in ("verbose", "n_jobs", "device"):  # how it is done, not what comes out
        parameters.pop(name)
    facts: dict[str, Any] = {
        "parameters": make_plain(parameters),
        "data": fingerprint_data(training),
        "examples": len(training),
        "known": sorted(known or {}),
        "covariates": None,
    }
    if covariates is not None:
        text = covariates.to_csv(index=False).encode()
        facts["covariates"] = hashlib.blake2b(text, digest_size=16).hexdigest()
    path = output / SETTINGS
    if path.exists():
        schema = {"parameters": dict, "data": str, "examples": int, "known": [str]}
        found = read_json(path, schema, hint="choose another output, or delete this one")
        if found != facts:
            there, here = found["parameters"], facts["parameters"]
            keys = [key for key in {**here, **there} if there.get(key) != here.get(key)]
            told = {"parameters": f"parameters ({', '.join(keys)})"} if keys else {}
            others = [name for name in facts if found.get(name) != facts[name]]
            differ = " and ".join(told.get(name, name) for name in others)
            # All that a call writes before its first result.
            begun = (SETTINGS, CHECKPOINT, ".lock")
            files = [file for file in output.iterdir() if file.suffix != ".part"]
            if not all(file.name.startswith(begun) for file in files):
                raise ValueError(
                    f"{output} holds the result of other {differ}: choose another output, or "
                    "delete it"
                )
            warnings.warn(
                f"{output} held only the beginning of a fit with other {differ}: it starts over",
                stacklevel=3,
            )
            _remove_checkpoints(output)
    remove_parts(output)
    write_json(path, facts)


def _remove_checkpoints(output: Path) -> None:
    for each in output.glob(f"{CHECKPOINT}*"):  # one for each candidate of an 'auto' choice
        each.unlink()
