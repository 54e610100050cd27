"""DomainBed's logs read as finished runs, and a sweep with the hyperparameters they chose."""

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from equipoise.algorithms import get_algorithm, list_algorithms
from equipoise.benchmark.selection import CELL, FinishedRun, Record, SelectedRun
from equipoise.files import check_regular
from equipoise.paper import list_environments

FILE = "results.jsonl"


def holds_domainbed(directory: str | Path) -> bool:
    """Whether there are DomainBed's logs below this directory."""
    return next(Path(directory).rglob(FILE), None) is not None


def read_domainbed(directory: str | Path) -> list[FinishedRun]:
    """The runs of a DomainBed sweep, with one or two environments left out.

    Environments of the datasets that the paper has get their names here, those of others their
    position. A last line that was cut off does not count; runs without a line are left out.
    """
    directory = Path(directory)
    if not directory.is_dir():
        raise ValueError(f"there is no directory {directory}")
    files = sorted(directory.rglob(FILE))
    if not files:
        raise ValueError(
            f"no {FILE} below {directory}; expected a DomainBed sweep: a folder for each run with "
            f"its {FILE}"
        )
    runs = []
    for file in files:
        lines = _read_lines(file)
        left_out = lines[0]["args"]["test_envs"] if lines else []
        if len(left_out) not in (1, 2):
            what = "no checkpoint" if not lines else f"{len(left_out)} test environments"
            warnings.warn(f"{file} has {what} and is left out", stacklevel=2)
            continue
        runs.append(_describe(file, lines, directory))
    if not runs:
        raise ValueError(f"no run below {directory} has a checkpoint")
    return runs


def _read_lines(file: Path) -> list[dict[str, Any]]:
    lines = check_regular(file).read_text(encoding="utf-8", errors="replace").splitlines()
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
            _check(values)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if number == len(lines):  # cut off when the run was stopped
                break
            raise ValueError(
                f"{file}, line {number}: not a checkpoint of DomainBed ({error!r})"
            ) from error
        found.append(values)
    return found


def _check(values: Mapping[str, Any]) -> None:
    """Raise if a line lacks what is read from it."""
    args = values["args"]
    _ = [args[name] for name in ("algorithm", "dataset", "trial_seed")]
    int(values["step"]), dict(values["hparams"])
    for position in args["test_envs"]:
        float(values[f"env{position}_in_acc"]), float(values[f"env{position}_out_acc"])


# What a run was told beside its hyperparameters, and our word for it; null if it was not told.
ARGUMENTS = {
    "steps": "steps",
    "checkpoint_freq": "checkpoint_every",
    "holdout_fraction": "held_out",
}


def _describe(file: Path, lines: Sequence[Mapping[str, Any]], directory: Path) -> FinishedRun:
    args = lines[0]["args"]
    n = sum(1 for key in lines[0] if key.startswith("env") and key.endswith("_in_acc"))
    known = list_environments().get(args["dataset"], ())
    names = list(known) if len(known) == n else [str(position) for position in range(n)]
    left_out = [int(position) for position in args["test_envs"]]
    return FinishedRun(
        dataset=args["dataset"],
        algorithm=args["algorithm"],
        sampling="random",
        test_environment=names[left_out[0]],
        validation_environment=names[left_out[1]] if len(left_out) == 2 else None,
        seed=int(args["trial_seed"]),
        hyperparameters=dict(lines[0]["hparams"]),
        records=tuple(_make_record(line, names, left_out) for line in lines),
        arguments={
            own: args[word] for word, own in ARGUMENTS.items() if args.get(word) is not None
        },
        name=file.parent.relative_to(directory).as_posix(),
    )


def _make_record(line: Mapping[str, Any], names: Sequence[str], left_out: Sequence[int]) -> Record:
    inside = {name: float(line[f"env{i}_in_acc"]) for i, name in enumerate(names)}
    outside = {name: float(line[f"env{i}_out_acc"]) for i, name in enumerate(names)}
    trained = [outside[name] for i, name in enumerate(names) if i not in left_out]
    test = names[left_out[0]]
    return Record(
        step=int(line["step"]),
        loss=float(line.get("loss", float("nan"))),
        losses={},
        train_accuracy=inside,
        held_out_accuracy=outside,
        validation_accuracy=sum(trained) / len(trained) if trained else 0.0,
        balanced_validation_accuracy=None,
        ood_accuracy=inside[test],
        ood_held_out_accuracy=outside[test],
    )


