"""Representation self-challenging (Huang et al. 2020)."""

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Algorithm, Batch, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, uniform


class RSC(Algorithm):
    """ℓ without each example's most telling features.

    Muted are the third of the features with the largest ∂logit_y/∂f, and only in the third of
    the examples whose confidence in y falls most by it.
    """

    hyperparameters: ClassVar = {
        "rsc_f_drop_factor": Hyperparameter(1 / 3, draw=uniform(0, 0.5), at_least=0, at_most=1),
        "rsc_b_drop_factor": Hyperparameter(1 / 3, draw=uniform(0, 0.5), at_least=0, at_most=1),
    }

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        per_environment, labels = self.encode(batches)
        features, y = torch.cat(per_environment), torch.cat(labels)
        kept = self.kept_features(features.detach(), y)
        loss = cross_entropy(self.classifier(features * kept), y)
        return loss, {"loss": loss}

    def kept_features(self, features: Tensor, labels: Tensor) -> Tensor:
        """1 where a feature stays, 0 where it is muted.  [N, d]"""
        seen = features.clone().requires_grad_()
        logits = self.classifier(seen)
        own = labels.unsqueeze(1)
        (slopes,) = torch.autograd.grad(logits.gather(1, own).sum(), seen)
        with torch.no_grad():
            slopes = _at_least_single(slopes)
            bound = slopes.quantile(1 - self.settings["rsc_f_drop_factor"], 1, True)
            kept = slopes < bound
            muted_logits = self.classifier(features * kept)
            before, after = (z.softmax(dim=1).gather(1, own) for z in (logits, muted_logits))
            drop = _at_least_single(before - after)  # [N, 1]
            spared: Tensor = drop < drop.quantile(1 - self.settings["rsc_b_drop_factor"])
            return (kept | spared).to(features.dtype)


def _at_least_single(tensor: Tensor) -> Tensor:
    """Quantiles are known of single and double precision only."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
