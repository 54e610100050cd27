"""Features distributed alike in all environments: CORAL, MMD and the two CausIRL."""

from itertools import combinations
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.algorithms.base import Algorithm, Batch, Report
from equipoise.algorithms.hyperparameters import Hyperparameter, log_uniform

KERNEL_WIDTHS = (1e-3, 1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3)


def coral_distance(first: Tensor, second: Tensor) -> Tensor:
    """mean (μ_1 − μ_2)² + mean (C_1 − C_2)²: means and covariances of the two samples.

    A sample of one example has the covariance 0.
    """
    with torch.autocast(first.device.type, enabled=False):
        first, second = _full_precision(first), _full_precision(second)
        means = (first.mean(dim=0) - second.mean(dim=0)).square().mean()
        return means + (_covariance(first) - _covariance(second)).square().mean()


def mmd_distance(first: Tensor, second: Tensor) -> Tensor:
    """Biased squared MMD: mean k(1,1) + mean k(2,2) − 2 mean k(1,2).

    k(a, b) = Σ_γ exp(−γ‖a − b‖²) over γ = 10⁻³, 10⁻², …, 10³.
    """
    with torch.autocast(first.device.type, enabled=False):
        first, second = _full_precision(first), _full_precision(second)
        centre = second.mean(dim=0).detach()  # cancels in a − b, keeps ‖a‖² + ‖b‖² − 2ab exact
        first, second = first - centre, second - centre
        within = _kernel(first, first).mean() + _kernel(second, second).mean()
        return within - 2 * _kernel(first, second).mean()


def _covariance(sample: Tensor) -> Tensor:
    centred = sample - sample.mean(dim=0)
    return centred.T @ centred / max(len(sample) - 1, 1)


def _kernel(first: Tensor, second: Tensor) -> Tensor:
    norms = first.square().sum(dim=1, keepdim=True) + second.square().sum(dim=1)
    squared = (norms - 2 * first @ second.T).clamp_min(0)
    return torch.stack([(-width * squared).exp() for width in KERNEL_WIDTHS]).sum(dim=0)


def _full_precision(sample: Tensor) -> Tensor:
    return sample.to(torch.promote_types(sample.dtype, torch.float32))


class FeatureMatching(Algorithm, abstract=True):
    """mean_e ℓ_e + γ·mean over pairs of environments of distance(features_i, features_j)."""

    min_environments = 2
    encodes_apart = True
    hyperparameters: ClassVar = {
        "mmd_gamma": Hyperparameter(1.0, draw=log_uniform(-1, 1)),
    }

    @staticmethod
    def distance(first: Tensor, second: Tensor) -> Tensor:
        """How far apart two samples of features [N, d] are."""
        raise NotImplementedError

    def objective(self, batches: list[Batch]) -> tuple[Tensor, Report]:
        features, labels = self.encode(batches)
        loss = self.losses(features, labels).mean()
        penalty = self.penalty(features)
        objective = loss + self.settings["mmd_gamma"] * penalty
        return objective, {"loss": loss, "penalty": penalty}

    def penalty(self, features: list[Tensor]) -> Tensor:
        """The mean distance over all pairs of environments; 0 where there is one only."""
        found = [self.distance(a, b) for a, b in combinations(features, 2)]
        return torch.stack(found).mean() if found else features[0].new_zeros(())


class CORAL(FeatureMatching):
    """mean_e ℓ_e + γ·mean_(i<j) [mean (μ_i − μ_j)² + mean (C_i − C_j)²] of the features.

    Deep CORAL (Sun and Saenko 2016).
    """

    distance = staticmethod(coral_distance)


class MMD(FeatureMatching):
    """mean_e ℓ_e + γ·mean_(i<j) MMD²(features_i, features_j), with a sum of Gaussian kernels.

    Maximum mean discrepancy (Li et al. 2018).
    """

    distance = staticmethod(mmd_distance)


class CausIRL(FeatureMatching, abstract=True):
    """mean_e ℓ_e + γ·distance(first pool, second pool) (Chevalley et al. 2022).

    Each environment's features are cut at a random place; the pieces before the cuts form one
    pool, those after them the other: two random mixtures of the environments, which should not
    differ. No penalty where a pool has fewer than two examples.
    """

    def penalty(self, features: list[Tensor]) -> Tensor:
        cuts = [int(torch.randint(len(f), (), generator=self.generator)) for f in features]
        first = torch.cat([f[:cut] for f, cut in zip(features, cuts, strict=True)])
        second = torch.cat([f[cut:] for f, cut in zip(features, cuts, strict=True)])
        if min(len(first), len(second)) < 2:
            return features[0].new_zeros(())
        return self.distance(first, second)


class CausIRL_CORAL(CausIRL):
    """mean_e ℓ_e + γ·[mean (μ_1 − μ_2)² + mean (C_1 − C_2)²] of two random mixtures."""

    distance = staticmethod(coral_distance)


class CausIRL_MMD(CausIRL):
    """mean_e ℓ_e + γ·MMD² of two random mixtures of the environments' features."""

    distance = staticmethod(mmd_distance)
