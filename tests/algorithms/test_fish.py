from copy import deepcopy

import torch
from torch.nn.functional import cross_entropy

from .tiny import make_double, tiny_batches


def test_the_weights_move_part_of_the_way_to_a_clone_that_walked_through_the_environments():
    fish = make_double("Fish", n_environments=3, lr=0.05, meta_lr=0.3, weight_decay=0.1)
    theta = torch.nn.Sequential(deepcopy(fish.featurizer), deepcopy(fish.classifier))
    moments = None
    for seed in range(3):
        batches = tiny_batches((9, 7, 4), seed=seed, dtype=torch.float64)
        clone = deepcopy(theta)
        adam = torch.optim.Adam(clone.parameters(), lr=0.05, weight_decay=0.1)
        if moments is not None:
            adam.load_state_dict(moments)
        for x, y in batches:
            adam.zero_grad()
            cross_entropy(clone(x), y).backward()
            adam.step()
        moments = adam.state_dict()
        with torch.no_grad():
            for p, q in zip(theta.parameters(), clone.parameters(), strict=True):
                p.add_(0.3 * (q - p))
        fish.update(batches)
    for ours, slow in zip(fish.parameters(), theta.parameters(), strict=True):
        torch.testing.assert_close(ours, slow, rtol=1e-9, atol=1e-12)
