"""Figures 3 and 5 of the paper: what is in a batch, and what z carries."""

from __future__ import annotations

import numpy as np
import torch

from equipoise.balancer import CausalBalancer
from equipoise.benchmark import Cell, ResultTable, Row, make_batches, tabulate_epoch
from equipoise.diagnosis import mutual_information, same_covariate_rate
from equipoise.exhibits.request import (
    SAMPLINGS,
    Exhibit,
    ExhibitRequest,
    FittedBalancer,
    fit_exhibit,
)
from equipoise.latent import LatentCovariateModel
from equipoise.report import decode_counterfactuals, draw_batches, draw_counterfactuals


def reproduce_figure3(request: ExhibitRequest, *, dataset: str = "ColoredMNIST10") -> Exhibit:
    """Draw the first batch of each kind, and count labels and colours over an epoch."""
    fitted = fit_exhibit(request, dataset)
    data, balancer = fitted.data, fitted.balancer
    first = {
        name: make_batches(fitted.settings[name], data, balancer=balancer).draw_step(0)[0]
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


SHOWN = 6
MEASURED = 500
KEPT = 0.95  # of the reconstructions must have the colour, or it counts as lost


def reproduce_figure5(request: ExhibitRequest, *, dataset: str = "ColoredMNIST") -> Exhibit:
    """Draw a few reconstructions, and count in many whether the colour stays when y changes."""
    fitted = fit_exhibit(request, dataset, balance_on="all")
    train, balancer = fitted.data.train, fitted.balancer
    codes = np.searchsorted(balancer.environments_, train.environments)
    examples = np.arange(min(SHOWN, len(train)))
    figure = draw_counterfactuals(
        _require_model(balancer), train, examples, train.labels[examples], codes[examples]
    )
    kept = measure_colours(fitted)
    rows = [
        Row((name,), tuple(Cell(100.0 * float(share), None, 1) for share in shares))
        for name, shares in zip(train.label_names, kept, strict=True)
    ]
    table = ResultTable(
        "Figure 5: reconstructions with z kept and y changed",
        ("label of the example",),
        tuple(f"y = {name}" for name in train.label_names),
        tuple(rows),
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


def _require_model(balancer: CausalBalancer) -> LatentCovariateModel:
    if balancer.latent_model_ is None:
        raise ValueError('Figure 5 decodes z: it needs balance_on="all"')
    return balancer.latent_model_


@torch.no_grad()
def measure_colours(fitted: FittedBalancer) -> np.ndarray:
    """Shares [label of the example, label decoded with] of reconstructions of the same colour.

    Of images with a channel for each colour, as ColoredMNIST has them.
    """
    train, balancer = fitted.data.train, fitted.balancer
    if train.covariate is None or train.input_shape[0] != int(train.covariate.max()) + 1:
        raise ValueError(
            f"Figure 5 counts colours: it needs a dataset with a channel for each colour, got "
            f"{fitted.settings['balanced'].dataset}"
        )
    examples = np.arange(min(MEASURED, len(train)))
    codes = np.searchsorted(balancer.environments_, train.environments[examples])
    found = decode_counterfactuals(
        _require_model(balancer), train, examples, train.labels[examples], codes
    )
    # [example, label, channel, …] -> brightness of every channel
    brightest = found.decoded.flatten(3).sum(dim=3).argmax(dim=2).cpu().numpy()
    same = brightest == train.covariate[examples][:, None]
    labels = train.labels[examples]
    return np.array([same[labels == y].mean(axis=0) for y in range(train.n_labels)])
