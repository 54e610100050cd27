"""Figure 3: a random and a balanced batch, and what colour says about the label in each."""

from __future__ import annotations

import numpy as np

from equipoise.benchmark import Cell, ResultTable, Row, make_batches, tabulate_epoch
from equipoise.diagnosis import mutual_information, same_covariate_rate
from equipoise.exhibits.exhibit import Exhibit
from equipoise.exhibits.fitted import fit_exhibit
from equipoise.exhibits.request import ExhibitRequest
from equipoise.exhibits.table1 import SAMPLINGS
from equipoise.report import draw_batches


def reproduce_figure3(request: ExhibitRequest, *, dataset: str = "ColoredMNIST10") -> Exhibit:
    """Draw the first batch of each kind, and count labels and colours over an epoch."""
    fitted = fit_exhibit(request, dataset)
    data, balancer = fitted.data, fitted.balancer
    first = {
        name: make_batches(fitted.settings[name], data, balancer=balancer).draw(0)[0]
        for name in SAMPLINGS
    }
    tables = {name: tabulate_epoch(fitted.settings[name], data, balancer) for name in SAMPLINGS}
    information = {name: mutual_information(table) for name, table in tables.items()}
    assert data.train.covariate is not None  # or there would be no tables
    rate = same_covariate_rate(balancer.matches_, data.train.covariate)
    rows = []
    for name, table in tables.items():
        commonest = 100.0 * table.max(axis=1) / np.maximum(table.sum(axis=1), 1)
        cells = [Cell(float(share), None, 1) for share in commonest]
        rows.append(Row((name,), tuple(cells)))
    covariate = data.train.covariate_name
    shown = ResultTable(
        "Figure 3: a random and a balanced batch",
        ("batches",),
        tuple(data.train.label_names),
        tuple(rows),
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
