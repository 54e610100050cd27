"""MCC on the standard generator of nonlinear ICA, against a plain identifiable VAE.

Five sources, forty segments of other variances, a two-layer mixing. Both models get the same
batch size and the same widths, and the same number of steps or the same time. The baseline is
written here as its authors describe it: diagonal posterior, random start, prior variances by a
network of the segment.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from equipoise.data import ArraySource
from equipoise.latent import (
    FitSettings,
    LatentCovariateModel,
    ResidualDecoder,
    ResidualEncoder,
    fit_model,
    start_from_components,
)
from equipoise.theory import draw_mixing, mean_correlation

HIDDEN = (64, 64)
BATCH = 400
NOISE = 0.1  # deviation of p(x|z) on standardised x, for both


def run(quick: bool) -> None:
    seeds, steps = (1, 400) if quick else (5, 4000)
    print(f"{'seed':>4}  {'equipoise':>9}  {'iVAE, same steps':>16}  {'iVAE, same time':>15}")
    found = []
    for seed in range(seeds):
        sample = sample_segments(seed=seed)
        started = time.process_time()
        ours = mean_correlation(sample.z, fit_ours(sample, steps, seed))
        middle = time.process_time()
        theirs = mean_correlation(sample.z, fit_ivae(sample, steps, seed))
        slower = (middle - started) / (time.process_time() - middle)
        longer = mean_correlation(sample.z, fit_ivae(sample, round(slower * steps), seed))
        found.append((ours, theirs, longer))
        print(f"{seed:4}  {ours:9.3f}  {theirs:16.3f}  {longer:15.3f}", flush=True)
    ours, theirs, longer = np.median(found, axis=0)
    print(f"median MCC: equipoise {ours:.3f}, iVAE {theirs:.3f} in as many steps, {longer:.3f} in")
    print("as much time")


@dataclass(frozen=True)
class SegmentedSample:
    """Mixed sources x [N, n], the segment [N] of each, and the sources z [N, n] themselves."""

    x: np.ndarray
    segments: np.ndarray
    z: np.ndarray


def sample_segments(
    *, seed: int, n_sources: int = 5, n_segments: int = 40, per_segment: int = 1000
) -> SegmentedSample:
    """Gaussian sources whose deviations, uniform in 0.1 … 2.1, differ by segment; then mixed."""
    generator = np.random.default_rng([seed, 0x1CA])
    deviations = generator.uniform(0.1, 2.1, size=(n_segments, n_sources))
    segments = np.repeat(np.arange(n_segments), per_segment)
    z = deviations[segments] * generator.normal(size=(len(segments), n_sources))
    mixing = draw_mixing(n_sources, depth=2, generator=generator)
    return SegmentedSample(mixing.apply(z), segments, z)


def fit_ours(sample: SegmentedSample, steps: int, seed: int) -> np.ndarray:
    """z of a LatentCovariateModel in which segments are environments and there is one label."""
    n, n_segments = sample.z.shape[1], int(sample.segments.max()) + 1
    n_features = sample.x.shape[1]
    torch.manual_seed(seed)
    model = LatentCovariateModel(
        (n_features,),
        1,
        n_segments,
        latent_dim=n,
        prior="gaussian",
        encoder=ResidualEncoder(n_features, 1, n_segments, n, hidden=HIDDEN, feature_noise=NOISE),
        decoder=ResidualDecoder(n_features, 1, n, hidden=HIDDEN, feature_noise=NOISE),
    )
    x = torch.from_numpy(sample.x).float()
    labels = np.zeros(len(x), dtype=np.int64)
    y, e = torch.from_numpy(labels), torch.from_numpy(sample.segments)
    start_from_components(model, x, y, e)
    settings = FitSettings(
        max_steps=steps,
        batch_size=BATCH // n_segments,
        lr=3e-3,
        prior_lr=2e-2,
        warm_up=1,
        evaluate_every=max(1, steps // 4),
        feature_noise=NOISE,
        schedule="cosine",
        seed=seed,
    )
    fit_model(model, ArraySource(x), labels, sample.segments, settings=settings)
    with torch.no_grad():
        return model.encode(x, y, e)[0].double().numpy()


class PlainIdentifiableVAE(nn.Module):
    """Encoder q(z | x, u), decoder p(x | z), prior p(z | u) with zero mean, u a segment."""

    def __init__(self, n_features: int, n: int, n_segments: int) -> None:
        super().__init__()
        self.n_segments = n_segments
        self.encoder = _make_network(n_features + n_segments, 2 * n)
        self.decoder = _make_network(n, n_features)
        self.log_prior = _make_network(n_segments, n)

    def encode(self, x: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        told = one_hot(u, self.n_segments).float()
        mean, log_variance = self.encoder(torch.cat([x, told], dim=1)).chunk(2, dim=1)
        return mean, log_variance

    def loss(self, x: Tensor, u: Tensor) -> Tensor:
        mean, log_variance = self.encode(x, u)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        missed = (self.decoder(z) - x).square().sum(dim=1) / (2 * NOISE**2)
        own = self.log_prior(one_hot(u, self.n_segments).float())
        ratio = (log_variance.exp() + mean.square()) * (-own).exp()
        return (missed + 0.5 * (ratio - 1 - log_variance + own).sum(dim=1)).mean()


def fit_ivae(sample: SegmentedSample, steps: int, seed: int) -> np.ndarray:
    """z of the baseline after as many steps with batches as large."""
    torch.manual_seed(seed)
    x = torch.from_numpy((sample.x - sample.x.mean(axis=0)) / sample.x.std(axis=0)).float()
    u = torch.from_numpy(sample.segments)
    model = PlainIdentifiableVAE(x.shape[1], sample.z.shape[1], int(u.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        rows = torch.randint(len(x), (BATCH,))
        optimizer.zero_grad()
        model.loss(x[rows], u[rows]).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return model.encode(x, u)[0].double().numpy()


def _make_network(n_inputs: int, n_outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(n_inputs, HIDDEN[0]),
        nn.LeakyReLU(0.1),
        nn.Linear(HIDDEN[0], HIDDEN[1]),
        nn.LeakyReLU(0.1),
        nn.Linear(HIDDEN[1], n_outputs),
    )
