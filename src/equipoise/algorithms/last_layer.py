"""A last layer fitted again on held-out examples: DFR and AFR."""

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from equipoise.algorithms.base import Featurizer, HeldOut
from equipoise.algorithms.registry import Hyperparameter, choice, log_uniform, uniform
from equipoise.algorithms.risks import ERM


class LastLayerRetraining(ERM, abstract=True):
    """ERM whose last layer is fitted again on held-out examples before every evaluation.

    The new layer is kept beside the trained one and used for predictions; training goes on as
    if it were not there.
    """

    def build_networks(self, featurizer: Featurizer, n_features: int | None) -> None:
        super().build_networks(featurizer, n_features)
        self.retrained_weight: Tensor
        self.retrained_bias: Tensor
        self.is_retrained: Tensor
        self.register_buffer("retrained_weight", torch.zeros(self.n_labels, self.n_features))
        self.register_buffer("retrained_bias", torch.zeros(self.n_labels))
        self.register_buffer("is_retrained", torch.zeros((), dtype=torch.bool))

    def retrain(self, features: Tensor, held_out: HeldOut) -> tuple[Tensor, Tensor]:
        """Weights [m, d] and bias [m] from features [N, d] of the held-out examples."""
        raise NotImplementedError

    def before_evaluation(self, held_out: HeldOut) -> None:
        with torch.no_grad():
            features = torch.cat([self.featurizer(x) for x in held_out.blocks()])
        weight, bias = self.retrain(features, held_out)
        self.retrained_weight.copy_(weight)
        self.retrained_bias.copy_(bias)
        self.is_retrained.fill_(True)

    def predict(self, x: Tensor) -> Tensor:
        if self.training or not self.is_retrained:
            return super().predict(x)
        logits: Tensor = self.featurizer(x) @ self.retrained_weight.T + self.retrained_bias
        return logits


class DFR(LastLayerRetraining):
    """ERM, its last layer fitted to equally many held-out examples of every group.

    Needs group labels: (label, covariate) where the data know it, else (label, environment).
    Features are standardised; the layer is the mean over ``dfr_subsets`` random subsets. The
    penalty is ``dfr_l2``/2·‖W‖², where the paper has an L1 norm (Kirichenko et al. 2023).
    """

    hyperparameters: ClassVar = {
        "dfr_l2": Hyperparameter(1e-2, draw=log_uniform(-4, 0), at_least=0),
        "dfr_subsets": Hyperparameter(10, integer=True, at_least=1),
    }

    def retrain(self, features: Tensor, held_out: HeldOut) -> tuple[Tensor, Tensor]:
        mean, deviation = features.mean(dim=0), features.std(dim=0).clamp_min(1e-6)
        scaled, labels = (features - mean) / deviation, held_out.labels
        generator = torch.Generator().manual_seed(self.seed)
        l2 = float(self.settings["dfr_l2"])
        fits = []
        for _ in range(self.settings["dfr_subsets"]):
            rows = draw_balanced(held_out.groups.cpu(), generator).to(labels.device)
            start = scaled.new_zeros(self.n_labels, self.n_features + 1)
            fits.append(
                fit_linear(
                    scaled[rows], labels[rows], start, lambda w: 0.5 * l2 * w[:, :-1].square().sum()
                )
            )
        layer = torch.stack(fits).mean(dim=0)
        weight = layer[:, :-1] / deviation
        return weight, layer[:, -1] - weight @ mean


class AFR(LastLayerRetraining):
    """ERM, its last layer fitted to held-out examples weighted by exp(−γ p_y)/N_y.

    p_y is the ERM model's probability of the right label: what it gets wrong counts. The new
    layer stays near the old by ``afr_l2``·‖W − W_ERM‖². Needs no group labels. The paper stops
    early; here the minimum is taken, so that without the penalty held-out examples are memorised
    (Qiu et al. 2023).
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


def draw_balanced(groups: Tensor, generator: torch.Generator) -> Tensor:
    """Rows with equally many of every group that occurs, as many as the smallest has."""
    order = torch.randperm(len(groups), generator=generator)
    members = [order[groups[order] == group] for group in torch.unique(groups)]
    smallest = min(len(rows) for rows in members)
    return torch.cat([rows[:smallest] for rows in members])


def fit_linear(
    features: Tensor,
    labels: Tensor,
    start: Tensor,
    penalty: Callable[[Tensor], Tensor],
    weights: Tensor | None = None,
) -> Tensor:
    """[W, b] that minimises Σ w_i ℓ_i / Σ w_i + penalty([W, b]), by L-BFGS in float64."""
    inputs = torch.cat([features, features.new_ones(len(features), 1)], dim=1).double()
    shares = inputs.new_ones(len(inputs)) if weights is None else weights.double()
    shares = shares / shares.sum()
    layer = start.double().clone().requires_grad_()
    optimizer = torch.optim.LBFGS(
        [layer],
        max_iter=500,
        tolerance_grad=1e-9,
        tolerance_change=1e-12,
        line_search_fn="strong_wolfe",
    )

    def evaluate() -> Tensor:
        losses = cross_entropy(inputs @ layer.T, labels, reduction="none")
        value = (shares * losses).sum() + penalty(layer)
        (layer.grad,) = torch.autograd.grad(value, layer)
        return value.detach()

    with torch.enable_grad():
        optimizer.step(evaluate)  # type: ignore[no-untyped-call]
    return layer.detach().to(features.dtype)
