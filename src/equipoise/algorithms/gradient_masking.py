"""ANDMask and SANDMask: descend where the environments' gradients agree."""

from typing import ClassVar

import torch
from torch import Tensor

from equipoise.algorithms.base import Algorithm, Batch, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform, uniform


class GradientMasking(Algorithm, abstract=True):
    """Descend along mask·mean_e g_e / mean(mask), tensor by tensor, g_e = ∇ℓ_e."""

    min_environments = 2
    encodes_apart = True

    def mask(self, gradients: Tensor) -> Tensor:
        """How far each entry counts, 0 to 1, given the environments' gradients [E, …]."""
        raise NotImplementedError

    def _update(self, batches: list[Batch]) -> Report:
        losses = self.losses(*self.encode(batches))
        per_environment = [self.gradients(loss, retain_graph=True) for loss in losses]
        masked = []
        for gradients in zip(*per_environment, strict=True):
            stacked = torch.stack(gradients)  # [E, …]
            mask = self.mask(stacked)
            masked.append(mask * stacked.mean(dim=0) / (1e-10 + mask.mean()))
        self.descend(masked)
        return {"loss": losses.mean()}


class ANDMask(GradientMasking):
    """mask = 1 where |mean_e sign g_e| ≥ τ: only entries whose sign the environments share.

    Parascandolo et al. 2021.
    """

    hyperparameters: ClassVar = {
        "tau": Hyperparameter(1.0, draw=uniform(0.5, 1.0), at_least=0, at_most=1),
    }

    def mask(self, gradients: Tensor) -> Tensor:
        agreement = gradients.sign().mean(dim=0).abs()
        return agreement.ge(self.settings["tau"]).to(gradients.dtype)


class SANDMask(GradientMasking):
    """mask = relu(tanh((k / Var_e g_e)·(|mean_e sign g_e| − τ))) (Shahtalebi et al. 2021).

    DomainBed's default τ = 1 makes every mask zero, since no agreement exceeds 1: nothing is
    ever learned. The default here is the middle of its search range, 0.5.
    """

    hyperparameters: ClassVar = {
        "tau": Hyperparameter(0.5, draw=uniform(0.0, 1.0), at_least=0, at_most=1),
        "k": Hyperparameter(1e1, draw=log_uniform(-3, 5)),
    }

    def mask(self, gradients: Tensor) -> Tensor:
        agreement = gradients.sign().mean(dim=0).abs()
        k, tau = float(self.settings["k"]), float(self.settings["tau"])
        spread = gradients - gradients.mean(dim=0)  # several times faster than .var(dim=0)
        variance = spread.square().sum(dim=0) / max(len(gradients) - 1, 1)
        sharpness = k / variance.clamp_min(1e-17)
        return (sharpness * (agreement - tau)).tanh().relu()
