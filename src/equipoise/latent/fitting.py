"""Fitting the latent covariate model: batches from every environment, ELBO on a held-out part."""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from equipoise.checks import check_choice, check_count, check_number, check_seed
from equipoise.data import Source
from equipoise.files import UnusableState, load_state, save_state
from equipoise.latent.model import LatentCovariateModel
from equipoise.progress import track

Ints = NDArray[np.int64]

SCHEDULES = ("constant", "cosine")
_ROWS_AT_ONCE = 1024
_PROGRESS = ("n_steps", "steps", "losses", "best_step")  # of a fit, in its checkpoint


@dataclass(frozen=True)
class FitSettings:
    """How the ELBO is maximised. `batch_size` counts examples of each environment.

    The prior's few parameters need larger steps than the networks' millions: `prior_lr`.
    The KL term is phased in over `warm_up` steps, so that z is used before it is paid for.
    `feature_noise` is the deviation of p(x|z,y) for feature vectors, as a share of each
    feature's own; with 1, as for the many pixels of an image, a handful of features is not worth
    a latent dimension. `schedule` is "constant", or "cosine": rates fall to 0 at `max_steps`.
    """

    max_steps: int = 600
    batch_size: int = 64
    lr: float = 1e-3
    prior_lr: float = 1e-2
    warm_up: int = 100
    evaluate_every: int = 50
    patience: int = 4
    validation: float = 0.1
    seed: int = 0
    feature_noise: float = 0.3
    schedule: str = "constant"

    def __post_init__(self) -> None:
        check_choice("schedule", self.schedule, SCHEDULES)
        check_number("feature_noise", self.feature_noise, above=0.0, most=1e6)
        object.__setattr__(self, "lr", check_number("lr", self.lr, above=0.0, most=1e3))
        check_count("batch_size", self.batch_size, most=10**7)
        check_seed("seed", self.seed)


@dataclass(frozen=True)
class FitHistory:
    """−ELBO of the validation part at each evaluation, and the step whose weights were kept."""

    steps: tuple[int, ...]
    negative_elbo: tuple[float, ...]
    best_step: int


def fit_model(
    model: LatentCovariateModel,
    source: Source,
    labels: Ints,
    environments: Ints,
    *,
    settings: FitSettings | None = None,
    checkpoint: str | Path | None = None,
    verbose: bool = False,
) -> FitHistory:
    """Maximise the mean ELBO over environments; stop early; keep the best weights.

    `source.fetch` gives the examples that `labels` and `environments` (codes from 0) describe;
    all of them are training examples. With `checkpoint` an interrupted fit goes on where it
    stopped and ends with the same bits.
    """
    job = _Fit(model, source, labels, environments, settings or FitSettings())
    if checkpoint is not None:
        job.resume(Path(checkpoint))
    with flush_denormals(), track(job.settings.max_steps, "learning Z", enabled=verbose) as tracker:
        while not job.done:
            job.step()
            if job.n_steps % job.settings.evaluate_every == 0 or job.done:
                job.evaluate()
                if checkpoint is not None:
                    job.save(Path(checkpoint))
            tracker.reach(job.n_steps, job.note)
        tracker.finish()
    model.load_state_dict(job.best)
    return FitHistory(tuple(job.steps), tuple(job.losses), job.best_step)


