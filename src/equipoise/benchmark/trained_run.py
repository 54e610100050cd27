"""A trained model brought back from its directory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from equipoise.algorithms import Algorithm, Featurizer, choose_device, make_featurizer
from equipoise.benchmark.checkpoints import read_tensors
from equipoise.benchmark.evaluation import BLOCK
from equipoise.benchmark.preparation import make_algorithm
from equipoise.benchmark.run import OWN_FEATURIZER
from equipoise.benchmark.run_directory import RunDescription, RunDirectory
from equipoise.benchmark.settings import RunSettings
from equipoise.choices import check_choice
from equipoise.data import as_source

# Without test data the balanced rule estimates accuracy elsewhere best.
PREFERRED = ("balanced", "train-domain")


class TrainedRun:
    """A model at the checkpoint that a selection rule chose.

    `predict` gives codes: positions in `label_names`. `MTL` and `ARM` look at the batch they
    predict, so give them examples of one environment at a time.
    """

    def __init__(
        self, description: RunDescription, algorithm: Algorithm, selection: str, step: int
    ) -> None:
        self.settings: RunSettings = description.settings
        self.label_names = description.label_names
        self.environment_names = description.environment_names
        self.input_shape = description.input_shape
        self.algorithm, self.selection, self.step = algorithm, selection, step

    def predict(self, x: Any) -> NDArray[np.int64]:
        """The most probable label [N] of arrays, tensors, data frames or datasets."""
        return np.asarray(self.predict_proba(x).argmax(axis=1), dtype=np.int64)

    @torch.no_grad()
    def predict_proba(self, x: Any) -> NDArray[np.float64]:
        """The probability of every label [N, m]. uint8 is taken for pixels, as in training."""
        source = as_source(x)
        device = next(self.algorithm.parameters()).device
        blocks = []
        for start in range(0, len(source), BLOCK):
            rows = source.fetch(np.arange(start, min(start + BLOCK, len(source))))
            self._check_shape(rows.shape[1:])
            logits = self.algorithm.predict(rows.float().to(device))
            blocks.append(logits.double().softmax(dim=1).cpu().numpy())
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.label_names)))

    def _check_shape(self, shape: Sequence[int]) -> None:
        if tuple(shape) != self.input_shape:
            raise ValueError(
                f"an example has the shape {tuple(shape)}, the model was trained on "
                f"{self.input_shape}"
            )

    def __repr__(self) -> str:
        return (
            f"TrainedRun({self.settings.algorithm} on {self.settings.dataset}, "
            f"{self.settings.sampling} batches, step {self.step} chosen by {self.selection!r})"
        )


def load_run(
    path: str | Path,
    *,
    selection: str | None = None,
    device: str = "cpu",
    featurizer: Featurizer | None = None,
) -> TrainedRun:
    """Bring back the model of a run, at the checkpoint chosen by `selection`.

    By default that is "balanced" where it was kept, else "train-domain". A run with a network
    of your own needs it again as `featurizer`.
    """
    directory = RunDirectory(path)
    description = directory.describe()
    settings = description.settings
    if settings.featurizer == OWN_FEATURIZER and featurizer is None:
        raise ValueError(f"{path} was trained with a network of your own: give it as featurizer")
    chosen = _choose_selection(directory, selection)
    weights, facts = read_tensors(directory.best(chosen))
    algorithm = make_algorithm(
        settings,
        description.input_shape,
        len(description.label_names),
        _count_training(description),
        featurizer=featurizer or partial(_make_untrained, network=settings.featurizer),
    )
    algorithm.load_state_dict(weights)
    algorithm.to(choose_device(device)).eval()
    return TrainedRun(description, algorithm, chosen, int(facts["step"]))


def _make_untrained(input_shape: Sequence[int], *, network: str) -> nn.Module:
    """The network without the pretrained weights, which the run's own replace at once."""
    return make_featurizer(input_shape, network, pretrained=False)


def _choose_selection(directory: RunDirectory, selection: str | None) -> str:
    kept = directory.kept_selections()
    if not kept:
        raise ValueError(f"{directory.path} has no trained weights yet: let it reach a checkpoint")
    if selection is not None:
        return check_choice(f"selection rule for {directory.path}", selection, kept)
    return next((name for name in PREFERRED if name in kept), kept[0])


def _count_training(description: RunDescription) -> int:
    settings = description.settings
    left_out = (settings.test_environment, settings.validation_environment)
    return len(description.environment_names) - sum(name is not None for name in left_out)
