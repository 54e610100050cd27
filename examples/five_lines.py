"""Balanced batches in five lines: a colour that goes with the label no longer predicts it."""

import numpy as np

from equipoise import CausalBalancer

rng = np.random.default_rng(0)
site, y = rng.integers(2, size=2000), rng.integers(2, size=2000)
colour = np.where(rng.random(2000) < np.where(site == 0, 0.9, 0.7), y, 1 - y)
X = np.stack([colour + 0.1 * rng.normal(size=2000), y + rng.normal(size=2000)], axis=1)

balancer = CausalBalancer(random_state=0).fit(X, y, site)
rows = []
for batch in balancer.batch_sampler(anchors_per_environment=32):
    rows += batch  # train anything on X[batch], y[batch]

print(f"correlation of colour and label: {np.corrcoef(colour, y)[0, 1]:.2f} in the data,")
print(f"{np.corrcoef(colour[rows], y[rows])[0, 1]:.2f} in balanced batches")
