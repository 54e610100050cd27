"""How matching time grows with N, for every engine, and whether the automatic choice is the best.

Labels of equal size and one environment: a whole matching is m strata of N/m candidates and
N − N/m anchors. One stratum is timed, in processor seconds of one thread, and counted m times,
with what all share (preparing, choosing) counted once; where a stratum would take longer than the
limit, runs of neighbouring anchors stand for it. Ratios within a point are of the same run; where
another engine seems faster than the chosen one, both are timed once more, in turn, and the faster
time of each counts.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.matching import METRICS, colored_mnist10, describe_machine, make_scores
from equipoise.balance.distances import Scores, get_metric
from equipoise.balance.engines.choice import ENGINES, cheapest
from equipoise.balance.engines.kernels import prepare
from equipoise.balance.engines.pruning import partition
from equipoise.checks import require

RESULTS = Path(__file__).parent / "results"
SIZES = {
    2: [10_000, 100_000, 1_000_000, 10_000_000],
    10: [10_000, 30_000, 100_000, 300_000, 1_000_000],
    64: [10_000, 50_000, 200_000],
    345: [10_000, 30_000, 100_000],
}
QUICK = {2: [10_000, 100_000], 10: [10_000, 30_000], 64: [5_000, 10_000], 345: [5_000, 10_000]}


@dataclass(frozen=True)
class Point:
    """Processor seconds of a whole matching, by engine and by the automatic choice."""

    scores: str
    m: int
    n: int
    metric: str
    seconds: dict[str, float]
    chosen: str
    auto: float

    @property
    def regret(self) -> float:
        return self.auto / min(self.seconds.values())


def run(quick: bool) -> None:
    print(describe_machine())
    limit = 0.5 if quick else 2.0
    points = []
    if find_spec("faiss") is not None:
        require("faiss", extra="faiss")  # loaded first, so that its threads are limited as well
    with threadpool_limits(1):
        _warm_up()
        for m, sizes in (QUICK if quick else SIZES).items():
            for spread in (1, 8):
                for n in sizes:
                    log, labels = make_scores(n, m, spread)
                    points += _measure(f"spread {spread}", log, labels, limit)
        log, labels, _ = colored_mnist10(quick)
        for n in (10_000, 20_000, len(log)):
            points += _measure("ColoredMNIST10", log[:n], labels[:n], limit)
    _report(points)
    if not quick:
        _keep(points)


def _warm_up() -> None:
    """Choose once for every metric, so that first uses of a library are on nobody's clock."""
    log, labels = make_scores(10_000, 10, 8)
    for name in METRICS:
        metric = get_metric(name)
        scores = prepare(metric, Scores.from_log(log))
        candidates, anchors = (scores.take(np.flatnonzero(labels == given)) for given in (0, 1))
        cheapest(metric, candidates.bare(), anchors, 1, dict(ENGINES))


def _measure(name: str, log: np.ndarray, labels: np.ndarray, limit: float) -> list[Point]:
    n, m = log.shape
    points = []
    for metric_name in METRICS:
        metric = get_metric(metric_name)
        started = time.thread_time()
        scores = Scores.from_log(log)
        scores = prepare(metric, scores) if m > 2 else scores
        shared = time.thread_time() - started
        candidates = scores.take(np.flatnonzero(labels == 0)).bare()
        anchors = scores.take(np.flatnonzero(labels != 0))
        started = time.thread_time()
        chosen = cheapest(metric, candidates, anchors, 1, dict(ENGINES))
        choosing = time.thread_time() - started
        strata: dict[str, _Stratum] = {}
        for engine in _engines(metric_name, m, len(candidates), chosen):
            best = min((other.seconds for other in strata.values()), default=np.inf)
            strata[engine] = _Stratum(engine, metric, candidates, anchors, limit, best)
        fastest = min(strata, key=lambda engine: strata[engine].seconds)
        if fastest != chosen:
            for engine in (fastest, chosen):
                strata[engine].time_again()
        seconds = {engine: shared + m * stratum.seconds for engine, stratum in strata.items()}
        point = Point(name, m, n, metric_name, seconds, chosen, seconds[chosen] + choosing)
        others = "  ".join(f"{engine} {value:.3g}" for engine, value in seconds.items())
        print(
            f"{name:14} m={m:<4}{metric_name:5} N={n:<11,} auto {point.auto:9.3g} s "
            f"({chosen}, {point.regret:.2f}× the best of: {others})",
            flush=True,
        )
        points.append(point)
    return points


def _engines(metric: str, m: int, n_candidates: int, chosen: str) -> list[str]:
    """Engines worth timing, the chosen one first."""
    names = ["line"] if m == 2 else ["blocked"]
    if metric != "kl" and (m <= 64 or chosen == "kdtree"):
        names.append("kdtree")
    if m > 2 and n_candidates >= 1 << 13:
        names.append("cells")
    if m > 2 and metric != "linf" and find_spec("faiss") is not None:
        names.append("faiss")
    return sorted({*names, chosen}, key=lambda name: name != chosen)


