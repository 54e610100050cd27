"""What ANDMask and SANDMask share: entries of the gradient on which environments agree."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Report
from equipoise.algorithms.batches import Batch


class GradientMasking(Algorithm, abstract=True):
    """Descend along mask·mean_e g_e / mean(mask), tensor by tensor, g_e = ∇ℓ_e."""

    min_environments = 2

    def mask(self, gradients: Tensor) -> Tensor:
        """How far each entry counts, 0 to 1, given the environments' gradients [E, …]."""
        raise NotImplementedError

    def _update(self, batches: list[Batch]) -> Report:
        features, labels = self.encode(batches)
        losses = [
            cross_entropy(self.classifier(f), y) for f, y in zip(features, labels, strict=True)
        ]
        per_environment = [self.gradients(loss, retain_graph=True) for loss in losses]
        masked = []
        for gradients in zip(*per_environment, strict=True):
            stacked = torch.stack(gradients)  # [E, …]
            mask = self.mask(stacked)
            masked.append(mask * stacked.mean(dim=0) / (1e-10 + mask.mean()))
        self.descend(masked)
        return {"loss": torch.stack(losses).mean()}
