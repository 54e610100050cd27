"""Two comparisons of ours: with group-robust rivals, and of validation rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

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
from equipoise.exhibits.request import (
    CEILING,
    TEST_ENVIRONMENT,
    Exhibit,
    ExhibitRequest,
    tell_failures,
)
from equipoise.exhibits.tables import ALGORITHMS, DATASETS, describe_table1
from equipoise.report import ValidationPoint, draw_categories, draw_validation

OURS = "balanced batches (ours)"
LAST_STEP = "test-domain"  # of one run it takes the last step, whatever the test data say
FEW = 20  # examples below which a group's accuracy says nothing


@dataclass(frozen=True)
class Method:
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


@dataclass(frozen=True)
class RivalResult:
    """One run on the test environment: accuracies from 0 to 1, CPU-seconds of training."""

    dataset: str
    method: str
    told: str
    seed: int
    average_accuracy: float
    worst_group_accuracy: float
    seconds: float


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
    """Where every dataset is, by the name of a published one or the directory of a world."""
    seed = int(request.settings.get("data_seed", 0))
    places = {}
    for name in datasets:
        places[name] = name
        if name in WORLDS:
            place = Path(request.runs) / "worlds" / f"{name.replace(' ', '-')}-{seed}"
            save_dataset(make_world(name, seed), place)
            places[name] = str(place)
    return places


def reproduce_rivals(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = (*DATASETS, *WORLDS),
    methods: Sequence[Method] = METHODS,
) -> Exhibit:
    """Train every method with the same recipe, and test it where the correlation is another."""
    places = _save_worlds(datasets, request)
    names = {place: name for name, place in places.items()}
    specs = [
        request.describe_sweep(
            datasets=tuple(places.values()),
            algorithms=tuple(m.algorithm for m in methods if m.sampling == sampling),
            samplings=(sampling,),
            test_environments=(TEST_ENVIRONMENT,),
        )
        for sampling in dict.fromkeys(method.sampling for method in methods)
    ]
    swept = request.sweep(*specs)
    known = {(method.algorithm, method.sampling): method for method in methods}
    opened: dict[str, EnvironmentDataset] = {}
    found: list[RivalResult] = []
    fits: dict[tuple[str, int], float] = {}
    for run in select_runs(swept.finished(), [LAST_STEP]):
        place = swept.directory / run.run
        model = load_run(place, selection=LAST_STEP)
        data = opened.get(run.dataset) or get_dataset(
            run.dataset, data_dir=request.data_dir, data_seed=model.settings.data_seed
        )
        opened[run.dataset] = data
        method, times = known[run.algorithm, run.sampling], RunDirectory(place).load_times()
        average, worst = measure_groups(model, data)
        found.append(
            RivalResult(
                names[run.dataset],
                method.name,
                method.told,
                run.seed,
                average,
                worst,
                times.get("training", float("nan")),
            )
        )
        # The first run that needs a balancer fits it, the others load it.
        key = (names[run.dataset], run.seed)
        fits[key] = max(fits.get(key, 0.0), times.get("preparation", 0.0))
    found = [
        replace(each, seconds=each.seconds + fits[each.dataset, each.seed])
        if each.method == OURS
        else each
        for each in found
    ]
    table = make_table(found, [method.name for method in methods])
    return request.write(
        "rivals",
        records=[asdict(each) for each in found],
        tables=[table],
        figure=draw_categories(_accuracies_only(table), ceiling=CEILING),
        sentences=(*tell_winners(found), *tell_failures(swept)),
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


def make_table(found: Sequence[RivalResult], order: Sequence[str]) -> ResultTable:
    """Rows by dataset and method, the best of each dataset in bold."""
    groups: dict[tuple[str, str, str], list[RivalResult]] = defaultdict(list)
    for each in sorted(found, key=lambda each: order.index(each.method)):
        groups[each.dataset, each.method, each.told].append(each)
    datasets = list(dict.fromkeys(each.dataset for each in found))
    keys = sorted(groups, key=lambda key: datasets.index(key[0]))
    rows = [
        Row(
            key,
            (
                summarise([each.average_accuracy for each in groups[key]]),
                summarise([each.worst_group_accuracy for each in groups[key]]),
            ),
        )
        for key in keys
    ]
    timed = [
        Row(row.labels, (*row.cells, _mean_time(groups[key])))
        for key, row in zip(keys, mark_best(rows, together=1, by_column=True), strict=True)
    ]
    return ResultTable(
        "Rivals",
        ("dataset", "method", "told about groups"),
        ("average", "worst group", "CPU-seconds"),
        tuple(timed),
        (
            "Accuracy in % on the test environment at the last step, mean ± standard deviation "
            "over seeds; groups are (label, covariate). All methods have the same network, recipe "
            "and number of steps. The time of balanced batches includes the balancer.",
        ),
    )


def _mean_time(group: Sequence[RivalResult]) -> Cell:
    return Cell(float(np.mean([each.seconds for each in group])), None, len(group))


def _accuracies_only(table: ResultTable) -> ResultTable:
    rows = tuple(Row((" ".join(row.labels[:2]),), row.cells[:2]) for row in table.rows)
    return replace(table, rows=rows, columns=table.columns[:2], label_names=("method",))


def tell_winners(found: Sequence[RivalResult]) -> list[str]:
    """Who has the best worst group on each dataset, and how far ours is from it."""
    told = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        worst: dict[str, list[float]] = defaultdict(list)
        for each in found:
            if each.dataset == dataset:
                worst[each.method].append(100.0 * each.worst_group_accuracy)
        means = {method: float(np.mean(values)) for method, values in worst.items()}
        best = max(means, key=lambda method: means[method])
        said = f"{dataset}: {best} has the highest worst-group accuracy, {means[best]:.1f} %"
        if best != OURS and OURS in means:
            said += f"; {OURS} reach {means[OURS]:.1f} %"
        told.append(said + ".")
    return told


RULES = ("balanced", "train-domain")
POOLED = "either"
ENOUGH = 1.0  # points that the chosen checkpoint may fall short of the best


@dataclass(frozen=True)
class Shortfall:
    """Points of accuracy that a rule's checkpoint lacks to the best one of the same choice.

    The choice is among the checkpoints of one run, or, where `sampling` is "either", among
    those of the runs with every kind of batches.
    """

    dataset: str
    sampling: str
    algorithm: str
    seed: int
    selection: str
    shortfall: float


def reproduce_validation(
    request: ExhibitRequest,
    *,
    datasets: Sequence[str] = DATASETS,
    algorithms: Sequence[str] = ALGORITHMS,
) -> Exhibit:
    """Read the runs of Table 1, training those that are missing, and compare the two rules."""
    swept = request.sweep(describe_table1(request, datasets=datasets, algorithms=algorithms))
    runs = [
        run for run in swept.finished() if run.records[0].balanced_validation_accuracy is not None
    ]
    shortfalls = measure_shortfalls(runs)
    points = [point for run in runs for point in _list_points(run)]
    tables = [_tabulate_shortfalls(shortfalls), _tabulate_errors(points)]
    return request.write(
        "validation",
        records={
            "shortfalls": [asdict(each) for each in shortfalls],
            "checkpoints": [asdict(point) for point in points],
        },
        tables=tables,
        figure=draw_validation(points),
        sentences=(*_tell(shortfalls), *tell_failures(swept)),
    )


def measure_shortfalls(runs: Sequence[FinishedRun]) -> list[Shortfall]:
    """For every run and rule, and for the choice between the samplings of an algorithm and seed."""
    choices: dict[tuple[str, str, str, int], list[Record]] = defaultdict(list)
    for run in runs:
        for sampling in (run.sampling, POOLED):
            choices[run.dataset, sampling, run.algorithm, run.seed] += run.records
    return [
        Shortfall(*choice, selection=rule, shortfall=_measure(records, rule))
        for choice, records in choices.items()
        for rule in RULES
    ]


def _measure(records: Sequence[Record], rule: str) -> float:
    chosen = max(records, key=lambda record: _validation(record, rule))
    return 100.0 * (max(map(_ood, records)) - _ood(chosen))


def _ood(record: Record) -> float:
    assert record.ood_accuracy is not None  # the runs have a test environment
    return record.ood_accuracy


def _validation(record: Record, rule: str) -> float:
    balanced = record.balanced_validation_accuracy
    return (balanced or 0.0) if rule == "balanced" else record.validation_accuracy


def _list_points(run: FinishedRun) -> list[ValidationPoint]:
    return [
        ValidationPoint(
            dataset=run.dataset,
            sampling=run.sampling,
            algorithm=run.algorithm,
            seed=run.seed,
            step=record.step,
            selection=rule,
            validation_accuracy=_validation(record, rule),
            ood_accuracy=_ood(record),
        )
        for record in run.records
        for rule in RULES
    ]


def _tabulate_shortfalls(shortfalls: Sequence[Shortfall]) -> ResultTable:
    groups: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in shortfalls:
        groups[each.dataset, each.sampling][each.selection].append(each.shortfall)
    rows = []
    for labels, by_rule in sorted(groups.items()):
        cells = []
        for rule in RULES:
            values = np.array(by_rule[rule])
            spread = float(values.std(ddof=1)) if len(values) > 1 else None
            cells += [
                Cell(float(values.mean()), spread, len(values)),
                Cell(float(values.max()), None, len(values)),
            ]
        rows.append(Row(labels, tuple(cells)))
    columns = tuple(f"{rule}, {what}" for rule in RULES for what in ("mean", "worst"))
    return ResultTable(
        "How far the chosen checkpoint falls short of the best, in points",
        ("dataset", "batches"),
        columns,
        tuple(rows),
        (
            "Mean ± standard deviation over algorithms and seeds, and the worst of them. 'either': "
            "the rule chooses among the checkpoints of random and of balanced batches.",
        ),
    )


def _tabulate_errors(points: Sequence[ValidationPoint]) -> ResultTable:
    """How far the estimate is from the accuracy it stands for."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for point in points:
        error = 100.0 * abs(point.validation_accuracy - point.ood_accuracy)
        groups[point.dataset, point.sampling][point.selection].append(error)
    rows = [
        Row(
            labels,
            tuple(
                Cell(float(np.mean(by_rule[rule])), float(np.std(by_rule[rule])), 1)
                for rule in RULES
            ),
        )
        for labels, by_rule in sorted(groups.items())
    ]
    return ResultTable(
        "How far validation accuracy is from out-of-domain accuracy, in points",
        ("dataset", "batches"),
        RULES,
        tuple(rows),
        ("Mean and standard deviation of the absolute difference over all checkpoints.",),
    )


def _tell(shortfalls: Sequence[Shortfall]) -> list[str]:
    told = []
    for dataset in dict.fromkeys(each.dataset for each in shortfalls):
        means = {
            (sampling, rule): _mean(shortfalls, dataset, sampling, rule)
            for sampling in ("balanced", POOLED)
            for rule in RULES
        }
        verdict = "within" if means["balanced", "balanced"] <= ENOUGH else "not within"
        told.append(
            f"{dataset}, balanced batches: balanced validation chooses checkpoints {verdict} "
            f"{ENOUGH:g} point of the best ({means['balanced', 'balanced']:.2f} short on average); "
            f"train-domain validation falls {means['balanced', 'train-domain']:.2f} short. To "
            "choose between random and balanced batches as well, balanced validation falls "
            f"{means[POOLED, 'balanced']:.2f} short and train-domain validation "
            f"{means[POOLED, 'train-domain']:.2f}."
        )
    return told


def _mean(shortfalls: Sequence[Shortfall], dataset: str, sampling: str, rule: str) -> float:
    wanted = (dataset, sampling, rule)
    return float(
        np.mean(
            [
                each.shortfall
                for each in shortfalls
                if (each.dataset, each.sampling, each.selection) == wanted
            ]
        )
    )
