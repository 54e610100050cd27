"""A LightningModule trained by two processes on balanced batches; each writes what it saw."""

import json
import os
import sys

import lightning.pytorch as L
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from equipoise import CausalBalancer
from equipoise.lightning import BalancedAccuracy, BalancedDataModule


def make_data():
    """Two sites; colour goes with the label, and goes on to predict it; content is noisier."""
    rng = np.random.default_rng(0)
    y, site = rng.integers(2, size=800), rng.integers(2, size=800)
    colour = np.where(rng.random(800) < np.where(site == 0, 0.9, 0.75), y, 1 - y)
    X = np.stack([colour + 0.1 * rng.normal(size=800), y + 0.6 * rng.normal(size=800)], axis=1)
    return X, y, site


class Linear(L.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Linear(2, 2)
        self.seen = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        self.seen.append(batch[0][:, 1].tolist())
        return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("val_loss", torch.nn.functional.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


def make_module():
    balancer = CausalBalancer(random_state=0)
    return BalancedDataModule(*make_data(), balancer=balancer, anchors_per_environment=16)


def train(data, folder, devices, **options):
    keep = ModelCheckpoint(folder, monitor="balanced_accuracy", mode="max")
    trainer = L.Trainer(
        accelerator="cpu",
        devices=devices,
        max_epochs=2,
        callbacks=[BalancedAccuracy(), keep],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **options,
    )
    model = Linear()
    trainer.fit(model, datamodule=data)
    return model, keep, trainer


if __name__ == "__main__":
    folder, data = sys.argv[1], make_module()
    options = {"devices": 2, "strategy": "ddp"}
    model, _, trainer = train(data, folder, **options, use_distributed_sampler=False)
    metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
    found = {"seen": model.seen, "metrics": metrics}
    try:
        train(data, folder, **options)  # Lightning would rebuild the sampler its own way
    except Exception as error:
        found["error"] = str(error)
    with open(f"{folder}/{os.environ['RANK']}.json", "w") as file:
        json.dump(found, file)
    os._exit(0)  # a process that Lightning stopped half-way would wait for the other
