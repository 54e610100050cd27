"""Features of a frozen backbone in place of pixels, each computed once.

A perceptron on 224×224 pixels, as in the paper's VAE, has 300 million weights. On a few
hundred to a few thousand features it has one or two million, fits in minutes on a CPU, and sees
what a pretrained network has already learned.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.checks import check_count, check_device, check_text, check_type
from equipoise.data.cache import RowStore, choose_data_cache, tell_wait
from equipoise.data.dataset import EnvironmentDataset
from equipoise.progress import track

Ints = NDArray[np.int64]

KEEP_AFTER = 512  # examples: what an interruption may cost


class FeatureEnvironments(EnvironmentDataset):
    """The examples of another dataset as a backbone's feature vectors, read from a cache."""

    def __init__(self, dataset: EnvironmentDataset, store: RowStore, positions: Ints) -> None:
        self.labels, self.environments = dataset.labels, dataset.environments
        self.label_names = dataset.label_names
        self.environment_names = dataset.environment_names
        self.covariate, self.covariate_name = dataset.covariate, dataset.covariate_name
        self.paths = dataset.paths
        self._store, self._positions = store, positions
        self.input_shape = store.shape

    def fetch(self, indices: Ints) -> Tensor:
        return torch.from_numpy(self._store.read(self._positions[indices]))


def compute_features(
    dataset: EnvironmentDataset,
    backbone: nn.Module | str,
    *,
    batch_size: int = 64,
    device: str = "cpu",
    cache: str | Path | None = None,
    verbose: bool = False,
) -> FeatureEnvironments:
    """Run every example through a frozen backbone, once for each content and set of weights.

    Parameters
    ----------
    dataset : EnvironmentDataset
        Images or anything else the backbone takes; pixels are in 0…1.
    backbone : Module or str
        A module that gives [N, d], or [N, d, height, width], of which the mean over places is
        taken; or a name, see `load_backbone`. It runs in evaluation mode.
    cache : str or Path, optional
        Directory of features; by default $EQUIPOISE_CACHE or the user's cache.

    What is computed is kept as it goes, so that an interrupted call goes on where it stopped.

    >>> import tempfile
    >>> from equipoise.data import Examples
    >>> pictures = Examples(np.zeros((4, 3, 8, 8)), [0, 1, 0, 1], [0, 0, 1, 1])
    >>> compute_features(pictures, nn.Conv2d(3, 5, 3), cache=tempfile.mkdtemp())
    FeatureEnvironments(4 examples of shape (5,), 2 labels, 2 environments)
    """
    check_count("batch_size", batch_size, most=10**6)
    check_device("device", device)
    if len(dataset) == 0:
        raise ValueError("the dataset is empty: there is nothing to compute features of")
    network = load_backbone(backbone) if isinstance(backbone, str) else backbone
    check_type("backbone", network, nn.Module)
    folder = choose_data_cache(cache) / "features" / fingerprint_backbone(network)
    digests = _digest(dataset)
    store = RowStore.reopen(folder)
    positions = np.full(len(dataset), -1) if store is None else store.find(digests)
    if store is None or (positions < 0).any():
        with _frozen(network, device) as run:
            store = _new_store(folder, run, dataset) if store is None else store
            _compute_into(store, run, dataset, digests, batch_size=batch_size, verbose=verbose)
        positions = store.find(digests)
    return FeatureEnvironments(dataset, store, positions)


def _digest(dataset: EnvironmentDataset, block: int = 256) -> list[bytes]:
    """What every example is, as 32 bytes: the same for the same numbers, whatever the dataset."""
    shape = json.dumps(list(dataset.input_shape)).encode()
    digests = []
    for start in range(0, len(dataset), block):
        rows = np.arange(start, min(start + block, len(dataset)))
        digests += [hashlib.sha256(shape + one).digest() for one in dataset.identify(rows)]
    return digests


class _Run:
    """A backbone in evaluation mode on its device, and what it gives checked."""

    def __init__(self, network: nn.Module, device: str) -> None:
        self.network, self.device = network, device

    @torch.no_grad()
    def __call__(self, dataset: EnvironmentDataset, rows: Ints) -> NDArray[np.float32]:
        x = dataset.fetch(rows)
        try:
            features = self.network(x.to(self.device))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ValueError(
                f"the backbone could not take examples of the shape {tuple(x.shape[1:])}: {error}"
            ) from error
        if isinstance(features, Tensor) and features.ndim == 4:
            features = features.mean(dim=(2, 3))
        if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != len(x):
            seen: Any = tuple(features.shape) if isinstance(features, Tensor) else type(features)
            raise ValueError(
                f"a backbone must give one vector for each example, [N, d], or [N, d, height, "
                f"width]; for {len(x)} examples this one gave {seen}"
            )
        vectors = features.float().cpu().numpy()
        wrong = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(wrong):
            paths = dataset.paths
            which = paths[rows[wrong[0]]] if paths else f"example {rows[wrong[0]]}"
            raise ValueError(f"the backbone gave NaN or infinite features for {which}")
        return np.ascontiguousarray(vectors)


@contextmanager
def _frozen(network: nn.Module, device: str) -> Iterator[_Run]:
    """The network in evaluation mode on the device; afterwards as it was and where it was."""
    before = {name: module.training for name, module in network.named_modules()}
    origin = next((tensor.device for tensor in network.parameters()), torch.device("cpu"))
    try:
        yield _Run(network.eval().to(device), device)
    finally:
        network.to(origin)
        for name, module in network.named_modules():
            module.training = before[name]


