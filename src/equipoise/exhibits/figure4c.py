"""Figure 4c: the models of Table 1 on test environments from 0.1 to 0.9."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from equipoise.benchmark import ResultTable, Row, TrainedRun, load_run, select_runs
from equipoise.data import EnvironmentDataset, get_dataset, split_environments
from equipoise.exhibits.exhibit import Exhibit
from equipoise.exhibits.pivot import pivot_runs
from equipoise.exhibits.request import ExhibitRequest, tell_failures
from equipoise.exhibits.table1 import CEILING, SAMPLINGS, TEST_ENVIRONMENT, as_record
from equipoise.progress import track
from equipoise.report import draw_curves

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
    spec = request.describe_sweep(
        datasets=(dataset,),
        algorithms=("ERM",),
        samplings=SAMPLINGS,
        test_environments=(TEST_ENVIRONMENT,),
    )
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
        sentences=(*(tell_slope(row) for row in rows), *tell_failures(swept)),
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
