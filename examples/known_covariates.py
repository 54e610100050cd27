"""Covariates you can name: matching, overlap and entropy weights side by side."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from equipoise.balance import (
    balanced_frequencies,
    effective_sample_size,
    entropy_weights,
    fit_propensity,
    match_scores,
    overlap_weights,
)
from equipoise.diagnosis import standardized_differences

rng = np.random.default_rng(0)
n = 4000
covariates = pd.DataFrame(
    {
        "age": rng.normal(50, 12, size=n),
        "year": rng.integers(2010, 2020, size=n),
        "dose": rng.gamma(2.0, size=n),
    }
)
standard = ((covariates - covariates.mean()) / covariates.std()).to_numpy()
ill = (standard @ [1.0, -0.7, 0.5] + rng.logistic(size=n) > 0).astype(int)
one_site = np.zeros(n, dtype=int)

scores = fit_propensity(covariates, ill).log_scores
weights = {
    "as it is": np.ones(n),
    "matching": balanced_frequencies(match_scores(scores, ill, n_nearest=5)),
    "overlap": overlap_weights(scores, ill).values,
    "entropy": entropy_weights(covariates, ill).values,
}
figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
colours = ("#999999", "#d1495b", "#f2b134", "#1d4e6b")
for (name, values), colour in zip(weights.items(), colours, strict=True):
    differences = standardized_differences(standard, ill, one_site, values)[0]
    size = effective_sample_size(values)
    axis.scatter(differences, covariates.columns, s=60, color=colour, label=name)
    print(f"{name}: largest difference {differences.max():.2f} SD, {size:,.0f} effective examples")
axis.axvline(0.1, color="black", linewidth=0.8, linestyle=":")
axis.set(xlabel="standardised difference between ill and well", xlim=(-0.02, None))
axis.legend(frameon=False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "known_covariates.png", dpi=130)
