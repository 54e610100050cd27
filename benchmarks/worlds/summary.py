"""What the battery shows: one row for each world, and the figures that the method must reach."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.worlds.catalog import WORLDS
from benchmarks.worlds.measure import Measurement

MANY_ROWS = 2000
LARGE_GAIN = 5.0
RECOVERED = 0.9
LEAST_RECOVERED = 0.6
CLOSE = 5.0
CAUTIOUS = ("trade-off", "leave as it is", "cannot tell")


def outside(kind: str) -> str:
    """The situation that counts as out of domain in a kind of world."""
    return "reversed" if kind == "planted" else "new site"


def tabulate(runs: Iterable[Measurement]) -> pd.DataFrame:
    """One row a world in the catalogue's order: means over seeds and classifiers."""
    by_world: dict[str, list[Measurement]] = {name: [] for name in WORLDS}
    for run in runs:
        by_world[run.world].append(run)
    rows = [_summarise(name, own) for name, own in by_world.items() if own]
    return pd.DataFrame(rows).set_index("world")


def _summarise(name: str, runs: list[Measurement]) -> dict[str, object]:
    runs = sorted(runs, key=lambda run: run.seed)
    spec = WORLDS[name]
    place = outside(spec.kind)
    planted = spec.kind == "planted"
    measured = [run for run in runs if np.isfinite(run.price)]

    def mean(training: str, situation: str) -> float:
        return float(np.mean([run.mean_accuracy(training, situation) for run in runs]))

    def predicted(situation: str) -> float:
        known = [run.situations[situation] for run in measured if situation in run.situations]
        return float(np.mean([after - before for before, after in known])) if known else np.nan

    def real(situation: str) -> float:
        """balanced − plain, over the runs for which there is an estimate."""
        if not measured or (situation != "as they are" and not planted):
            return np.nan
        gains = [
            run.estimated_accuracy("balanced", situation)
            - run.estimated_accuracy("random", situation)
            for run in measured
        ]
        return float(np.mean(gains))

    random, balanced = mean("random", place), mean("balanced", place)
    true = mean("true", place) if planted else np.nan
    gain = true - random
    return {
        "world": name,
        "kind": spec.kind,
        "rows": spec.rows,
        "labels": spec.labels,
        "environments": spec.n_environments,
        "found": [run.n_varying for run in runs],
        "left": float(np.mean([run.left for run in runs])),
        "random": random,
        "balanced": balanced,
        "true": true,
        "recovered": (balanced - random) / gain if gain >= LARGE_GAIN else np.nan,
        "classifiers": {
            kind: {
                training: float(np.mean([run.accuracy[kind][training][place] for run in runs]))
                for training in runs[0].accuracy[kind]
            }
            for kind in runs[0].accuracy
        },
        "recommendations": [run.recommendation for run in runs],
        "price": float(np.mean([run.price for run in measured])) if measured else np.nan,
        "real price": -real("as they are"),
        "protection": float(np.mean([run.protection for run in measured])) if measured else np.nan,
        "even": predicted("even"),
        "real even": real("even"),
        "reversed": predicted("reversed"),
        "real reversed": real("reversed"),
        "seconds": float(np.mean([run.fit_seconds + run.diagnose_seconds for run in runs])),
        "losses": [
            run.mean_accuracy("random", place) - run.mean_accuracy("balanced", place)
            for run in runs
        ],
    }


def show(table: pd.DataFrame) -> list[dict[str, str]]:
    """The rows of a table as text, for the terminal and the page."""
    return [
        {
            "world": str(name),
            "rows": f"{row['rows']:,}",
            "labels": str(row["labels"]),
            "env.": str(row["environments"]),
            "found": ", ".join(map(str, row["found"])),
            "left": _number(row["left"], 2),
            "random": _number(row["random"]),
            "balanced": _number(row["balanced"]),
            "true": _number(row["true"]),
            "recovered": _number(row["recovered"], 2),
            "advice": ", ".join(_count(row["recommendations"])),
            "price (real)": _pair(row["price"], row["real price"]),
            "even (real)": _pair(row["even"], row["real even"]),
            "reversed (real)": _pair(row["reversed"], row["real reversed"]),
            "CPU-s": _number(row["seconds"]),
        }
        for name, row in table.iterrows()
    ]


