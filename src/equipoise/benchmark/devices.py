"""Which device a run computes on."""

from __future__ import annotations

import os

import torch


def choose_device(name: str) -> str:
    """A device that is there: "auto" takes a GPU if any; under torchrun each rank its own.

    >>> choose_device("cpu")
    'cpu'
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}; use cpu, cuda, cuda:1, mps or auto") from error
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device {name!r} was asked for, but torch finds no GPU here")
        if device.index is None:
            device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
        # Equal bits on every run are worth more than the fastest kernel.
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device 'mps' was asked for, but torch finds none here")
    return str(device)