# Where DomainBed has another word, for all algorithms or for one.
ADVERSARIAL = {
    "lr_g": "lr",
    "weight_decay_g": "weight_decay",
    "lambda": "dann_lambda",
    "lr": "",  # drawn by DomainBed's search, but used by none of its optimisers
    "weight_decay": "",
}
OTHER_WORDS: dict[str, dict[str, str]] = {
    "DANN": ADVERSARIAL,
    "CDANN": ADVERSARIAL,
    "Fishr": {"lambda": "fishr_lambda"},
}
# Digits: their network has no dropout, though the search draws one.
WITHOUT_DROPOUT = ("Debug28", "RotatedMNIST", "ColoredMNIST")


def write_chosen(
    selected: Sequence[SelectedRun], runs: Sequence[FinishedRun] = ()
) -> tuple[str, list[str]]:
    """A sweep over the same cells and seeds, each with the hyperparameters a rule chose for it.

    From the `runs` among which it chose come the number of steps and the held-out share, where
    their logs have them. The second value names what of the search has no counterpart here.

    >>> run = SelectedRun("PACS", "ERM", "random", "photo", 0, "train-domain", 0.97, 300,
    ...     {"lr": 5e-5, "resnet18": False})
    >>> text, left_out = write_chosen([run])
    >>> left_out, "lr: 5.0e-05" in text
    (['ERM: resnet18'], True)
    """
    known = [run for run in selected if run.algorithm in list_algorithms()]
    strange = {f"algorithm {run.algorithm}" for run in selected if run not in known}
    if not known:
        raise ValueError(
            f"none of the algorithms {', '.join(sorted({r.algorithm for r in selected}))} is known "
            "here: there is nothing to train"
        )
    arguments = {run.name: dict(run.arguments) for run in runs}
    adjust: list[dict[str, Any]] = []
    for run in known:
        hyperparameters, unknown = translate_hyperparameters(
            run.algorithm, run.dataset, run.hyperparameters
        )
        strange |= {f"{run.algorithm}: {name}" for name in unknown}
        only = {name: getattr(run, name) for name in CELL if name != "sampling"}
        told = arguments.get(run.run)
        own = {"settings": told} if told else {}
        adjust.append({"only": only, **own, "hyperparameters": hyperparameters})
    datasets = _unique(run.dataset for run in known)
    content = {
        "datasets": datasets,
        "algorithms": _unique(run.algorithm for run in known),
        "samplings": ["random", "balanced"],
        "test_environments": {
            dataset: _unique(run.test_environment for run in known if run.dataset == dataset)
            for dataset in datasets
        },
        "seeds": sorted({run.seed for run in known}),
        "profile": "domainbed",
        "adjust": adjust,
    }
    head = f"# Hyperparameters chosen by {', '.join(_unique(run.selection for run in known))}.\n"
    return head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True), sorted(strange)


def translate_hyperparameters(
    algorithm: str, dataset: str, found: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Those that the algorithm has here, by its words and within its bounds, and the others.

    >>> translate_hyperparameters("Fishr", "ColoredMNIST", {"lambda": 10.0, "resnet_dropout": 0.5})
    ({'fishr_lambda': 10.0}, ['resnet_dropout'])
    """
    space = get_algorithm(algorithm).hyperparameters
    dropout = "" if dataset in WITHOUT_DROPOUT else "dropout"
    words = {"resnet_dropout": dropout, **OTHER_WORDS.get(algorithm, {})}
    translated, unknown = {}, []
    for name, value in found.items():
        own = words.get(name, name)
        try:
            space[own].check(own, value)
            translated[own] = value
        except (KeyError, ValueError):
            unknown.append(name)
    return translated, unknown


def _unique(values: Any) -> list[Any]:
    return list(dict.fromkeys(values))
