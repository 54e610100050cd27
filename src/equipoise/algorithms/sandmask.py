"""The smoothed AND mask of gradients (Shahtalebi et al. 2021)."""

from typing import ClassVar

from torch import Tensor

from equipoise.algorithms.gradient_masking import GradientMasking
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform, uniform


class SANDMask(GradientMasking):
    """mask = relu(tanh((k / Var_e g_e)·(|mean_e sign g_e| − τ))).

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
        variance = spread.square().sum(dim=0) / (len(gradients) - 1)
        sharpness = k / variance.clamp_min(1e-17)
        return (sharpness * (agreement - tau)).tanh().relu()
