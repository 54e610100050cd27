"""Labels and the true covariate in the batches of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.balancer import CausalBalancer
from equipoise.benchmark.run_data import RunData
from equipoise.benchmark.sampling import count_anchors, make_batches
from equipoise.benchmark.settings import RunSettings
from equipoise.diagnosis import cross_table


def tabulate_epoch(
    settings: RunSettings, data: RunData, balancer: CausalBalancer
) -> NDArray[np.int64]:
    """Label × covariate over as many batches as make every example an anchor about once."""
    if data.train.covariate is None:
        raise ValueError(f"the true covariate of {settings.dataset} is not known")
    batches = make_batches(settings, data, balancer=balancer)
    size = len(data.train) // len(data.training_environments)
    anchors = count_anchors(settings, data.train.n_labels, data.train.input_shape)
    n_batches = max(1, size // anchors)
    drawn = np.concatenate([part for t in range(n_batches) for part in batches.draw(t)])
    n_values = int(data.train.covariate.max()) + 1
    return cross_table(
        data.train.labels[drawn], data.train.covariate[drawn], (data.train.n_labels, n_values)
    )
