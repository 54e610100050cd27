"""Choose a model for a new site without seeing it: balanced validation against plain validation."""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from equipoise import CausalBalancer


def make_site(agreement, n, rng):
    """Three faint signs of the label, and a background in four pixels that goes with it."""
    label = rng.integers(2, size=n)
    background = np.where(rng.random(n) < agreement, label, 1 - label)
    pixels = background[:, None] + 0.3 * rng.normal(size=(n, 4))
    signs = label[:, None] + rng.normal(size=(n, 3))
    return np.concatenate([pixels, signs], axis=1), label


rng = np.random.default_rng(0)
sites = [make_site(agreement, 1500, rng) for agreement in (0.9, 0.75)]
X, y = (np.concatenate(parts) for parts in zip(*sites, strict=True))
site = np.repeat([0, 1], 1500)
held_out = rng.random(len(y)) < 0.3
X_new, y_new = make_site(0.5, 5000, rng)

balancer = CausalBalancer(random_state=0)
balancer.fit(X[~held_out], y[~held_out], site[~held_out])
weights = balancer.balanced_weights(X[held_out], y[held_out], site[held_out])

scales = np.geomspace(0.01, 10, 9)  # how much the model may lean on the background
curves = {"plain validation": [], "balanced validation": [], "new site": []}
for scale in scales:
    view = np.array([scale] * 4 + [1.0] * 3)
    model = LogisticRegression(C=0.01).fit(X[~held_out] * view, y[~held_out])
    correct = model.predict(X[held_out] * view) == y[held_out]
    curves["plain validation"].append(100 * correct.mean())
    curves["balanced validation"].append(100 * np.average(correct, weights=weights))
    curves["new site"].append(100 * model.score(X_new * view, y_new))

figure, axis = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, values), colour in zip(curves.items(), ("#d1495b", "#1d4e6b", "#555555"), strict=True):
    axis.plot(scales, values, marker="o", color=colour, label=name)
axis.set(xscale="log", xlabel="weight of the background", ylabel="accuracy, %")
axis.legend(frameon=False)
for name in ("plain validation", "balanced validation"):
    best = int(np.argmax(curves[name]))
    print(f"{name} chooses a model with {curves['new site'][best]:.0f} % in the new site")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "balanced_validation.png", dpi=130)
