"""A LightningModule on balanced batches; the checkpoint is chosen by balanced accuracy."""

import sys

import lightning.pytorch as L
import matplotlib.pyplot as plt
import numpy as np
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.nn.functional import cross_entropy

from equipoise.lightning import BalancedAccuracy, BalancedDataModule

rng = np.random.default_rng(0)
n = 2000
site, label = rng.integers(2, size=n), rng.integers(2, size=n)
scanner = np.where(rng.random(n) < np.where(site == 0, 0.9, 0.75), label, 1 - label)
brightness, texture = scanner + 0.1 * rng.normal(size=n), label + 0.6 * rng.normal(size=n)
X = np.stack([brightness, texture], axis=1)


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
        )
        self.history = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, _):
        return cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("val_loss", cross_entropy(self(batch[0]), batch[1]))

    def on_train_epoch_end(self):
        self.history.append(float(self.trainer.callback_metrics["balanced_accuracy"]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


L.seed_everything(0)
data = BalancedDataModule(X, label, site, anchors_per_environment=32)
keep = ModelCheckpoint("checkpoints", monitor="balanced_accuracy", mode="max")
trainer = L.Trainer(max_epochs=5, callbacks=[BalancedAccuracy(), keep], logger=False)
trainer.fit(Classifier(), datamodule=data)
print(f"kept the model with balanced accuracy {keep.best_model_score:.1%}")

figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
history = 100 * np.array(trainer.lightning_module.history)
axis.plot(range(1, len(history) + 1), history, marker="o", color="#1d4e6b")
axis.set(xlabel="epoch", ylabel="balanced accuracy, %")
figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "lightning_training.png", dpi=130)
