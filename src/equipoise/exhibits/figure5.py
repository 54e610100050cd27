"""Figure 5: reconstructions with z kept and y changed: what does z carry?"""

from __future__ import annotations

import numpy as np
import torch

from equipoise.benchmark import Cell, ResultTable, Row
from equipoise.exhibits.exhibit import Exhibit
from equipoise.exhibits.fitted import FittedBalancer, fit_exhibit
from equipoise.exhibits.request import ExhibitRequest
from equipoise.report import decode_counterfactuals, draw_counterfactuals

SHOWN = 6
MEASURED = 500
KEPT = 0.95  # of the reconstructions must have the colour, or it counts as lost


def reproduce_figure5(request: ExhibitRequest, *, dataset: str = "ColoredMNIST") -> Exhibit:
    """Draw a few reconstructions, and count in many whether the colour stays when y changes."""
    fitted = fit_exhibit(request, dataset)
    train, balancer = fitted.data.train, fitted.balancer
    codes = np.searchsorted(balancer.environments_, train.environments)
    examples = np.arange(min(SHOWN, len(train)))
    figure = draw_counterfactuals(
        balancer.latent_model_, train, examples, train.labels[examples], codes[examples]
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
        balancer.latent_model_, train, examples, train.labels[examples], codes
    )
    # [example, label, channel, …] -> brightness of every channel
    brightest = found.decoded.flatten(3).sum(dim=3).argmax(dim=2).cpu().numpy()
    same = brightest == train.covariate[examples][:, None]
    labels = train.labels[examples]
    return np.array([same[labels == y].mean(axis=0) for y in range(train.n_labels)])
