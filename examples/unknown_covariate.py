"""A covariate that nobody recorded: colour and label before and after balancing."""

import sys

import matplotlib.pyplot as plt
import numpy as np

from equipoise import CausalBalancer

rng = np.random.default_rng(0)
n = 3000
site, label = rng.integers(2, size=n), rng.integers(2, size=n)
agrees = rng.random(n) < np.where(site == 0, 0.9, 0.75)
colour = np.where(agrees, label, 1 - label)  # never shown to the balancer
pixels = np.stack([colour, 1 - colour], axis=1) + 0.15 * rng.normal(size=(n, 2))
shape = label[:, None] + rng.normal(size=(n, 1))
X = np.concatenate([pixels, shape], axis=1)

balancer = CausalBalancer(random_state=0).fit(X, label, site)
rows = np.concatenate(list(balancer.batch_sampler(32)))

figure, axes = plt.subplots(1, 2, figsize=(7, 3), sharey=True, layout="constrained")
for axis, title, some in zip(
    axes, ("random batches", "balanced batches"), (np.arange(n), rows), strict=True
):
    share = [np.mean(colour[some][label[some] == y]) for y in (0, 1)]
    axis.bar(["label 0", "label 1"], share, color="#d1495b", label="red")
    axis.bar(["label 0", "label 1"], 1 - np.array(share), bottom=share, color="#2f6f93")
    axis.set_title(title)
    print(f"{title}: {share[0]:.0%} of label 0 and {share[1]:.0%} of label 1 are red")
axes[0].set_ylabel("share of colours")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "unknown_covariate.png", dpi=130)