def _new_store(folder: Path, run: _Run, dataset: EnvironmentDataset) -> RowStore:
    """A store of the length that the backbone's vectors turn out to have."""
    return RowStore(folder, run(dataset, np.zeros(1, dtype=np.int64)).shape[1:], np.float32)


def _compute_into(
    store: RowStore,
    run: _Run,
    dataset: EnvironmentDataset,
    digests: list[bytes],
    *,
    batch_size: int,
    verbose: bool,
) -> None:
    with store.writing(on_wait=tell_wait(store.path, verbose)):
        missing = np.flatnonzero(store.find(digests) < 0)
        first = {digests[i]: int(i) for i in reversed(missing)}  # equal examples once
        wanted = np.array(sorted(first.values()), dtype=np.int64)
        block = batch_size * max(1, KEEP_AFTER // batch_size)
        with track(len(wanted), "computing features", enabled=verbose) as tracker:
            for start in range(0, len(wanted), block):
                kept = list[NDArray[np.float32]]()
                for first_row in range(start, min(start + block, len(wanted)), batch_size):
                    rows = wanted[first_row : min(first_row + batch_size, start + block)]
                    kept.append(run(dataset, rows))
                    tracker.reach(first_row + len(rows))
                store.add([digests[i] for i in wanted[start : start + block]], np.concatenate(kept))


TIMM = "timm/"
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


class ImageBackbone(nn.Module):
    """A network that expects pixels of a certain mean and deviation, given pixels in 0…1.

    >>> ImageBackbone(nn.Flatten())(torch.zeros(1, 3, 2, 2)).shape
    torch.Size([1, 12])
    """

    def __init__(
        self,
        network: nn.Module,
        *,
        mean: Sequence[float] = IMAGENET_MEAN,
        deviation: Sequence[float] = IMAGENET_DEVIATION,
    ) -> None:
        super().__init__()
        self.network = network
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1))
        self.register_buffer("deviation", torch.tensor(deviation).view(-1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network((x - self.mean) / self.deviation)
        return features


def load_backbone(name: str) -> nn.Module:
    """A backbone by name: `timm/resnet50`, `my_file.py:make_backbone` or `package.module:name`.

    timm's networks (``pip install "equipoise[timm]"``) come with their pretrained weights and
    without their classifier. What stands after the colon is a module, or a class or function
    without arguments that gives one; it is handed pixels in 0…1.
    """
    check_text("backbone", name)
    if name.startswith(TIMM):
        return _load_timm(name.removeprefix(TIMM))
    place, colon, attribute = name.rpartition(":")
    if not colon or not place or not attribute:
        raise ValueError(
            f"a backbone is timm/NAME, FILE.py:NAME or PACKAGE.MODULE:NAME, got {name!r}"
        )
    found = getattr(_import(place), attribute, None)
    if found is None:
        raise ValueError(f"{place} has no {attribute!r} to take as a backbone")
    made = found if isinstance(found, nn.Module) else _call(found, name)
    if not isinstance(made, nn.Module):
        raise ValueError(f"{name} must be or give a torch.nn.Module, got {type(made).__name__}")
    return made


def fingerprint_backbone(backbone: nn.Module) -> str:
    """Sixteen hexadecimal digits from a network's layers and every weight and constant in it.

    >>> fingerprint_backbone(nn.ReLU()) == fingerprint_backbone(nn.GELU())
    False
    """
    layers = re.sub(r" at 0x[0-9a-f]+", "", f"{type(backbone).__qualname__} {backbone!r}")
    digest = hashlib.sha256(layers.encode())
    for name, tensor in (*backbone.named_parameters(), *backbone.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _load_timm(name: str) -> nn.Module:
    try:
        timm: Any = importlib.import_module("timm")
    except ImportError as error:
        raise ImportError(
            f"the backbone timm/{name} needs timm, which could not be imported; install it with "
            f'pip install "equipoise[timm]", or name a module of your own ({error})'
        ) from error
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except RuntimeError as error:
        raise ValueError(f"timm has no pretrained network {name!r}: {error}") from error
    facts = timm.data.resolve_model_data_config(network)
    return ImageBackbone(network, mean=facts["mean"], deviation=facts["std"])


def _import(place: str) -> ModuleType:
    try:
        if place.endswith(".py"):
            return _import_file(Path(place).expanduser())
        return importlib.import_module(place)
    except ImportError as error:
        raise ValueError(f"the backbone's module {place!r} cannot be imported: {error}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"there is no file {path} to take a backbone from")
    name = f"equipoise_backbone_{path.stem}"
    described = importlib.util.spec_from_file_location(name, path)
    assert described is not None
    assert described.loader is not None  # as for every .py file
    module = importlib.util.module_from_spec(described)
    sys.modules[name] = module  # what is defined there must be found again by its module's name
    described.loader.exec_module(module)
    return module


def _call(maker: Any, name: str) -> Any:
    if not callable(maker):
        raise ValueError(f"{name} must be or give a torch.nn.Module, got {type(maker).__name__}")
    try:
        return maker()
    except TypeError as error:
        raise ValueError(f"{name} must be callable without arguments: {error}") from error
