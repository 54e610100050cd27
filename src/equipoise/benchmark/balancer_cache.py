"""Fitted balancers, each saved once and shared by all runs on the same data and settings."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path

from rich.console import Console
from safetensors import SafetensorError

from equipoise.balancer import CausalBalancer
from equipoise.benchmark.fingerprint import fingerprint_data
from equipoise.benchmark.locks import hold_lock
from equipoise.benchmark.preparation import make_balancer
from equipoise.benchmark.run_data import RunData
from equipoise.benchmark.settings import RunSettings

# What changes how a fit is computed, not what it finds.
NOT_IN_KEY = ("verbose", "n_jobs", "device")


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
        try:
            _fit(balancer, data, unfinished)
            balancer.save(path)
        except SafetensorError as error:
            raise OSError(
                f"{path} could not be written ({error}). Make room and give the same command again"
            ) from error
        unfinished.unlink(missing_ok=True)
        return balancer


def locate_balancer(balancer: CausalBalancer, data: RunData, cache: Path) -> Path:
    """Where the balancer with these parameters, fitted on these data, is saved."""
    return cache / f"balancer-{balancer_key(balancer, data)}.safetensors"


def find_balancer(
    settings: RunSettings, data: RunData, cache: Path, *, device: str = "cpu"
) -> CausalBalancer | None:
    """The balancer of a run if it is saved, else None; nothing is fitted."""
    path = locate_balancer(make_balancer(settings, device=device), data, cache)
    return _load(path, device) if path.is_file() else None


def _load(path: Path, device: str) -> CausalBalancer:
    """The saved balancer, on this run's device, whichever it was fitted on."""
    balancer = CausalBalancer.load(path)
    balancer.device = device
    balancer.latent_model_.to(device)
    return balancer


def _fit(balancer: CausalBalancer, data: RunData, unfinished: Path) -> None:
    try:
        balancer.fit(data.train, checkpoint=unfinished)
    except ValueError as error:
        if str(unfinished) not in str(error):
            raise
        warnings.warn(f"{error}. The fit starts over", stacklevel=3)
        unfinished.unlink()
        balancer.fit(data.train, checkpoint=unfinished)


def balancer_key(balancer: CausalBalancer, data: RunData) -> str:
    """Sixteen hexadecimal digits from the parameters and the examples that are fitted."""
    parameters = {k: v for k, v in balancer.get_params().items() if k not in NOT_IN_KEY}
    digest = hashlib.sha256(json.dumps(parameters, sort_keys=True).encode())
    digest.update(fingerprint_data(data.train).encode())
    return digest.hexdigest()[:16]