class _Fit:
    """The state of one fit: all that a checkpoint must hold."""

    def __init__(
        self,
        model: LatentCovariateModel,
        source: Source,
        labels: Ints,
        environments: Ints,
        settings: FitSettings,
    ) -> None:
        self.model, self.source, self.settings = model, source, settings
        self.labels = torch.from_numpy(labels)
        self.environments = torch.from_numpy(environments)
        self.device = model.label_counts.device
        self.n_steps, self.steps, self.losses, self.best_step = 0, list[int](), list[float](), 0
        self.note = ""
        self._initial = self._copy_weights()
        self._split(environments)
        self._prepare_model(labels, environments)
        self.best = self._copy_weights()
        networks = [*model.encoder.parameters(), *model.decoder.parameters()]
        # fused: less than half the time of the default step on large first layers
        self.optimizer = torch.optim.Adam(
            [
                {"params": networks, "lr": settings.lr},
                {"params": list(model.prior.parameters()), "lr": settings.prior_lr},
            ],
            fused=True,
        )
        self.generator = torch.Generator().manual_seed(settings.seed)

    def _split(self, environments: Ints) -> None:
        """Set a part of every environment aside for the ELBO that stops the fit."""
        self.members, aside = [], []
        for environment in range(self.model.settings.n_environments):
            generator = np.random.default_rng([self.settings.seed, environment, 0xE1B0])
            members = generator.permutation(np.flatnonzero(environments == environment))
            cut = min(round(self.settings.validation * len(members)), 1000)
            aside.append(members[:cut])
            self.members.append(torch.from_numpy(members[cut:]))
        self.validation = np.concatenate(aside)
        if len(self.validation) == 0:
            self.validation = np.arange(len(environments))

    def _prepare_model(self, labels: Ints, environments: Ints) -> None:
        model, s = self.model, self.model.settings
        pairs = np.bincount(
            environments * s.n_labels + labels, minlength=s.n_labels * s.n_environments
        )
        model.label_counts.copy_(torch.from_numpy(pairs.reshape(s.n_environments, s.n_labels)))
        if len(s.input_shape) == 1:
            x = self._fetch(np.sort(torch.cat(self.members).numpy()))[0].double()
            deviation, model.x_shift = torch.std_mean(x, dim=0, correction=0)
            noise = self.settings.feature_noise
            constant = deviation <= 1e-12 * (1.0 + model.x_shift.abs())
            model.x_scale = torch.where(constant, 0.0, 1.0 / (noise * deviation))

    @property
    def done(self) -> bool:
        if self.n_steps >= self.settings.max_steps:
            return True
        since = self.n_steps - self.best_step
        return bool(self.losses) and since >= self.settings.patience * self.settings.evaluate_every

    def step(self) -> None:
        model, size = self.model, self.settings.batch_size
        drawn = [
            part[torch.randint(len(part), (min(size, len(part)),), generator=self.generator)]
            for part in self.members
            if len(part)
        ]
        x, y, e = self._fetch(torch.cat(drawn).numpy())
        noise = torch.randn(len(y), model.settings.latent_dim, generator=self.generator)
        reconstruction, divergence = model.negative_elbo(x, y, e, noise.to(self.device))
        weight = min(1.0, (self.n_steps + 1) / max(1, self.settings.warm_up))
        # Equal weight for every environment, however many examples it could draw.
        share = torch.bincount(e, minlength=len(self.members))[e].reciprocal() / len(drawn)
        loss = (share * (reconstruction + weight * divergence)).sum()
        if not bool(torch.isfinite(loss)):
            raise ValueError(
                f"the ELBO is {float(loss.detach())} at step {self.n_steps}: check X for huge "
                f"values, or lower lr (now {self.settings.lr})"
            )
        if self.settings.schedule == "cosine":  # by the step alone: no checkpoint need hold it
            left = 0.5 * (1.0 + math.cos(math.pi * self.n_steps / self.settings.max_steps))
            rates = (self.settings.lr, self.settings.prior_lr)
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = left * rate
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.n_steps += 1

    @torch.no_grad()
    def evaluate(self) -> None:
        noise_generator = torch.Generator().manual_seed(self.settings.seed)
        total = 0.0
        for start in range(0, len(self.validation), _ROWS_AT_ONCE):
            x, y, e = self._fetch(self.validation[start : start + _ROWS_AT_ONCE])
            shape = (len(y), self.model.settings.latent_dim)
            noise = torch.randn(shape, generator=noise_generator).to(self.device)
            total += float(sum(part.sum() for part in self.model.negative_elbo(x, y, e, noise)))
        loss = total / len(self.validation)
        self.steps.append(self.n_steps)
        self.losses.append(loss)
        warming = self.n_steps <= self.settings.warm_up
        if warming or self.best_step == 0 or loss < min(self.losses[:-1]):
            self.best_step, self.best = self.n_steps, self._copy_weights()
        self.note = f"−ELBO {loss:.2f}"

    def _copy_weights(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def _fetch(self, indices: Ints) -> tuple[Tensor, Tensor, Tensor]:
        x = self.source.fetch(indices).to(self.device)
        if not bool(torch.isfinite(x).all()):
            raise ValueError(f"X has a NaN or infinite value among rows {indices[:3].tolist()}, …")
        rows = torch.from_numpy(indices)
        return x, self.labels[rows].to(self.device), self.environments[rows].to(self.device)

    @cached_property
    def _fingerprint(self) -> str:
        """What must be the same for a checkpoint to be a part of this fit."""
        digest = hashlib.sha256()
        digest.update(json.dumps([asdict(self.settings), asdict(self.model.settings)]).encode())
        for tensor in (self.labels, self.environments, *self._initial.values()):
            digest.update(tensor.numpy(force=True).tobytes())
        check, n = 0, len(self.labels)  # fast: it tells data apart, it does not guard them
        for start in range(0, n, _ROWS_AT_ONCE):
            rows = np.arange(start, min(n, start + _ROWS_AT_ONCE))
            check = zlib.crc32(self.source.fetch(rows).numpy().tobytes(), check)
        digest.update(check.to_bytes(4, "big"))
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        tensors = {f"model.{k}": v for k, v in self.model.state_dict().items()}
        tensors |= {f"best.{k}": v for k, v in self.best.items()}
        for position, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{position}.{k}": v for k, v in state.items()}
        tensors["generator"] = self.generator.get_state()
        facts = {"fingerprint": self._fingerprint} | {k: getattr(self, k) for k in _PROGRESS}
        save_state(path, tensors, facts)

    def resume(self, path: Path) -> None:
        if not path.is_file():
            return
        tensors, facts = load_state(path)
        if facts.get("fingerprint") != self._fingerprint:
            raise UnusableState(
                f"{path} belongs to a fit on other data or with other settings; "
                "name another file or delete it"
            )
        self.model.load_state_dict(_under("model.", tensors))
        self.best = _under("best.", tensors)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in _under("adam.", tensors).items():
            position, key = name.split(".")
            moments.setdefault(int(position), {})[key] = tensor
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self.generator.set_state(tensors["generator"])
        for name in _PROGRESS:
            setattr(self, name, facts[name])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


@contextmanager
def flush_denormals() -> Iterator[None]:
    """Treat denormal numbers as zero inside: Adam's moments turn denormal and slow every step."""
    before = float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) == 0.0
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)
