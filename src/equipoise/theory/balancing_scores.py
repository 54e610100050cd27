"""Theorem 3.6: a function of Z balances if and only if it is finer than the propensity score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.balance import BalancedBatchSampler, match_covariate
from equipoise.diagnosis import cross_table, mutual_information

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# p(y | z) of six values of Z and three labels. Values 0 and 1 have one score, and so have 2 and 3;
# values 4 and 5 agree with 2 in the first label alone.
PROPENSITY = np.array(
    [
        [0.6, 0.3, 0.1],
        [0.6, 0.3, 0.1],
        [0.2, 0.5, 0.3],
        [0.2, 0.5, 0.3],
        [0.2, 0.1, 0.7],
        [0.2, 0.3, 0.5],
    ]
)

# Functions b(Z) as codes of the six values.
FUNCTIONS: dict[str, tuple[int, ...]] = {
    "Z itself": (0, 1, 2, 3, 4, 5),
    "finer than s(Z)": (0, 1, 2, 2, 3, 4),
    "s(Z)": (0, 0, 1, 1, 2, 3),
    "one entry of s(Z)": (0, 0, 1, 1, 1, 1),
    "coarser than s(Z)": (0, 0, 1, 1, 0, 0),
    "a constant": (0, 0, 0, 0, 0, 0),
}


@dataclass(frozen=True)
class BalancingScore:
    """What matching on b(Z) does: dependence left within values of b, and left in batches.

    `left_within` is I(Y; Z | b(Z)) in nats, exactly; `left_in_batches` is I(Y; Z) in balanced
    batches of a finite sample, and `at_first` the same in the sample.
    """

    function: str
    finer: bool
    left_within: float
    left_in_batches: float
    at_first: float


def is_finer(function: Ints, propensity: Floats) -> bool:
    """Whether s(Z) is a function of b(Z): equal codes have equal scores.

    >>> is_finer(np.array([0, 0, 1]), np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]]))
    True
    """
    groups = [propensity[function == code] for code in np.unique(function)]
    return all(np.allclose(group, group[0]) for group in groups)


def conditional_information(joint: Floats, function: Ints) -> float:
    """I(Y; Z | b(Z)) in nats, of a joint distribution [values of Z, labels]."""
    total = 0.0
    for code in np.unique(function):
        part = joint[function == code]
        total += float(part.sum()) * mutual_information(part)
    return total


def examine_functions(n_examples: int, *, seed: int) -> list[BalancingScore]:
    """Match a sample exactly on every function of `FUNCTIONS` and look at what is left.

    All labels are matched (a = m − 1), so a balancing score leaves nothing of I(Y; Z).
    """
    generator = np.random.default_rng([seed, 0x36])
    n_values, m = PROPENSITY.shape
    z = generator.integers(n_values, size=n_examples)
    steps = PROPENSITY[z].cumsum(axis=1)
    labels = (generator.random(n_examples)[:, None] > steps).sum(axis=1).clip(max=m - 1)
    environments = np.zeros_like(labels)
    joint = PROPENSITY / n_values
    found = []
    for name, codes in FUNCTIONS.items():
        function = np.array(codes)
        matches = match_covariate(
            function[z], labels, environments, n_labels=m, generator=generator
        )
        sampler = BalancedBatchSampler(
            labels, environments, matches, anchors_per_environment=100, n_matches=m - 1, seed=seed
        )
        rows = np.concatenate([np.asarray(batch) for batch in sampler])
        found.append(
            BalancingScore(
                function=name,
                finer=is_finer(function, PROPENSITY),
                left_within=conditional_information(joint, function),
                left_in_batches=mutual_information(cross_table(z[rows], labels[rows])),
                at_first=mutual_information(cross_table(z, labels)),
            )
        )
    return found
