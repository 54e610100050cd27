"""Frozen networks that turn images into feature vectors."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

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
