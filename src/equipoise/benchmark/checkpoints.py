"""The last states of a run on disk, and the choice of the newest that is whole."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from torch import Tensor

from equipoise.algorithms import TrainingState
from equipoise.files import load_state, save_state

KEPT = 2


class Checkpoints:
    """A directory with the last two training states; of a damaged one the other is left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def paths(self) -> list[Path]:
        """The saved states, newest first."""
        return sorted(self.directory.glob("step-*.safetensors"), reverse=True)

    def save(self, state: TrainingState, step: int) -> None:
        """Write a state whole, then forget all but the last two."""
        write_tensors(self.directory / f"step-{step:09d}.safetensors", state.tensors, state.values)
        for path in self.paths()[KEPT:]:
            path.unlink()

    def load(self) -> TrainingState | None:
        """The newest readable state; None if there is none at all.

        A damaged one is passed over with a warning; if all are damaged, that is a ValueError.
        """
        paths = self.paths()
        for path in paths:
            try:
                return TrainingState(*read_tensors(path))
            except ValueError as error:
                warnings.warn(f"{error}. Going on from the state before it", stacklevel=3)
        if paths:
            raise ValueError(
                f"no checkpoint in {self.directory} can be read; restore one of them, or delete "
                "them all to start over"
            )
        return None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Any) -> None:
    """Write tensors and facts whole, with a checksum; a full disk is an OSError that says so."""
    try:
        save_state(path, tensors, {"facts": facts, "sha256": _checksum(tensors)})
    except (SafetensorError, OSError) as error:
        raise OSError(
            f"{path} could not be written ({error}); what was saved before is intact. Make room "
            "and give the same command again"
        ) from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Any]:
    """Read what `write_tensors` wrote; a damaged file is a ValueError that names it."""
    tensors, content = load_state(path)
    if content.get("sha256") != _checksum(tensors):
        raise ValueError(f"{path} is damaged: its checksum does not fit")
    return tensors, content["facts"]


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
