"""A user's own data from beginning to end: fit, match, and write all there is to keep."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.matches import write_matches, write_weights
from equipoise.balancer import CausalBalancer
from equipoise.choices import check_choice
from equipoise.data import EnvironmentDataset, EnvironmentSubset, fingerprint_data
from equipoise.diagnosis import BalanceDiagnostics, summarise_balance
from equipoise.files import read_json, remove_parts, write_json, write_whole
from equipoise.locks import own_directory

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
    report: bool = True,
    verbose: bool = False,
    **parameters: Any,
) -> BalanceResult:
    """Fit a `CausalBalancer` and write its matches, weights, summary and report to a directory.

    Interrupted, the same call goes on where it stopped and ends with the same files. A
    directory that holds the result of another call is refused; one that holds only what
    another call began is begun anew, which is said.

    Parameters
    ----------
    dataset : as `equipoise.data.open_dataset` gives it
    output : directory for balancer.safetensors, matches.parquet, weights.parquet, summary.txt,
        report.html and settings.json
    leave_out : environments that are kept apart, to test on: no example of theirs is looked at
    known : covariates that you know, by name, a value for each example of the dataset
    report : write report.html
    parameters : of `CausalBalancer`
    """
    output = Path(output)
    rows = _choose_rows(dataset, leave_out)
    training = dataset.subset(rows)
    balancer = CausalBalancer(**parameters, verbose=verbose)
    balancer.check_fit(training)
    _check_place(output)
    with own_directory(output):
        _begin(output, balancer, training, rows, known)
        balancer = _fit(balancer, training, output)
        chosen = {name: np.asarray(values)[rows] for name, values in (known or {}).items()}
        return _write(output, balancer, training, rows, chosen, report=report, verbose=verbose)


def _write(
    output: Path,
    balancer: CausalBalancer,
    training: EnvironmentSubset,
    rows: NDArray[np.int64],
    chosen: Mapping[str, NDArray],
    *,
    report: bool,
    verbose: bool,
) -> BalanceResult:
    examined = balancer.examine(training)
    diagnostics = balancer.diagnose(examined, known=chosen or None)
    groups = diagnostics.groups
    if not (output / "matches.parquet").is_file():
        write_matches(output / "matches.parquet", balancer.matches_, groups, rows, verbose=verbose)
    write_weights(
        output / "weights.parquet", diagnostics.weights, groups, rows, _name_examples(training)
    )
    with write_whole(output / "summary.txt") as temporary:
        temporary.write_text(summarise_balance(diagnostics) + "\n", encoding="utf-8")
    if report:
        from equipoise.report import write_report

        write_report(
            output / "report.html",
            balancer,
            examined,
            diagnostics=diagnostics,
            seed=int(balancer.random_state),
            verbose=verbose,
        )
    return BalanceResult(balancer, diagnostics, output)


def _choose_rows(dataset: EnvironmentDataset, leave_out: Sequence[str]) -> NDArray[np.int64]:
    codes = []
    for name in leave_out:
        check_choice("environment to leave out", name, dataset.environment_names)
        codes.append(dataset.environment_names.index(name))
    return np.flatnonzero(~np.isin(dataset.environments, codes))


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
    rows: NDArray[np.int64],
    known: Mapping[str, Any] | None,
) -> None:
    """Write down what this directory is about, or see that it is about the same."""
    parameters = balancer.get_params()
    for name in ("verbose", "n_jobs", "device"):  # how it is done, not what comes out
        parameters.pop(name)
    facts = {
        "parameters": parameters,
        "data": fingerprint_data(training),
        "examples": len(rows),
        "known": sorted(known or {}),
    }
    facts = json.loads(json.dumps(facts, default=lambda value: value.item()))  # numpy's numbers
    path = output / SETTINGS
    if path.exists():
        schema = {"parameters": dict, "data": str, "examples": int, "known": [str]}
        found = read_json(path, schema, hint="choose another output, or delete this one")
        if found != facts:
            differ = _list_differences(found, facts)
            if not _is_only_begun(output):
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


def _list_differences(found: dict[str, Any], facts: dict[str, Any]) -> str:
    """What is not the same, parameters by name."""
    differ = []
    for name in facts:
        there, here = found.get(name), facts[name]
        if there == here:
            continue
        if isinstance(there, dict) and isinstance(here, dict):
            keys = [key for key in {**here, **there} if there.get(key) != here.get(key)]
            name += f" ({', '.join(keys)})" if keys else ""
        differ.append(name)
    return " and ".join(differ)


def _fit(balancer: CausalBalancer, training: EnvironmentDataset, output: Path) -> CausalBalancer:
    path, checkpoint = output / "balancer.safetensors", output / CHECKPOINT
    if path.is_file():
        return CausalBalancer.load(path)
    balancer.fit(training, checkpoint=checkpoint)
    balancer.save(path)
    _remove_checkpoints(output)
    return balancer


def _is_only_begun(output: Path) -> bool:
    """Whether there is nothing but what a call writes before its first result."""
    begun = (SETTINGS, CHECKPOINT, ".lock")
    return all(file.name.startswith(begun) or file.suffix == ".part" for file in output.iterdir())


def _remove_checkpoints(output: Path) -> None:
    for each in output.glob(f"{CHECKPOINT}*"):  # one for each candidate of an 'auto' choice
        each.unlink()


def _name_examples(training: EnvironmentSubset) -> list[str] | None:
    """Files of images, where the examples come from files."""
    paths = getattr(training.parent, "paths", None)
    return None if paths is None else [str(paths[row]) for row in training.indices]
