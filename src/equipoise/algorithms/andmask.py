"""The AND mask of gradients (Parascandolo et al. 2021)."""

from typing import ClassVar

from torch import Tensor

from equipoise.algorithms.gradient_masking import GradientMasking
from equipoise.algorithms.hyperparameters import Hyperparameter, uniform


class ANDMask(GradientMasking):
    """mask = 1 where |mean_e sign g_e| ≥ τ: only entries whose sign the environments share."""

    hyperparameters: ClassVar = {
        "tau": Hyperparameter(1.0, draw=uniform(0.5, 1.0), at_least=0, at_most=1),
    }

    def mask(self, gradients: Tensor) -> Tensor:
        agreement = gradients.sign().mean(dim=0).abs()
        return agreement.ge(self.settings["tau"]).to(gradients.dtype)
