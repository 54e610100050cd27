"""Figures 3, 4 and 5 of the paper: batches, accuracy over settings, and what z carries."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch

from equipoise.balance import balanced_frequencies, effective_sample_size
from equipoise.benchmark import (
    Cell,
    ResultTable,
    Row,
    SelectedRun,
    SweepResult,
    TrainedRun,
    load_run,
    make_batches,
    pivot_runs,
    select_runs,
    tabulate_epoch,
)
from equipoise.data import EnvironmentDataset, get_dataset, split_environments
from equipoise.diagnosis import cross_table, mutual_information, same_covariate_rate
from equipoise.exhibits.request import (
    CEILING,
    SAMPLINGS,
    Exhibit,
    ExhibitRequest,
    as_record,
    fit_exhibit,
)
from equipoise.progress import track
from equipoise.report import (
    decode_counterfactuals,
    draw_batches,
    draw_counterfactuals,
    draw_curves,
)


def reproduce_figure3(request: ExhibitRequest, *, dataset: str = "ColoredMNIST10") -> Exhibit:
    """Draw the first batch of each kind, and count labels and colours over an epoch."""
    settings, data, balancer = fit_exhibit(request, dataset)
    first = {
        name: make_batches(settings[name], data, balancer=balancer).draw_step(0)[0]
        for name in SAMPLINGS
    }
    tables = {name: tabulate_epoch(settings[name], data, balancer) for name in SAMPLINGS}
    information = {name: mutual_information(table) for name, table in tables.items()}
    assert data.train.covariate is not None  # or there would be no tables
    rate = same_covariate_rate(balancer.matches_, data.train.covariate)
    rows = {
        name: 100.0 * table.max(axis=1) / np.maximum(table.sum(axis=1), 1)
        for name, table in tables.items()
    }
    covariate = data.train.covariate_name
    shown = ResultTable(
        "Figure 3: a random and a balanced batch",
        ("batches",),
        tuple(data.train.label_names),
        _make_rows(rows),
        (f"{dataset}: share of a label's commonest {covariate} over an epoch of batches, in %.",),
    )
    left = information["balanced"] / information["random"]
    verdict = "Confirmed" if left < 0.05 else "Not confirmed"
    told = (
        f"{verdict} that in balanced batches every label has every {covariate} alike: of the "
        f"mutual information of {covariate} and label in random batches "
        f"({information['random']:.3f} nats) balanced ones keep {100 * left:.2f} %; "
        f"{100 * rate:.2f} % of the matches have their anchor's {covariate}, which was never shown."
    )
    records = {
        "dataset": dataset,
        "same_covariate_rate": rate,
        "mutual_information": information,
        "label_by_covariate": {name: table.tolist() for name, table in tables.items()},
        "batch": {name: data.train.indices[rows].tolist() for name, rows in first.items()},
    }
    return request.write(
        "figure3",
        records=records,
        tables=[shown],
        figure=draw_batches(data.train, first["random"], first["balanced"]),
        sentences=(told,),
    )


def _make_rows(percent: Mapping[str, Iterable[float]]) -> tuple[Row, ...]:
    return tuple(
        Row((name,), tuple(Cell(float(each), None, 1) for each in values))
        for name, values in percent.items()
    )


SHOWN = 6
MEASURED = 500
KEPT = 0.95  # of the reconstructions must have the colour, or it counts as lost


def reproduce_figure5(request: ExhibitRequest, *, dataset: str = "ColoredMNIST") -> Exhibit:
    """Draw a few reconstructions, and count in many whether the colour stays when y changes."""
    _, data, balancer = fit_exhibit(request, dataset, balance_on="all")
    train, codes = data.train, np.searchsorted(balancer.environments_, data.train.environments)
    if train.covariate is None or train.input_shape[0] != int(train.covariate.max()) + 1:
        raise ValueError(
            f"Figure 5 counts colours: it needs a dataset with a channel for each colour, got "
            f"{dataset}"
        )
    model = balancer.latent_model_
    assert model is not None  # with balance_on="all"
    few, many = (np.arange(min(n, len(train))) for n in (SHOWN, MEASURED))
    figure = draw_counterfactuals(model, train, few, train.labels[few], codes[few])
    with torch.no_grad():
        found = decode_counterfactuals(model, train, many, train.labels[many], codes[many])
    # [example, label, channel, …] -> brightness of every channel
    brightest = found.decoded.flatten(3).sum(dim=3).argmax(dim=2).cpu().numpy()
    same = brightest == train.covariate[many][:, None]
    # Shares of reconstructions of the example's colour: [its label, label decoded with]
    kept = np.array([same[train.labels[many] == y].mean(axis=0) for y in range(train.n_labels)])
    table = ResultTable(
        "Figure 5: reconstructions with z kept and y changed",
        ("label of the example",),
        tuple(f"y = {name}" for name in train.label_names),
        _make_rows(dict(zip(train.label_names, 100.0 * kept, strict=True))),
        (
            f"{dataset}: reconstructions whose brightest channel is the example's own "
            f"{train.covariate_name}, in %, by the label they were decoded with.",
        ),
    )
    share = float(kept.mean())
    verdict = "Confirmed" if share >= KEPT else "Not confirmed"
    told = (
        f"{verdict} that z keeps the {train.covariate_name}: it stays in {100 * share:.1f} % of "
        "the reconstructions, whatever label they are decoded with."
    )
    return request.write(
        "figure5",
        records={"dataset": dataset, "colour_kept": kept.tolist(), "mean": share},
        tables=[table],
        figure=figure,
        sentences=(told,),
    )


DEGREES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MATCHES = (1, 2, 4, 6, 9)
NOISE = 0.5  # points: less is no change


def reproduce_figure4a(
    request: ExhibitRequest, *, dataset: str = "ColoredMNIST10", points: Sequence[float] = DEGREES
) -> Exhibit:
    """Oracle batches, matched on the true colour, of which a fraction β is balanced."""
    title, axis = "Figure 4a: degree of balancing β, oracle batches", "degree of balancing β"
    swept, selected = request.vary(dataset, "oracle", "degree_of_balancing", points)
    return _draw_curve(request, "figure4a", title, axis, tell_degree, swept, selected)


def reproduce_figure4b(
    request: ExhibitRequest, *, dataset: str = "ColoredMNIST10", points: Sequence[int] = MATCHES
) -> Exhibit:
    """Learned matches, a of them for every anchor, in batches of the same size."""
    title = "Figure 4b: number of matched examples a, balanced batches"
    beside, told = describe_batches(request, dataset, points)
    swept, selected = request.vary(dataset, "balanced", "n_matches", points)
    return _draw_curve(
        request,
        "figure4b",
        title,
        "matched examples a",
        tell_matches,
        swept,
        selected,
        tables=(beside,),
        sentences=(told,),
    )


def describe_batches(
    request: ExhibitRequest, dataset: str, points: Sequence[int]
) -> tuple[ResultTable, str]:
    """What a changes in the batches of the first seed: repetition and balance, not the matches."""
    _, data, balancer = fit_exhibit(request, dataset)
    matches, labels, covariate = balancer.matches_, data.train.labels, data.train.covariate
    if covariate is None:
        raise ValueError(f"Figure 4b counts colours, and the covariate of {dataset} is not known")
    shape = (data.train.n_labels, int(covariate.max()) + 1)
    random = mutual_information(cross_table(labels, covariate, shape))
    sizes, left = [], []
    for a in points:
        weights = balanced_frequencies(matches, a)
        table = np.zeros(shape)
        np.add.at(table, (labels, covariate), weights)
        sizes.append(100.0 * effective_sample_size(weights) / len(labels))
        left.append(100.0 * mutual_information(table) / random)
    name, rate = data.train.covariate_name, same_covariate_rate(matches, covariate)
    rows = {f"{name} and label, mutual information left": left, "effective sample size": sizes}
    beside = ResultTable(
        "What changes in the batches with a",
        ("of the batches of seed 0",),
        tuple(f"{a:g}" for a in points),
        _make_rows(rows),
        ("In % of random batches and of the number of training examples, expected over batches.",),
    )
    return beside, (
        f"At every a, {100 * rate:.2f} % of the matches have their anchor's {name}: the nearest "
        "example of a label does not depend on how many labels are drawn. With a grows the share "
        "of the batch that is matches, and with it how often an example is repeated."
    )


def _draw_curve(
    request: ExhibitRequest,
    name: str,
    title: str,
    axis: str,
    judge: Callable[[Row, Sequence[str]], str],
    swept: SweepResult,
    selected: Sequence[SelectedRun],
    *,
    tables: Sequence[ResultTable] = (),
    sentences: Sequence[str] = (),
) -> Exhibit:
    columns, rows = pivot_runs(
        selected,
        row=lambda run: (run.selection,),
        column=lambda run: f"{next(iter(run.by.values())):g}",
        paper=False,
    )
    note = (
        f"{selected[0].dataset}, ERM: out-of-domain accuracy in %, mean ± standard deviation over "
        f"seeds, against {axis}. The paper shows this as a curve without numbers."
    )
    table = ResultTable(title, ("selection",), columns, rows, (note,))
    return request.write(
        name,
        records=[as_record(run) for run in selected],
        tables=[table, *tables],
        figure=draw_curves(table, axis=axis, ceiling=CEILING),
        sentences=[*(judge(row, columns) for row in rows[:1] if len(columns) > 1), *sentences],
        swept=swept,
    )


def tell_degree(row: Row, columns: Sequence[str]) -> str:
    """Whether more balancing means more accuracy, as the paper finds."""
    cells = [cell for cell in row.cells if cell is not None]
    falls = [
        f"from {cells[i].mean:.1f} at β = {columns[i]} to {cells[i + 1].mean:.1f} at "
        f"β = {columns[i + 1]}"
        for i in range(len(cells) - 1)
        if _exceeds_noise(cells[i + 1], cells[i])
    ]
    ends = (
        f"from {cells[0].mean:.1f} at β = {columns[0]} to {cells[-1].mean:.1f} at "
        f"β = {columns[-1]}{_tell_error(cells[0], cells[-1])}"
    )
    if not _exceeds_noise(cells[0], cells[-1]):
        return f"Not confirmed that balancing helps: accuracy goes {ends}."
    if falls:
        return f"Confirmed in the main: accuracy rises {ends}, but falls {', '.join(falls)}."
    return f"Confirmed: the more is balanced, the higher the accuracy, which rises {ends}."


def tell_matches(row: Row, columns: Sequence[str]) -> str:
    """Whether accuracy rises with a, then stays or falls a little, as the paper finds."""
    cells = [cell for cell in row.cells if cell is not None]
    first, last = cells[0], cells[-1]
    place = max(range(len(cells)), key=lambda i: cells[i].mean)
    best = cells[place]
    seen = (
        f"accuracy is {first.mean:.1f} at a = {columns[0]}, highest with {best.mean:.1f} at "
        f"a = {columns[place]}, and {last.mean:.1f} at a = {columns[-1]}"
        f"{_tell_error(best, last)}"
    )
    if not _exceeds_noise(first, best):
        return f"Not confirmed that more matches help: {seen}."
    if not _exceeds_noise(last, best):
        return f"Confirmed that accuracy first rises with a; it does not fall at large a: {seen}."
    return f"Confirmed: accuracy first rises with a and then falls a little: {seen}."


def _standard_error(one: Cell, other: Cell) -> float:
    """Of the difference of two means over seeds."""
    return math.sqrt(sum((cell.spread or 0.0) ** 2 / cell.n for cell in (one, other)))


def _exceeds_noise(lower: Cell, higher: Cell) -> bool:
    """Whether the higher mean is higher by more than two standard errors."""
    return higher.mean - lower.mean > max(NOISE, 2 * _standard_error(lower, higher))


def _tell_error(one: Cell, other: Cell) -> str:
    error = _standard_error(one, other)
    return f" (standard error of the difference {error:.1f})" if error else ""


TRAINING = (0.1, 0.2)
POINTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
STEADY = 5.0  # points between the best and the worst environment that count as the same


def reproduce_figure4c(
    request: ExhibitRequest,
    *,
    dataset: str = "ColoredMNIST10",
    points: Sequence[float] = POINTS,
    selection: str = "train-domain",
) -> Exhibit:
    """Train once for each sampling and seed, and test on environments built for the purpose.

    The digits of the test environment stay the same; only how often their colour goes with
    the label changes. The training environments are untouched.
    """
    spec = request.describe_sweep((dataset,))
    swept = request.sweep(spec)
    selected = select_runs(swept.finished(), [selection])
    models = [load_run(swept.directory / run.run, selection=selection) for run in selected]
    data_seed = int(spec.settings.get("data_seed", 0))  # of all runs
    tested = []
    with track(len(points), "testing", enabled=request.verbose) as tracker:
        for done, point in enumerate(points, start=1):
            data = get_dataset(
                dataset,
                data_dir=request.data_dir,
                data_seed=data_seed,
                environments=(*TRAINING, point),
            )
            by = {"test_environment": f"{point:g}"}
            tested += [
                replace(run, ood_accuracy=measure_accuracy(model, data), by=by)
                for run, model in zip(selected, models, strict=True)
            ]
            tracker.reach(done)
    columns, rows = pivot_runs(
        tested,
        row=lambda run: (run.sampling,),
        column=lambda run: run.by["test_environment"],
        paper=False,
    )
    note = (
        f"{dataset}, ERM, trained on 0.1 and 0.2: accuracy in % on the test environment, mean ± "
        f"standard deviation over seeds; checkpoints by {selection} validation, as in the paper, "
        "which shows this as a curve without numbers."
    )
    table = ResultTable("Figure 4c: test environment", ("batches",), columns, rows, (note,))
    return request.write(
        "figure4c",
        records=[as_record(run) for run in tested],
        tables=[table],
        figure=draw_curves(table, axis="test environment e", ceiling=CEILING),
        sentences=[tell_slope(row) for row in rows],
        swept=swept,
    )


def measure_accuracy(trained: TrainedRun, data: EnvironmentDataset) -> float:
    """Accuracy on the train part of the last environment: what a record calls `ood_accuracy`."""
    settings = trained.settings
    split = split_environments(
        data.environments, held_out=settings.held_out, data_seed=settings.data_seed
    )
    rows = split.train[data.environments[split.train] == data.n_environments - 1]
    found = trained.predict(data.subset(rows))
    return float(np.mean(found == data.labels[rows]))


def tell_slope(row: Row) -> str:
    """Whether accuracy falls with the test environment, or stays the same."""
    means = [cell.mean for cell in row.cells if cell is not None]
    first, last, sampling = means[0], means[-1], row.labels[0]
    reach = max(means) - min(means)
    if sampling == "random":
        if first - last > STEADY:
            return (
                f"Confirmed: with random batches accuracy falls from {first:.1f} to {last:.1f} as "
                "colour stops going with the label."
            )
        return f"Not confirmed that random batches fail: {first:.1f} to {last:.1f}."
    if reach <= STEADY:
        return (
            f"Confirmed: with {sampling} batches accuracy stays within {reach:.1f} points over all "
            "test environments."
        )
    return (
        f"Not confirmed that {sampling} batches make accuracy the same everywhere: it varies by "
        f"{reach:.1f} points, from {first:.1f} to {last:.1f}."
    )
