"""Features of a frozen backbone in place of pixels, each computed once."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.checks import check_count, check_device, check_text, check_type, require
from equipoise.data.cache import RowStore, choose_data_cache
from equipoise.data.dataset import EnvironmentDataset, identify_all
from equipoise.progress import track

Ints = NDArray[np.int64]

KEEP_AFTER = 512  # examples: what an interruption may cost
EARLY_LAYERS = 5  # at most


class FeatureEnvironments(EnvironmentDataset):
    """The examples of another dataset as a backbone's feature vectors, read from a cache."""

    def __init__(
        self, dataset: EnvironmentDataset, store: RowStore, at: Ints, columns: slice = slice(None)
    ) -> None:
        self._adopt(dataset)
        self.feature_names = None
        self._store, self._positions, self._columns = store, at, columns
        self.input_shape = (len(range(*columns.indices(store.shape[0]))),)

    def fetch(self, indices: Ints) -> Tensor:
        rows = self._store.read(self._positions[indices])[:, self._columns]
        return torch.from_numpy(np.ascontiguousarray(rows))


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

    An interrupted call goes on where it stopped.

    >>> import tempfile
    >>> from equipoise.data import Examples
    >>> pictures = Examples(np.zeros((4, 3, 8, 8)), [0, 1, 0, 1], [0, 0, 1, 1])
    >>> compute_features(pictures, nn.Conv2d(3, 5, 3), cache=tempfile.mkdtemp())
    FeatureEnvironments(4 examples of shape (5,), 2 labels, 2 environments)
    """
    network = _check(dataset, backbone, batch_size, device)
    kept = _keep(dataset, network, batch_size, device, cache, verbose)
    return FeatureEnvironments(dataset, *kept)


def compute_statistics(
    dataset: EnvironmentDataset,
    backbone: nn.Module | str,
    *,
    batch_size: int = 64,
    device: str = "cpu",
    cache: str | Path | None = None,
    verbose: bool = False,
) -> tuple[FeatureEnvironments, FeatureEnvironments]:
    """The last layer's features of images, and channel statistics of early layers, in one pass.

    Early layers show colour and texture, the last one content: fit a balancer on the statistics
    and train on the features, or on the images. The statistics are named by `feature_names`.
    Parameters are those of `compute_features`.

    >>> import tempfile
    >>> from equipoise.data import Examples
    >>> pictures = Examples(np.zeros((4, 3, 8, 8)), [0, 1, 0, 1], [0, 0, 1, 1])
    >>> backbone, cache = nn.Conv2d(3, 5, 3), tempfile.mkdtemp()
    >>> features, statistics = compute_statistics(pictures, backbone, cache=cache)
    >>> features.input_shape, statistics.input_shape, statistics.feature_names[0]
    ((5,), (16,), 'pixels mean 1')
    """
    network = _check(dataset, backbone, batch_size, device)
    if len(dataset.input_shape) != 3:
        raise ValueError(
            f"channel statistics are of images, [channels, height, width]; these examples have "
            f"the shape {tuple(dataset.input_shape)}: compute their features without statistics"
        )
    with _frozen(network, device):
        layers = _find_early_layers(network, dataset, device)
    watched = ChannelStatistics(network, layers)
    store, positions = _keep(dataset, watched, batch_size, device, cache, verbose)
    names = [
        f"{layer or 'convolution'} {which} {channel + 1}"
        for layer, n_channels in (("pixels", dataset.input_shape[0]), *layers.items())
        for which in ("mean", "deviation")
        for channel in range(n_channels)
    ]
    features = FeatureEnvironments(dataset, store, positions, slice(len(names), None))
    statistics = FeatureEnvironments(dataset, store, positions, slice(len(names)))
    statistics.feature_names = tuple(names)
    return features, statistics


def _check(
    dataset: EnvironmentDataset, backbone: nn.Module | str, batch_size: int, device: str
) -> nn.Module:
    check_count("batch_size", batch_size, most=10**6)
    check_device("device", device)
    if len(dataset) == 0:
        raise ValueError("the dataset is empty: there is nothing to compute features of")
    network = load_backbone(backbone) if isinstance(backbone, str) else backbone
    check_type("backbone", network, nn.Module)
    return network


def _keep(
    dataset: EnvironmentDataset,
    network: nn.Module,
    batch_size: int,
    device: str,
    cache: str | Path | None,
    verbose: bool,
) -> tuple[RowStore, Ints]:
    """The store of this network's vectors, and where in it the examples are."""
    folder = choose_data_cache(cache) / "features" / fingerprint_backbone(network)
    shape = json.dumps(list(dataset.input_shape)).encode()
    digests = [hashlib.sha256(shape + content).digest() for content in identify_all(dataset)]
    store = RowStore.reopen(folder)
    if store is not None and (store.find(digests) >= 0).all():
        return store, store.find(digests)
    with _frozen(network, device):
        if store is None:  # the length of a vector is known once there is one
            one = _run(network, dataset, np.zeros(1, dtype=np.int64), device)
            store = RowStore(folder, one.shape[1:], np.float32)
        with store.writing(verbose=verbose):
            missing = np.flatnonzero(store.find(digests) < 0)
            first = {digests[i]: int(i) for i in reversed(missing)}  # equal examples once
            wanted = np.array(sorted(first.values()), dtype=np.int64)
            block = batch_size * max(1, KEEP_AFTER // batch_size)
            with track(len(wanted), "computing features", enabled=verbose) as tracker:
                for start in range(0, len(wanted), block):
                    rows, vectors = wanted[start : start + block], list[NDArray[np.float32]]()
                    for done in range(0, len(rows), batch_size):
                        batch = rows[done : done + batch_size]
                        vectors.append(_run(network, dataset, batch, device))
                        tracker.reach(start + done + len(batch))
                    store.add([digests[i] for i in rows], np.concatenate(vectors))
    return store, store.find(digests)


class ChannelStatistics(nn.Module):
    """Channel means and deviations of pixels and early layers, then the backbone's features."""

    def __init__(self, backbone: nn.Module, layers: Iterable[str]) -> None:
        super().__init__()
        self.backbone, self.layers = backbone, tuple(layers)

    def extra_repr(self) -> str:
        return f"layers={self.layers}"

    def forward(self, x: Tensor) -> Tensor:
        seen: dict[str, Tensor] = {}
        with _watch(self.backbone, self.layers, seen):
            features = _pool(self.backbone(x))
        if not isinstance(features, Tensor) or features.ndim != 2:
            return cast(Tensor, features)  # whoever runs a backbone says what is wrong with it
        moments = [_describe_channels(x), *(seen[name] for name in self.layers)]
        return torch.cat([*moments, features.float()], dim=1)


def _find_early_layers(
    network: nn.Module, dataset: EnvironmentDataset, device: str
) -> dict[str, int]:
    """Convolutions in the first half of the network, as passed, evenly spaced: their channels."""
    names = [name for name, module in network.named_modules() if isinstance(module, nn.Conv2d)]
    seen: dict[str, Tensor] = {}
    with _watch(network, names, seen):
        _run(network, dataset, np.zeros(1, dtype=np.int64), device)
    early = list(seen)[: -(-len(seen) // 2)]
    places = np.linspace(0, len(early) - 1, min(len(early), EARLY_LAYERS)).round().astype(int)
    return {early[place]: seen[early[place]].shape[1] // 2 for place in places}


@contextmanager
def _watch(network: nn.Module, names: Sequence[str], seen: dict[str, Tensor]) -> Iterator[None]:
    """Describe what these modules give when they first run, in `seen` by name."""

    def keep(name: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
        if name not in seen:
            seen[name] = _describe_channels(output)

    handles = [
        network.get_submodule(name).register_forward_hook(partial(keep, name)) for name in names
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _describe_channels(maps: Tensor) -> Tensor:
    """Mean, then deviation, of each channel over places: [N, c, height, width] to [N, 2c]."""
    maps = maps.float().flatten(2)
    return torch.cat([maps.mean(dim=2), maps.std(dim=2, correction=0)], dim=1)


def _pool(features: Any) -> Any:
    is_map = isinstance(features, Tensor) and features.ndim == 4
    return features.mean(dim=(2, 3)) if is_map else features


@torch.no_grad()
def _run(
    network: nn.Module, dataset: EnvironmentDataset, rows: Ints, device: str
) -> NDArray[np.float32]:
    """What the backbone gives for these examples, checked."""
    x = dataset.fetch(rows)
    try:
        features = _pool(network(x.to(device)))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"the backbone could not take examples of the shape {tuple(x.shape[1:])}: {error}"
        ) from error
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != len(x):
        seen: Any = tuple(features.shape) if isinstance(features, Tensor) else type(features)
        raise ValueError(
            f"a backbone must give one vector for each example, [N, d], or [N, d, height, "
            f"width]; for {len(x)} examples this one gave {seen}"
        )
    vectors = features.float().cpu().numpy()
    wrong = rows[~np.isfinite(vectors).all(axis=1)]
    if len(wrong):
        which = dataset.paths[wrong[0]] if dataset.paths else f"example {wrong[0]}"
        raise ValueError(f"the backbone gave NaN or infinite features for {which}")
    return np.ascontiguousarray(vectors)


@contextmanager
def _frozen(network: nn.Module, device: str) -> Iterator[None]:
    """The network in evaluation mode on the device; afterwards as it was and where it was."""
    modes = [(module, module.training) for module in network.modules()]
    origin = next((tensor.device for tensor in network.parameters()), torch.device("cpu"))
    try:
        network.eval().to(device)
        yield
    finally:
        network.to(origin)
        for module, mode in modes:
            module.training = mode


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_DEVIATION = (0.229, 0.224, 0.225)


class ImageBackbone(nn.Module):
    """A network that expects pixels of a certain mean and deviation, given pixels in 0…1."""

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
    if name.startswith("timm/"):
        return _load_timm(name.removeprefix("timm/"))
    place, _, attribute = name.rpartition(":")
    if not (place and attribute):
        raise ValueError(
            f"a backbone is timm/NAME, FILE.py:NAME or PACKAGE.MODULE:NAME, got {name!r}"
        )
    try:
        is_file = place.endswith(".py")
        module = _import_file(place) if is_file else importlib.import_module(place)
    except ImportError as error:
        raise ValueError(f"the backbone's module {place!r} cannot be imported: {error}") from error
    made = getattr(module, attribute, None)
    if made is None:
        raise ValueError(f"{place} has no {attribute!r} to take as a backbone")
    if callable(made) and not isinstance(made, nn.Module):
        try:
            made = made()
        except TypeError as error:
            raise ValueError(f"{name} must be callable without arguments: {error}") from error
    if not isinstance(made, nn.Module):
        raise ValueError(f"{name} must be or give a torch.nn.Module, got {type(made).__name__}")
    return made


def fingerprint_backbone(backbone: nn.Module) -> str:
    """Sixteen hexadecimal digits from a network's layers and every weight and constant in it."""
    layers = re.sub(r" at 0x[0-9a-f]+", "", f"{type(backbone).__qualname__} {backbone!r}")
    digest = hashlib.sha256(layers.encode())
    for name, tensor in (*backbone.named_parameters(), *backbone.named_buffers()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()[:16]


def _load_timm(name: str) -> nn.Module:
    timm = require("timm", extra="timm")
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except RuntimeError as error:
        raise ValueError(f"timm has no pretrained network {name!r}: {error}") from error
    facts = timm.data.resolve_model_data_config(network)
    return ImageBackbone(network, mean=facts["mean"], deviation=facts["std"])


def _import_file(place: str) -> ModuleType:
    path = Path(place).expanduser()
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
