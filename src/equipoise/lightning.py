"""Balanced batches and balanced validation for PyTorch Lightning (extra `lightning`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import ArrayLike, NDArray
from torch.utils.data import DataLoader

from equipoise.balancer import CausalBalancer
from equipoise.checks import check_count, require
from equipoise.data import as_environments, split_environments

L = require("lightning.pytorch", extra="lightning")


class BalancedDataModule(L.LightningDataModule):  # type: ignore[misc, name-defined]
    """Environments for a Trainer: balanced training batches, a held-out part with weights.

    Batches are `(x, y)` with integer labels, for training and validation alike. With several
    processes use `Trainer(use_distributed_sampler=False)`: the loaders share themselves out.

    Parameters
    ----------
    X, y, environments : as for `CausalBalancer.fit`
        A dataset of `equipoise.data` brings labels and environments along.
    balancer : CausalBalancer, optional
        How Z is learned and matched; fitted on the training part in `setup`.
    anchors_per_environment : int
        B of Algorithm 1, counted over all processes.
    held_out : float
        Share of every environment kept for validation.
    validation_batch_size : int
        Examples in a batch of validation.
    seed : int
        Of the split and the batches.
    loader_options : dict, optional
        For both `DataLoader`s, such as `num_workers` and `pin_memory`.

    Attributes
    ----------
    train_set, held_out_set : EnvironmentDataset
        The two parts, after `setup`.
    validation_weights : array of float [N held out]
        Weights under which the held-out part is balanced.
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        balancer: CausalBalancer | None = None,
        anchors_per_environment: int = 32,
        held_out: float = 0.2,
        validation_batch_size: int = 256,
        seed: int = 0,
        loader_options: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.dataset = as_environments(X, y, environments)
        self.balancer = balancer or CausalBalancer(random_state=seed)
        self.anchors_per_environment = anchors_per_environment
        self.validation_batch_size = check_count("validation_batch_size", validation_batch_size)
        self.seed = seed
        self.loader_options = loader_options or {}
        split = split_environments(self.dataset.environments, held_out=held_out, data_seed=seed)
        self.train_set = self.dataset.subset(split.train)
        self.held_out_set = self.dataset.subset(split.held_out)
        self.validation_weights: NDArray[np.float64] | None = None

    def setup(self, stage: str) -> None:
        """Fit the balancer on the training part, once, and weigh the held-out part."""
        if self.validation_weights is None:
            self.balancer.fit(self.train_set)
            self.validation_weights = self.balancer.balanced_weights(self.held_out_set)

    def train_dataloader(self) -> DataLoader[Any]:
        """Balanced batches; the processes share every batch."""
        sampler = self.balancer.batch_sampler(self.anchors_per_environment, seed=self.seed)
        return DataLoader(self.train_set, batch_sampler=sampler, **self.loader_options)

    def val_dataloader(self) -> DataLoader[Any]:
        """The held-out part in order, each process its own rows."""
        rows = self.validation_rows()
        size = self.validation_batch_size
        batches = [rows[start : start + size].tolist() for start in range(0, len(rows), size)]
        return DataLoader(self.held_out_set, batch_sampler=batches, **self.loader_options)

    def validation_rows(self) -> NDArray[np.int64]:
        """Rows of the held-out part that this process validates on."""
        running = dist.is_available() and dist.is_initialized()
        rank, world = (dist.get_rank(), dist.get_world_size()) if running else (0, 1)
        return np.arange(rank, len(self.held_out_set), world)


class BalancedAccuracy(L.Callback):  # type: ignore[misc, name-defined]
    """Log the accuracy on the held-out part as if nothing were spurious.

    `Trainer(callbacks=[BalancedAccuracy(), ModelCheckpoint(monitor="balanced_accuracy",
    mode="max")])` keeps the model that is best in a balanced world. Needs a `BalancedDataModule`
    and a LightningModule whose `forward` gives logits.

    Parameters
    ----------
    name : str
        Under which the metric is logged; `plain_` + name is the accuracy without weights.
    """

    def __init__(self, name: str = "balanced_accuracy") -> None:
        self.name = name
        self._sums = torch.zeros(4, dtype=torch.float64)

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if not isinstance(trainer.datamodule, BalancedDataModule):
            raise TypeError(
                "BalancedAccuracy needs Trainer.fit(model, datamodule=BalancedDataModule(…)), got "
                f"datamodule {type(trainer.datamodule).__name__}"
            )
        self._sums = torch.zeros(4, dtype=torch.float64)

    @torch.no_grad()
    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        data = trainer.datamodule
        first = batch_idx * data.validation_batch_size
        rows = data.validation_rows()[first : first + data.validation_batch_size]
        weights = torch.from_numpy(data.validation_weights[rows])
        correct = (pl_module(batch[0]).argmax(dim=1) == batch[1]).double().cpu()
        parts = (weights @ correct, weights.sum(), correct.sum(), torch.tensor(len(correct)))
        self._sums += torch.stack([part.double() for part in parts])

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        # The ranks' sums are added, not their means averaged: their weights differ.
        sums = trainer.strategy.reduce(self._sums.to(pl_module.device), reduce_op="sum")
        weighted, weight, correct, count = sums.tolist()
        pl_module.log(self.name, weighted / weight, prog_bar=True, rank_zero_only=False)
        pl_module.log(f"plain_{self.name}", correct / count)
