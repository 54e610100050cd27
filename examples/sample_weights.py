"""Balancing weights as `sample_weight`: a classifier that survives a reversed correlation."""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from equipoise import CausalBalancer


def make_site(agreement, n, rng):
    """Contrast follows the scanner, which agrees with the label as often as the site says."""
    label = rng.integers(2, size=n)
    scanner = np.where(rng.random(n) < agreement, label, 1 - label)
    contrast, sharpness = scanner + 0.2 * rng.normal(size=(2, n))
    fever = label + 0.8 * rng.normal(size=n)
    return np.stack([contrast, sharpness, fever], axis=1), label


rng = np.random.default_rng(0)
sites = [make_site(agreement, 1500, rng) for agreement in (0.95, 0.8)]
X, y = (np.concatenate(parts) for parts in zip(*sites, strict=True))
site = np.repeat([0, 1], 1500)

balancer = CausalBalancer(random_state=0).fit(X, y, site)
weights = balancer.balanced_weights(X, y, site)
plain = LogisticRegression().fit(X, y)
balanced = LogisticRegression().fit(X, y, sample_weight=weights)

agreements = np.linspace(0.05, 0.95, 10)
new_sites = [make_site(agreement, 4000, rng) for agreement in agreements]
figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for name, model, colour in (("plain", plain, "#d1495b"), ("weighted", balanced, "#1d4e6b")):
    accuracy = [100 * model.score(*new) for new in new_sites]
    axis.plot(100 * agreements, accuracy, marker="o", color=colour, label=name)
    print(f"{name}: {accuracy[0]:.0f} % if the scanner is reversed, {accuracy[-1]:.0f} % at home")
axis.set(
    xlabel="scanner agrees with the label in a new site, %", ylabel="accuracy, %", ylim=(0, 100)
)
axis.legend(frameon=False)
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "sample_weights.png", dpi=130)
