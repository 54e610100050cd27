"""One of two processes: what Accelerate makes of balanced batches. Writes what it saw as JSON."""

import json
import os
import sys

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch.utils.data import DataLoader, TensorDataset

from equipoise.balance import BalancedBatchSampler, match_scores

CASES = {
    "plain": ({}, {}),
    "own ranks": ({}, None),
    "split": ({"split_batches": True}, {}),
    "dispatch": ({"dispatch_batches": True}, {}),
    "same batches": ({}, {"num_replicas": 1, "rank": 0}),
}


def make_sampler(**ranks):
    rng = np.random.default_rng(0)
    scores, labels = np.log(rng.dirichlet(np.ones(3), size=120)), rng.integers(3, size=120)
    environments = rng.integers(2, size=120)
    matches = match_scores(scores, labels, environments, n_nearest=3)
    return BalancedBatchSampler(
        labels, environments, matches, anchors_per_environment=4, n_matches=2, **ranks
    )


def run_case(name, rank):
    options, ranks = CASES[name]
    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
    try:
        sampler = make_sampler(**({"num_replicas": 2, "rank": rank} if ranks is None else ranks))
        loader = DataLoader(TensorDataset(torch.arange(120)), batch_sampler=sampler)
        if name != "same batches":
            loader = accelerator.prepare(loader)
        return [[batch[0].tolist() for batch in loader] for _ in range(2)]
    except ValueError as error:
        return str(error)


if __name__ == "__main__":
    found = {name: run_case(name, int(os.environ["RANK"])) for name in CASES}
    with open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w") as file:
        json.dump(found, file)
    torch.distributed.destroy_process_group()
