"""Random search: hyperparameters drawn from DomainBed's distributions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.algorithms import get_algorithm, is_large_image


def draw_search(algorithm: str, draw: int, seed: int, input_shape: Sequence[int]) -> dict[str, Any]:
    """Draw number `draw` of the search of one seed; number 0 leaves everything as it is.

    Only what has a distribution is drawn; the recipe says the rest. Every seed has draws of its
    own, as in DomainBed, so that its spread includes that of the search.

    >>> sorted(draw_search("ERM", 1, 0, (2, 28, 28)))
    ['batch_size', 'lr']
    >>> draw_search("ERM", 0, 0, (2, 28, 28))
    {}
    """
    if draw == 0:
        return {}
    large = is_large_image(input_shape)
    chosen = get_algorithm(algorithm)
    own_seed = int(np.random.SeedSequence([draw, seed, 0x5EA2]).generate_state(1)[0])
    values = chosen.draw_hyperparameters(own_seed, large_images=large)
    return {
        name: values[name]
        for name, hyperparameter in chosen.hyperparameters.items()
        if hyperparameter.draw or (large and hyperparameter.draw_large)
    }
