"""Fitted balancers, each saved once and shared by all runs on the same data and settings."""

import hashlib
import json
import os
import warnings
from pathlib import Path

from rich.console import Console

from equipoise.balancer import CausalBalancer
from equipoise.benchmark.data import RunData, choose_selections, digest_code
from equipoise.benchmark.settings import RunSettings
from equipoise.files import UnusableState, hold_lock

# What changes how a fit is computed, not what it finds.
NOT_IN_KEY = ("verbose", "n_jobs", "device")


def needs_balancer(settings: RunSettings, data: RunData) -> bool:
    """Whether batches or a selection rule ask for balancing scores."""
    return settings.sampling == "balanced" or "balanced" in choose_selections(settings, data)


def make_balancer(
    settings: RunSettings, *, device: str = "cpu", verbose: bool = False
) -> CausalBalancer:
    """The balancer of the settings, not yet fitted; on the device of the run unless they say."""
    run = {"random_state": settings.seed, "device": device, "verbose": verbose}
    chosen = dict(settings.balancer)
    if isinstance(chosen.get("hidden"), list):  # JSON and YAML know no tuples
        chosen["hidden"] = tuple(chosen["hidden"])
    return CausalBalancer(**{**run, **chosen})


def fit_balancer(
    settings: RunSettings, data: RunData, *, device: str = "cpu", verbose: bool = False
) -> CausalBalancer:
    """Fit on the train parts of the training environments, all that training may see."""
    return make_balancer(settings, device=device, verbose=verbose).fit(
        data.show_balancer(data.train)
    )


def choose_cache(output: Path) -> Path:
    """Where balancers are kept: $EQUIPOISE_CACHE, else `.balancers` beside the run."""
    given = os.environ.get("EQUIPOISE_CACHE")
    return Path(given).expanduser() if given else output.absolute().parent / ".balancers"


def obtain_balancer(
    settings: RunSettings,
    data: RunData,
    cache: Path,
    *,
    device: str = "cpu",
    verbose: bool = False,
) -> CausalBalancer:
    """Load the balancer of these settings and data, or fit and save it.

    Of several processes that want the same one, one fits and the others wait. An interrupted
    fit goes on where it stopped.
    """
    balancer = make_balancer(settings, device=device, verbose=verbose)
    path = locate_balancer(balancer, data, cache)
    unfinished = path.with_suffix(".unfinished")

    def tell() -> None:
        if verbose:
            Console(stderr=True).print(f"waiting for another process that fits {path}")

    with hold_lock(path.with_suffix(".lock"), on_wait=tell):
        if path.is_file():
            try:
                return _load(path, balancer.device)
            except ValueError as error:
                warnings.warn(f"{error}. It is fitted again", stacklevel=2)
        train = data.show_balancer(data.train)
        try:
            balancer.fit(train, checkpoint=unfinished)
        except UnusableState as error:
            warnings.warn(f"{error}. The fit starts over", stacklevel=2)
            unfinished.unlink()
            balancer.fit(train, checkpoint=unfinished)
        balancer.save(path)
        unfinished.unlink(missing_ok=True)
        return balancer


def find_balancer(
    settings: RunSettings,
    data: RunData,
    cache: Path,
    *,
    device: str = "cpu",
    code: str | None = None,
) -> CausalBalancer | None:
    """The balancer of a run if it is saved, else None; `code` is the digest of a former one."""
    path = locate_balancer(make_balancer(settings, device=device), data, cache, code)
    return _load(path, device) if path.is_file() else None


def locate_balancer(
    balancer: CausalBalancer, data: RunData, cache: Path, code: str | None = None
) -> Path:
    """Where a balancer is saved, by its parameters, the examples it is fitted on and the code."""
    parameters = {k: v for k, v in balancer.get_params().items() if k not in NOT_IN_KEY}
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    digest.update(f"{data.fingerprint} {code or digest_code()}".encode())
    digest.update(data.train.indices.tobytes())
    return cache / f"balancer-{digest.hexdigest()[:16]}.safetensors"


def _load(path: Path, device: str) -> CausalBalancer:
    """The saved balancer, on this run's device, whichever it was fitted on."""
    balancer = CausalBalancer.load(path)
    balancer.device = device
    if balancer.latent_model_ is not None:
        balancer.latent_model_.to(device)
    return balancer
