"""What matching found: for every example its nearest examples of every other label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.balance.match_input import check_labels
from equipoise.balance.match_statistics import MatchReport, MatchStatistics, summarise_matches

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class MatchSource(Protocol):
    """What a sampler asks of matches, whether they stand in a table or are made on demand."""

    @property
    def companions(self) -> IntArray | None: ...

    def __len__(self) -> int: ...

    def lookup(self, anchors: IntArray, labels: IntArray) -> IntArray: ...

    def has_match(self, anchors: IntArray) -> BoolArray: ...

    @property
    def matched(self) -> BoolArray: ...


@dataclass(frozen=True, repr=False)
class Matches:
    """The k nearest examples of each label for each of N examples, nearest first.

    indices: [N, m, k], −1 where there is no match (own label, label absent in the
        environment, beyond the caliper); distances: [N, m, k], inf there.
    companions: [N, c] examples of the same label *and* covariate; only oracle matching knows them.
    report: how the search went, where there was one.

    >>> matches = Matches(np.array([[[-1], [1]], [[0], [-1]]]), np.zeros((2, 2, 1)), "kl")
    >>> matches
    Matches(2 examples, 2 labels, k=1, metric='kl', 2 of 2 pairs matched)
    >>> matches.lookup(np.array([0]), np.array([[1]]))
    array([[[1]]])
    """

    indices: IntArray
    distances: FloatArray
    metric: str
    companions: IntArray | None = None
    report: MatchReport | None = None

    def __post_init__(self) -> None:
        if self.indices.ndim != 3 or self.indices.shape != self.distances.shape:
            raise ValueError(
                "indices and distances must have one shape [N, m, k], got "
                f"{self.indices.shape} and {self.distances.shape}"
            )

    @property
    def k(self) -> int:
        return int(self.indices.shape[2])

    def lookup(self, anchors: IntArray, labels: IntArray) -> IntArray:
        """Matches of `anchors` [B] in the `labels` [B, a] asked of each: [B, a, k], −1 for none."""
        return self.indices[np.asarray(anchors)[:, None], labels]

    def has_match(self, anchors: IntArray) -> BoolArray:
        """For which labels each of `anchors` [B] has a match: [B, m]."""
        return np.asarray(self.indices[anchors, :, 0] >= 0)

    @property
    def matched(self) -> BoolArray:
        """Which examples [N] have any match; only they can be anchors of balanced batches."""
        return np.asarray((self.indices[:, :, 0] >= 0).any(axis=1))

    def statistics(self, labels: Any) -> MatchStatistics:
        """Distances, reuse, effective sample size and unmatched counts, given the labels [N]."""
        codes = check_labels(labels, *self.indices.shape[:2])
        return summarise_matches(self.indices, self.distances, codes, self.report)

    def __len__(self) -> int:
        return int(self.indices.shape[0])

    def __repr__(self) -> str:
        n, m, k = self.indices.shape
        found = int(np.count_nonzero(self.indices[:, :, 0] >= 0))
        companions = "" if self.companions is None else f", {self.companions.shape[1]} companions"
        return (
            f"Matches({n:,} examples, {m} labels, k={k}, metric={self.metric!r}, "
            f"{found:,} of {n * (m - 1):,} pairs matched{companions})"
        )
