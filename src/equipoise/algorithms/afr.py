"""Automatic feature reweighting (Qiu et al. 2023)."""

from typing import ClassVar

import torch
from torch import Tensor

from equipoise.algorithms.base import HeldOut
from equipoise.algorithms.dfr import LastLayerRetraining, fit_linear
from equipoise.algorithms.hyperparameters import Hyperparameter, choice, uniform


class AFR(LastLayerRetraining):
    """ERM, its last layer fitted to held-out examples weighted by exp(−γ p_y)/N_y.

    p_y is the ERM model's probability of the right label: what it gets wrong counts. The new
    layer stays near the old by ``afr_l2``·‖W − W_ERM‖². Needs no group labels. The paper stops
    early; here the minimum is taken, so that without the penalty held-out examples are memorised.
    """

    hyperparameters: ClassVar = {
        "afr_gamma": Hyperparameter(4.0, draw=uniform(4, 20), at_least=0),
        "afr_l2": Hyperparameter(0.1, draw=choice(0.0, 0.1, 0.2, 0.3, 0.4), at_least=0),
    }

    def retrain(self, features: Tensor, held_out: HeldOut) -> tuple[Tensor, Tensor]:
        head, labels, l2 = self.classifier, held_out.labels, float(self.settings["afr_l2"])
        with torch.no_grad():
            erm = torch.cat([head.weight, head.bias.unsqueeze(1)], dim=1).double()
            weights = self.weigh(features, labels)
        layer = fit_linear(features, labels, erm, lambda w: l2 * (w - erm).square().sum(), weights)
        return layer[:, :-1], layer[:, -1]

    def weigh(self, features: Tensor, labels: Tensor) -> Tensor:
        """exp(−γ p_y)/N_y of each example.  [N]"""
        right = self.classifier(features).softmax(dim=1).gather(1, labels.unsqueeze(1)).squeeze(1)
        counts = labels.bincount(minlength=self.n_labels)
        weights: Tensor = (-self.settings["afr_gamma"] * right).exp() / counts[labels]
        return weights
