"""From pixels to a balanced classifier on ColoredMNIST10, against the authors' procedure.

Ours is run in full: balancer, matching, half of the "quick" recipe's steps, one evaluation. Theirs,
10,001 steps of the VAE and 5,001 of the four-layer CNN, is timed over a few steps in the same run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from equipoise.algorithms import make_featurizer
from equipoise.benchmark import train_run
from equipoise.data import get_dataset

VAE_STEPS, CNN_STEPS = 10_001, 5_001
VAE_BATCH = 64  # of each of the two environments
CNN_IMAGES = 2 * 32 * 5  # environments × anchors × (1 + 4 matches)
LABELS, ENVIRONMENTS, LATENT = 10, 2, 16


def main(options: Sequence[str] = ()) -> None:
    """Print CPU-seconds of both procedures and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks whole-job", description=__doc__)
    parser.add_argument("--steps", type=int, default=200, help="of our training [default: 200]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="20 steps: the clock, no accuracy")
    arguments = parser.parse_args(options)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    steps = 20 if arguments.quick else arguments.steps
    ours, accuracy = run_ours(steps, arguments.seed)
    shape = get_dataset("ColoredMNIST10").input_shape
    vae = VAE_STEPS * time_step(make_vae_step(shape), 20)
    cnn = CNN_STEPS * time_step(make_cnn_step(shape), 4)
    print(f"ours: {ours:.0f} CPU-seconds, out-of-domain accuracy {100 * accuracy:.1f} %")
    print(f"theirs: {vae:.0f} for the VAE + {cnn:.0f} for the classifier = {vae + cnn:.0f}")
    print(f"ratio: {(vae + cnn) / ours:.0f}")


def run_ours(steps: int, seed: int) -> tuple[float, float]:
    """CPU-seconds of the whole job, and the accuracy after the last step."""
    dataset = get_dataset("ColoredMNIST10")
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        result = train_run(
            f"{folder}/run",
            dataset=dataset,
            algorithm="ERM",
            test_environment=dataset.environment_names[-1],
            sampling="balanced",
            seed=seed,
            profile="quick",
            cache=f"{folder}/balancers",
            steps=steps,
            checkpoint_every=steps,
            selections=("balanced",),
        )
    return time.process_time() - started, result.selected["balanced"].ood_accuracy


def time_step(step: Callable[[], None], n: int) -> float:
    """Median CPU-seconds of a step, the first one left out."""
    step()
    spent = []
    for _ in range(n):
        started = time.process_time()
        step()
        spent.append(time.process_time() - started)
    return float(np.median(spent))


class PaperVAE(nn.Module):
    """The paper's conditional VAE: two hidden layers of 512, a Gaussian prior for each cell."""

    def __init__(self, n_pixels: int) -> None:
        super().__init__()
        told = LABELS + ENVIRONMENTS
        self.encoder = _make_network(n_pixels + told, 2 * LATENT)
        self.decoder = _make_network(LATENT + LABELS, n_pixels)
        self.prior = nn.Embedding(LABELS * ENVIRONMENTS, LATENT)

    def loss(self, x: Tensor, y: Tensor, e: Tensor) -> Tensor:
        label, site = one_hot(y, LABELS).float(), one_hot(e, ENVIRONMENTS).float()
        mean, log_variance = self.encoder(torch.cat([x, label, site], 1)).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        missed = (self.decoder(torch.cat([z, label], 1)).sigmoid() - x).square().sum(dim=1)
        apart = (mean - self.prior(y * ENVIRONMENTS + e)).square()
        return (missed + 0.5 * (log_variance.exp() + apart - 1 - log_variance).sum(dim=1)).mean()


def _make_network(n_inputs: int, n_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_inputs, 512),
        nn.ReLU(),
        nn.Linear(512, 512),
        nn.ReLU(),
        nn.Linear(512, n_outputs),
    )


def make_vae_step(shape: Sequence[int]) -> Callable[[], None]:
    n = ENVIRONMENTS * VAE_BATCH
    model = PaperVAE(int(np.prod(shape)))
    x, y = torch.rand(n, int(np.prod(shape))), torch.randint(LABELS, (n,))
    e = torch.arange(ENVIRONMENTS).repeat_interleave(VAE_BATCH)
    return _make_step(model, lambda: model.loss(x, y, e))


def make_cnn_step(shape: Sequence[int]) -> Callable[[], None]:
    model = nn.Sequential(make_featurizer(tuple(shape), "mnist-cnn"), nn.Linear(128, LABELS))
    x, y = torch.rand(CNN_IMAGES, *shape), torch.randint(LABELS, (CNN_IMAGES,))
    return _make_step(model, lambda: cross_entropy(model(x), y))


def _make_step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return step
