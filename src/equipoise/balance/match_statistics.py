"""How good a matching is: distances, reuse, effective sample size, who was left out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.balance.distances import FloatArray, IntArray

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)


@dataclass(frozen=True)
class MatchReport:
    """How a search went: the engine of each stratum, its time, what was trimmed.

    `recall` is None for exact engines; an approximate one measures it against an exact sample.
    """

    engines: dict[str, int]  # engine -> how many strata it searched
    seconds: float
    trimmed: int = 0
    recall: float | None = None


@dataclass(frozen=True)
class MatchStatistics:
    """What `Matches.statistics()` tells.

    quantiles: quantile -> distance, over the matches at finite distance.
    reuse_histogram: [r] -> how many examples stand in r lists.
    effective_sample_size: [m], (Σw)²/Σw² over a label's examples weighted by their use.
    used: [m], how many different examples of a label are anybody's match.
    unmatched: [m], anchors without a match of that label (their own label aside).
    """

    quantiles: dict[float, float]
    reuse_histogram: IntArray
    effective_sample_size: FloatArray
    used: IntArray
    unmatched: IntArray
    infinite: int
    report: MatchReport | None

    def __str__(self) -> str:
        lines = [
            "distance quantiles  "
            + "  ".join(f"{q:.0%} {d:.3g}" for q, d in self.quantiles.items()),
            f"reuse               at most {len(self.reuse_histogram) - 1}, "
            f"{int(self.reuse_histogram[0]):,} examples never",
            "effective size      " + "  ".join(f"{x:,.0f}" for x in self.effective_sample_size),
            f"unmatched           {int(self.unmatched.sum()):,} "
            f"(and {self.infinite:,} at infinite distance)",
        ]
        if self.report is not None:
            engines = ", ".join(f"{name} ×{n}" for name, n in self.report.engines.items())
            lines.append(f"search              {engines} in {self.report.seconds:.2f} s")
            if self.report.trimmed:
                lines.append(f"trimmed             {self.report.trimmed:,} outside common support")
            if self.report.recall is not None:
                lines.append(f"recall              {self.report.recall:.4f} of the exact matches")
        return "\n".join(lines)


def summarise_matches(
    indices: IntArray, distances: FloatArray, labels: IntArray, report: MatchReport | None
) -> MatchStatistics:
    """Count what stands in a table of matches [N, m, k] of examples with `labels` [N]."""
    n, m, _ = indices.shape
    found = indices >= 0
    finite = distances[found & np.isfinite(distances)]
    cuts = np.quantile(finite, QUANTILES) if finite.size else np.full(len(QUANTILES), np.nan)
    use = np.bincount(indices[found], minlength=n)
    total = np.bincount(labels, weights=use, minlength=m)
    squares = np.bincount(labels, weights=use.astype(np.float64) ** 2, minlength=m)
    without = ~found[:, :, 0]
    without[np.arange(n), labels] = False
    return MatchStatistics(
        quantiles=dict(zip(QUANTILES, cuts.tolist(), strict=True)),
        reuse_histogram=np.bincount(use),
        effective_sample_size=np.divide(total**2, squares, out=np.zeros(m), where=squares > 0),
        used=np.bincount(labels[use > 0], minlength=m),
        unmatched=without.sum(axis=0),
        infinite=int(np.count_nonzero(found & np.isinf(distances))),
        report=report,
    )
