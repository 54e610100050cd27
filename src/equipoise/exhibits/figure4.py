"""Figures 4a and 4b: accuracy against the degree of balancing β and the number of matches a."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.benchmark import ResultTable, Row, select_runs
from equipoise.exhibits.exhibit import Exhibit
from equipoise.exhibits.pivot import pivot_runs, sort_runs
from equipoise.exhibits.request import ExhibitRequest, tell_failures
from equipoise.exhibits.table1 import CEILING, RULES, TEST_ENVIRONMENT, as_record
from equipoise.report import draw_curves

DEGREES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
MATCHES = (1, 2, 4, 6, 9)
NOISE = 0.5  # points: less is no change


def reproduce_figure4a(
    request: ExhibitRequest,
    *,
    dataset: str = "ColoredMNIST10",
    points: Sequence[float] = DEGREES,
) -> Exhibit:
    """Oracle batches, matched on the true colour, of which a fraction β is balanced."""
    return _vary(
        request,
        "figure4a",
        title="Figure 4a: degree of balancing β, oracle batches",
        dataset=dataset,
        sampling="oracle",
        setting="degree_of_balancing",
        points=points,
        axis="degree of balancing β",
    )


def reproduce_figure4b(
    request: ExhibitRequest,
    *,
    dataset: str = "ColoredMNIST10",
    points: Sequence[int] = MATCHES,
) -> Exhibit:
    """Learned matches, a of them for every anchor, in batches of the same size."""
    return _vary(
        request,
        "figure4b",
        title="Figure 4b: number of matched examples a, balanced batches",
        dataset=dataset,
        sampling="balanced",
        setting="n_matches",
        points=points,
        axis="matched examples a",
    )


def _vary(
    request: ExhibitRequest,
    name: str,
    *,
    title: str,
    dataset: str,
    sampling: str,
    setting: str,
    points: Sequence[Any],
    axis: str,
) -> Exhibit:
    specs = [
        request.describe_sweep(
            datasets=(dataset,),
            algorithms=("ERM",),
            samplings=(sampling,),
            test_environments=(TEST_ENVIRONMENT,),
            settings={setting: point},
        )
        for point in points
    ]
    swept = request.sweep(*specs)
    selected = select_runs(swept.finished(), RULES, by=(setting,))
    selected = sort_runs(sorted(selected, key=lambda run: float(run.by[setting])), RULES)
    columns, rows = pivot_runs(
        selected,
        row=lambda run: (run.selection,),
        column=lambda run: f"{run.by[setting]:g}",
        paper=False,
    )
    note = (
        f"{dataset}, ERM: out-of-domain accuracy in %, mean ± standard deviation over seeds, "
        f"against {axis}. The paper shows this as a curve without numbers."
    )
    table = ResultTable(title, ("selection",), columns, rows, (note,))
    judge = tell_degree if setting == "degree_of_balancing" else tell_matches
    told = [judge(table.rows[0], columns)] if rows and len(columns) > 1 else []
    return request.write(
        name,
        records=[as_record(run) for run in selected],
        tables=[table],
        figure=draw_curves(table, axis=axis, ceiling=CEILING),
        sentences=(*told, *tell_failures(swept)),
    )


def tell_degree(row: Row, columns: Sequence[str]) -> str:
    """Whether more balancing means more accuracy, as the paper finds."""
    means = [cell.mean for cell in row.cells if cell is not None]
    falls = [
        f"from {means[i]:.1f} at β = {columns[i]} to {means[i + 1]:.1f} at β = {columns[i + 1]}"
        for i in range(len(means) - 1)
        if means[i + 1] < means[i] - NOISE
    ]
    ends = f"from {means[0]:.1f} at β = {columns[0]} to {means[-1]:.1f} at β = {columns[-1]}"
    if means[-1] <= means[0] + NOISE:
        return f"Not confirmed that balancing helps: accuracy goes {ends}."
    if falls:
        return f"Confirmed in the main: accuracy rises {ends}, but falls {', '.join(falls)}."
    return f"Confirmed: the more is balanced, the higher the accuracy, which rises {ends}."


def tell_matches(row: Row, columns: Sequence[str]) -> str:
    """Whether accuracy rises with a, then stays or falls a little, as the paper finds."""
    means = [cell.mean for cell in row.cells if cell is not None]
    best = max(range(len(means)), key=means.__getitem__)
    rise, fall = means[best] - means[0], means[best] - means[-1]
    seen = (
        f"accuracy is {means[0]:.1f} at a = {columns[0]}, highest with {means[best]:.1f} at "
        f"a = {columns[best]}, and {means[-1]:.1f} at a = {columns[-1]}"
    )
    if rise <= NOISE:
        return f"Not confirmed that more matches help: {seen}."
    if fall <= NOISE:
        return f"Confirmed that accuracy first rises with a; it does not fall at large a: {seen}."
    return f"Confirmed: accuracy first rises with a and then falls a little: {seen}."
