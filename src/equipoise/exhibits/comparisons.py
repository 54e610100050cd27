"""Two comparisons of ours: with group-robust rivals, and of validation rules."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from equipoise.benchmark import (
    Cell,
    FinishedRun,
    Record,
    ResultTable,
    Row,
    RunDirectory,
    TrainedRun,
    load_run,
    mark_best,
    select_runs,
    split_for_run,
    summarise,
)
from equipoise.data import EnvironmentDataset, Examples, get_dataset, save_dataset
from equipoise.exhibits.request import CEILING, Exhibit, ExhibitRequest
from equipoise.exhibits.tables import ALGORITHMS, DATASETS
from equipoise.report import ValidationPoint, draw_categories, draw_validation

OURS = "balanced batches (ours)"
LAST_STEP = "test-domain"  # of one run it takes the last step, whatever the test data say
FEW = 20  # examples below which a group's accuracy says nothing


class Method(NamedTuple):
    """A row of the table: how it trains, and what it is told about groups."""

    name: str
    algorithm: str
    sampling: str
    told: str


METHODS = (
    Method("ERM", "ERM", "random", "nothing"),
    Method(OURS, "ERM", "balanced", "environments"),
    Method("GroupDRO", "GroupDRO", "random", "environments"),
    Method("JTT", "JTT", "random", "nothing"),
    Method("LfF", "LfF", "random", "nothing"),
    Method("EIIL + GroupDRO", "EIIL", "random", "nothing"),
    Method("AFR", "AFR", "random", "nothing"),
    Method("DFR", "DFR", "random", "groups of held-out examples"),
)


WORLDS = ("two-valued covariate", "normal covariate")  # tables whose truth is known
N_WORLD = 6000  # examples of each environment
N_VIEWS = 6  # columns that show the covariate; one shows the label
AGREEMENT = {"first": 0.9, "second": 0.8, "third": 0.1}  # of covariate and label


def make_world(name: str, seed: int) -> Examples:
    """Two labels, a column that is right about them in three of four examples, and a covariate.

    Its correlation with the label is strong in two environments and reversed in the third. No
    classifier can do better than 75 % in all environments. The group of a normal covariate is
    its sign.
    """
    generator = np.random.default_rng([seed, WORLDS.index(name), 0x2177])
    agreement = np.repeat(list(AGREEMENT.values()), N_WORLD)
    sites = np.repeat(list(AGREEMENT), N_WORLD)
    sign = generator.choice([-1.0, 1.0], size=len(sites))
    content = np.where(generator.random(len(sites)) < 0.75, sign, -sign)
    covariate = np.where(generator.random(len(sites)) < agreement, sign, -sign)
    if name == "normal covariate":
        covariate = covariate * np.abs(generator.normal(size=len(sites)))
    views = covariate[:, None] + 0.5 * generator.normal(size=(len(sites), N_VIEWS))
    return Examples(
        np.column_stack([content + 0.1 * generator.normal(size=len(sites)), views]),
        (sign > 0).astype(np.int64),
        sites,
        covariate=(covariate > 0).astype(np.int64),
    )


def _save_worlds(datasets: Sequence[str], request: ExhibitRequest) -> dict[str, str]:
    """The dataset behind each place: a published one by name, a world by its directory."""
    seed = int(request.settings.get("data_seed", 0))
    names = {}
    for name in datasets:
        place = name
        if name in WORLDS:
            place = str(request.runs / "worlds" / f"{name.replace(' ', '-')}-{seed}")
            save_dataset(make_world(name, seed), place)
        names[place] = name
    return names


def reproduce_rivals(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = (*DATASETS, *WORLDS),
    methods: Sequence[Method] = METHODS,
) -> Exhibit:
    """Train every method with the same recipe, and test it where the correlation is another.

    A record is one run on the test environment: accuracies from 0 to 1, CPU-seconds of training.
    """
    names = _save_worlds(datasets, request)
    specs = [
        request.describe_sweep(
            tuple(names),
            [m.algorithm for m in methods if m.sampling == sampling],
            (sampling,),
        )
        for sampling in dict.fromkeys(method.sampling for method in methods)
    ]
    swept = request.sweep(*specs)
    known = {(method.algorithm, method.sampling): method for method in methods}
    data_seed = int(request.settings.get("data_seed", 0))
    opened = {
        place: get_dataset(place, data_dir=request.data_dir, data_seed=data_seed) for place in names
    }
    records = []
    fits: dict[tuple[str, int], float] = defaultdict(float)
    for run in select_runs(swept.finished(), [LAST_STEP]):
        place = swept.directory / run.run
        model = load_run(place, selection=LAST_STEP)
        method, times = known[run.algorithm, run.sampling], RunDirectory(place).load_times()
        average, worst = measure_groups(model, opened[run.dataset])
        records.append(
            {
                "dataset": names[run.dataset],
                "method": method.name,
                "told": method.told,
                "seed": run.seed,
                "average_accuracy": average,
                "worst_group_accuracy": worst,
                "seconds": times.get("training", float("nan")),
            }
        )
        # The first run that needs a balancer fits it, the others load it.
        key = (names[run.dataset], run.seed)
        fits[key] = max(fits[key], times.get("preparation", 0.0))
    found = pd.DataFrame(records)
    ours = found[found.method == OURS]
    preparation = [fits[each.dataset, each.seed] for each in ours.itertuples()]
    found.loc[ours.index, "seconds"] += preparation
    table = _tabulate_rivals(found, methods)
    rows = tuple(Row((" ".join(row.labels[:2]),), row.cells[:2]) for row in table.rows)
    accuracies = replace(table, rows=rows, columns=table.columns[:2], label_names=("method",))
    return request.write(
        "rivals",
        records=found.to_dict("records"),
        tables=[table],
        figure=draw_categories(accuracies, ceiling=CEILING),
        sentences=_tell_winners(found),
        swept=swept,
    )


def measure_groups(model: TrainedRun, data: EnvironmentDataset) -> tuple[float, float]:
    """Accuracy on the test environment, and the lowest of its (label, covariate) groups."""
    split = split_for_run(model.settings, data)
    assert split.test_environment is not None  # rivals are tested
    rows = split.train_parts[split.test_environment]
    right = model.predict(data.subset(rows)) == data.labels[rows]
    others = data.environments if data.covariate is None else data.covariate
    cells = np.stack([data.labels[rows], others[rows]])
    _, groups, counts = np.unique(cells, axis=1, return_inverse=True, return_counts=True)
    rates = np.bincount(groups.reshape(-1), weights=right) / counts
    large = counts >= min(FEW, counts.max())
    return float(right.mean()), float(rates[large].min())


def _tabulate_rivals(found: pd.DataFrame, methods: Sequence[Method]) -> ResultTable:
    """Rows by dataset and method, the best of each dataset in bold."""
    groups = dict(list(found.groupby(["dataset", "method"])))
    rows, times = [], []
    for dataset in found.dataset.unique():
        for method in methods:
            group = groups.get((dataset, method.name))
            if group is not None:
                measured = (group.average_accuracy, group.worst_group_accuracy)
                cells = tuple(summarise(values.tolist()) for values in measured)
                rows.append(Row((dataset, method.name, method.told), cells))
                times.append(Cell(float(group.seconds.to_numpy().mean()), None, len(group)))
    marked = mark_best(rows, together=1, by_column=True)
    return ResultTable(
        "Rivals",
        ("dataset", "method", "told about groups"),
        ("average", "worst group", "CPU-seconds"),
        tuple(Row(row.labels, (*row.cells, t)) for row, t in zip(marked, times, strict=True)),
        (
            "Accuracy in % on the test environment at the last step, mean ± standard deviation "
            "over seeds; groups are (label, covariate). All methods have the same network, recipe "
            "and number of steps. The time of balanced batches includes the balancer.",
        ),
    )


def _tell_winners(found: pd.DataFrame) -> list[str]:
    """Who has the best worst group on each dataset, and how far ours is from it."""
    told = []
    for dataset, group in found.groupby("dataset", sort=False):
        means = (100.0 * group.worst_group_accuracy).groupby(group.method, sort=False).mean()
        best = means.idxmax()
        said = f"{dataset}: {best} has the highest worst-group accuracy, {means[best]:.1f} %"
        if best != OURS and OURS in means:
            said += f"; {OURS} reach {means[OURS]:.1f} %"
        told.append(said + ".")
    return told


RULES = ("balanced", "train-domain")
POOLED = "either"
ENOUGH = 1.0  # points that the chosen checkpoint may fall short of the best


CHOICE = ("dataset", "sampling", "algorithm", "seed")


def reproduce_validation(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> Exhibit:
    """Read the runs of Table 1, training those that are missing, and compare the two rules."""
    swept = request.sweep(request.describe_sweep(datasets, algorithms))
    runs = [
        run for run in swept.finished() if run.records[0].balanced_validation_accuracy is not None
    ]
    shortfalls = measure_shortfalls(runs)
    points = [
        ValidationPoint(
            **{name: getattr(run, name) for name in CHOICE},
            step=record.step,
            selection=rule,
            validation_accuracy=_validation(record, rule),
            ood_accuracy=record.ood_accuracy or 0.0,
        )
        for run in runs
        for record in run.records
        for rule in RULES
    ]
    return request.write(
        "validation",
        records={
            "shortfalls": shortfalls.to_dict("records"),
            "checkpoints": [asdict(point) for point in points],
        },
        tables=[_tabulate_shortfalls(shortfalls), _tabulate_errors(points)],
        figure=draw_validation(points),
        sentences=_tell_shortfalls(shortfalls),
        swept=swept,
    )


def measure_shortfalls(runs: Sequence[FinishedRun]) -> pd.DataFrame:
    """Points of accuracy that each rule's checkpoint lacks to the best one of the same choice.

    The choice is among the checkpoints of one run, or, where `sampling` is "either", among
    those of the runs with every kind of batches.
    """
    choices: dict[tuple[str, str, str, int], list[Record]] = defaultdict(list)
    for run in runs:
        for sampling in (run.sampling, POOLED):
            choices[run.dataset, sampling, run.algorithm, run.seed] += run.records
    found = []
    for choice, records in choices.items():
        best = max(record.ood_accuracy or 0.0 for record in records)
        for rule in RULES:
            chosen = max(records, key=lambda record: _validation(record, rule))
            found.append((*choice, rule, 100.0 * (best - (chosen.ood_accuracy or 0.0))))
    return pd.DataFrame(found, columns=[*CHOICE, "selection", "shortfall"])


def _validation(record: Record, rule: str) -> float:
    balanced = record.balanced_validation_accuracy
    return (balanced or 0.0) if rule == "balanced" else record.validation_accuracy


def _tabulate_shortfalls(found: pd.DataFrame) -> ResultTable:
    rows = []
    for labels, group in found.groupby(["dataset", "sampling"]):
        cells = []
        for rule in RULES:
            values = group.shortfall[group.selection == rule].to_numpy()
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            cells += [
                Cell(float(values.mean()), spread, len(values)),
                Cell(float(values.max()), None, len(values)),
            ]
        rows.append(Row(labels, tuple(cells)))
    return ResultTable(
        "How far the chosen checkpoint falls short of the best, in points",
        ("dataset", "batches"),
        tuple(f"{rule}, {what}" for rule in RULES for what in ("mean", "worst")),
        tuple(rows),
        (
            "Mean ± standard deviation over algorithms and seeds, and the worst of them. 'either': "
            "the rule chooses among the checkpoints of random and of balanced batches.",
        ),
    )


def _tabulate_errors(points: Sequence[ValidationPoint]) -> ResultTable:
    """How far the estimate is from the accuracy it stands for."""
    errors: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        error = 100.0 * abs(point.validation_accuracy - point.ood_accuracy)
        errors[point.dataset, point.sampling][point.selection].append(error)
    return ResultTable(
        "How far validation accuracy is from out-of-domain accuracy, in points",
        ("dataset", "batches"),
        RULES,
        tuple(
            Row(labels, tuple(Cell(float(np.mean(e)), float(np.std(e)), 1) for e in found.values()))
            for labels, found in sorted(errors.items())
        ),
        ("Mean and standard deviation of the absolute difference over all checkpoints.",),
    )


def _tell_shortfalls(found: pd.DataFrame) -> list[str]:
    told = []
    for dataset, group in found.groupby("dataset", sort=False):
        means = group.groupby(["sampling", "selection"]).shortfall.mean()
        own, pooled = (
            {rule: means.get((sampling, rule), np.nan) for rule in RULES}
            for sampling in ("balanced", POOLED)
        )
        verdict = "within" if own["balanced"] <= ENOUGH else "not within"
        told.append(
            f"{dataset}, balanced batches: balanced validation chooses checkpoints {verdict} "
            f"{ENOUGH:g} point of the best ({own['balanced']:.2f} short on average); "
            f"train-domain validation falls {own['train-domain']:.2f} short. To "
            "choose between random and balanced batches as well, balanced validation falls "
            f"{pooled['balanced']:.2f} short and train-domain validation "
            f"{pooled['train-domain']:.2f}."
        )
    return told