class _Stratum:
    """One stratum searched by an engine; a sample stands for it where it would take too long."""

    def __init__(
        self, engine: str, metric, candidates: Scores, anchors: Scores, limit: float, best: float
    ) -> None:
        started = time.thread_time()
        self._engine = ENGINES[engine](metric, candidates)
        self._building = time.thread_time() - started
        self._anchors = anchors
        order = np.arange(len(anchors))
        if engine in ("cells", "kdtree") and len(anchors) > 8192:
            order, _ = partition(anchors.bare(), 512)
        few = min(len(anchors), 4096)
        self._time(_runs(order, few))
        searching = self.seconds - self._building
        if self._building + 0.5 * searching > 3 * best:
            return  # hopeless: the estimate will do
        if searching < limit or engine == "line":
            self._time(None)
        elif (many := int(len(anchors) * limit / searching)) > 2 * few:
            self._time(_runs(order, many))

    def _time(self, rows: np.ndarray | None) -> None:
        self._rows = rows
        some = self._anchors if rows is None else self._anchors.take(rows)
        started = time.thread_time()
        self._engine.nearest(some, 1)
        searching = (time.thread_time() - started) * len(self._anchors) / len(some)
        self.seconds = self._building + searching

    def time_again(self) -> None:
        """Once more over the same anchors; the faster time counts."""
        before = self.seconds
        self._time(self._rows)
        self.seconds = min(before, self.seconds)


def _runs(order: np.ndarray, count: int) -> np.ndarray:
    """Rows from eight stretches of an order, `count` in all."""
    length = max(1, count // 8)
    starts = np.linspace(0, len(order) - length, 8).astype(int)
    return np.concatenate([order[start : start + length] for start in starts])


def _report(points: list[Point]) -> None:
    print("\nlog-log slopes of the automatic choice (wanted: m=2 ≤ 1.15; m=10, l2 and linf ≤ 1.5)")
    for m in sorted({point.m for point in points}):
        for metric in METRICS:
            slopes = []
            for scores in ("spread 1", "spread 8", "ColoredMNIST10"):
                line = [p for p in points if (p.m, p.metric, p.scores) == (m, metric, scores)]
                if len(line) > 1:
                    slopes.append(f"{scores} {_slope(line):.2f}")
            print(f"  m={m:<4} {metric:5} " + "   ".join(slopes))
    worst = max(points, key=lambda point: point.regret)
    print(
        f"the automatic choice is at most {worst.regret:.2f}× the fastest engine "
        f"(wanted: 1.3; {worst.scores}, m={worst.m}, {worst.metric}, N={worst.n:,})"
    )
    for scores in ("spread 1", "spread 8"):
        won = [
            p.n
            for p in points
            if (p.metric, p.m, p.scores) == ("kl", 10, scores)
            and p.seconds.get("cells", np.inf) < p.seconds["blocked"]
        ]
        print(f"KL, m=10, {scores}: pruning beats blocks at N = {won or 'none of the sizes'}")


def _slope(line: list[Point]) -> float:
    n = np.log([point.n for point in line])
    return float(np.polyfit(n, np.log([point.auto for point in line]), 1)[0])


def _keep(points: list[Point]) -> None:
    """Write the record and the plot."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / "match_growth.jsonl").open("w") as file:
        for point in points:
            rounded = {name: float(f"{value:.4g}") for name, value in point.seconds.items()}
            record = {**asdict(point), "seconds": rounded, "auto": float(f"{point.auto:.4g}")}
            file.write(json.dumps(record) + "\n")
    figure, axes = plt.subplots(1, 4, figsize=(16, 4), sharey=True, layout="constrained")
    for axis, m in zip(axes, sorted({point.m for point in points}), strict=True):
        for metric, colour in zip(METRICS, ("C3", "C0", "C2", "C1"), strict=True):
            for scores, style in (("spread 1", "-"), ("spread 8", "--"), ("ColoredMNIST10", ":")):
                line = [p for p in points if (p.m, p.metric, p.scores) == (m, metric, scores)]
                if line:
                    axis.loglog(
                        [p.n for p in line],
                        [p.auto for p in line],
                        style,
                        color=colour,
                        marker="o",
                        markersize=3,
                        label=f"{metric}, {scores} ({_slope(line):.2f})",
                    )
        axis.set(title=f"m = {m}", xlabel="examples N")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6)
    axes[0].set_ylabel("processor seconds, one thread, k = 1")
    figure.savefig(RESULTS / "match_growth.png", dpi=80)
    plt.close(figure)
