"""Started by `torchrun` in test_runs_torchrun.py: what every rank does."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmark.tiny import make_data, make_settings
from equipoise.algorithms import join_ranks
from equipoise.benchmark import execute_run, split_for_run
from equipoise.benchmark.balancers import fit_balancer
from equipoise.benchmark.training import Training, build_algorithm

CHANGES = {"sampling": "balanced", "selections": None, "weight_average": 0.9}


def train_with(algorithm: str, ranks) -> Training:
    """A whole training on this rank's share."""
    settings = make_settings(algorithm=algorithm, **CHANGES)
    data = split_for_run(settings, make_data())
    training = Training(
        settings,
        data,
        build_algorithm(settings, data),
        balancer=fit_balancer(settings, data),
        ranks=ranks,
    )
    for _ in training.run():
        pass
    return training


def stop_early(record) -> None:
    """An accident on the first rank."""
    if record.step == 8:
        raise KeyboardInterrupt


def main() -> None:
    torch.set_num_threads(1)
    task, folder = sys.argv[1], Path(sys.argv[2])
    if task == "weights":
        ranks = join_ranks()
        for algorithm in ("ERM", "CORAL"):
            weights = train_with(algorithm, ranks).weights()
            save_file(weights, folder / f"{algorithm}-{ranks.rank}.safetensors")
        execute_run(make_settings(**CHANGES), make_data(), folder / "whole")
    stop = stop_early if task == "stop" else None
    execute_run(make_settings(**CHANGES), make_data(), folder / "cut", on_checkpoint=stop)


if __name__ == "__main__":
    main()