def _count(advice: list[str]) -> list[str]:
    """Each recommendation once, the most frequent first, with its count if they differ."""
    counts = pd.Series(advice).value_counts()
    return [f"{name} ×{n}" if len(counts) > 1 else str(name) for name, n in counts.items()]


def _number(value: float, digits: int = 1) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"


def _pair(predicted: float, real: float) -> str:
    return f"{_number(predicted)} ({_number(real)})" if np.isfinite(predicted) else "–"


@dataclass(frozen=True)
class Figure:
    """One promise: what was measured, whether it holds, and the worlds that break it."""

    text: str
    holds: bool
    failing: tuple[str, ...] = ()

    def write(self) -> str:
        mark = "holds" if self.holds else "**fails**"
        names = f": {'; '.join(self.failing)}" if self.failing else ""
        return f"{mark}: {self.text}{names}"


def check_figures(table: pd.DataFrame) -> list[Figure]:
    """The promises about gain, harm and estimates, for the worlds of a table."""
    return [*_check_gain(table), *_check_harm(table), *_check_estimates(table)]


def _check_gain(table: pd.DataFrame) -> list[Figure]:
    large = table[(table["rows"] >= MANY_ROWS) & table["recovered"].notna()]["recovered"]
    if large.empty:
        return []
    low = large[large < LEAST_RECOVERED].sort_values()
    return [
        Figure(
            f"1a. median share of the true covariate's gain recovered, {len(large)} worlds: "
            f"{large.median():.2f} (aim {RECOVERED})",
            bool(large.median() >= RECOVERED),
        ),
        Figure(
            f"1b. least share recovered: {large.min():.2f} (aim {LEAST_RECOVERED}), "
            f"{len(low)} below",
            low.empty,
            tuple(f"{name} {share:.2f}" for name, share in low.items()),
        ),
    ]


def _check_harm(table: pd.DataFrame) -> list[Figure]:
    wrong, silent = [], []
    for name, row in table.iterrows():
        for advice, loss in zip(row["recommendations"], row["losses"], strict=True):
            if advice == "balance" and loss > 2:
                wrong.append(f"{name} −{loss:.1f}")
            if loss > 5 and advice not in CAUTIOUS:
                silent.append(f"{name} −{loss:.1f} ({advice})")
    figures = [
        Figure(f'2a. runs that lose over 2 points under "balance": {len(wrong)}', not wrong,
               tuple(wrong)),
        Figure(f"2b. runs that lose over 5 points without a caution: {len(silent)}", not silent,
               tuple(silent)),
    ]  # fmt: skip
    for kind, sign in (("nothing", "2c"), ("equal link", "2d")):
        null = table[table["kind"] == kind]["found"]
        if len(null):
            found = np.concatenate([np.asarray(own) > 0 for own in null])
            names = tuple(str(name) for name, own in null.items() if any(own))
            figures.append(
                Figure(
                    f"{sign}. runs with a direction found, {kind}: {found.sum()} of {len(found)} "
                    "(aim 5 %)",
                    bool(found.mean() <= 0.05),
                    names,
                )
            )
    return figures


def _check_estimates(table: pd.DataFrame) -> list[Figure]:
    figures = []
    for sign, name, estimate, real in (
        ("3a", "price", "price", "real price"),
        ("3b", "protection where the covariate is even", "even", "real even"),
        ("3c", "protection where it is reversed", "reversed", "real reversed"),
    ):
        off = (table[estimate] - table[real]).dropna()
        far = off[off.abs() > CLOSE]
        if len(off):
            figures.append(
                Figure(
                    f"{sign}. predicted {name} within {CLOSE:.0f} points: "
                    f"{len(off) - len(far)} of {len(off)} worlds (aim 80 %)",
                    bool(len(far) <= 0.2 * len(off)),
                    tuple(f"{world} {value:+.1f}" for world, value in far.items()),
                )
            )
    return figures
