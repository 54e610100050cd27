"""How far apart two samples of features are."""

import torch
from torch import Tensor

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
    return sample.double() if sample.dtype == torch.float64 else sample.float()
