"""The whole matching of ColoredMNIST10 on the scores of a fitted model, every metric."""

from __future__ import annotations

import time

from benchmarks.match_setting import METRICS, colored_mnist10, describe_machine, time_of
from equipoise.balance.match import match_scores


def run(quick: bool) -> None:
    scores, labels, environments = colored_mnist10(quick)
    print(describe_machine())
    print(f"{len(scores):,} examples × {scores.shape[1]} labels (wanted: under 2 s each)")
    for k in (1, 40):
        for metric in METRICS:
            busy, matches = time_of(
                lambda metric=metric, k=k: match_scores(
                    scores, labels, environments, metric=metric, k=k, n_jobs=2
                ),
                repeat=1 if quick else 2,
                clock=time.process_time,
            )
            seconds, engines = matches.report.seconds, ", ".join(matches.report.engines)
            print(
                f"k={k:<3} {metric:5} {seconds:6.2f} s, {busy:6.2f} processor seconds  ({engines})",
                flush=True,
            )
