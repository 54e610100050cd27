"""Slow references in numpy float64: the tiny network, losses, and finite differences."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.algorithms import Algorithm

Weights = dict[str, np.ndarray]


def weights_of(algorithm: Algorithm) -> Weights:
    return {n: p.detach().double().numpy().copy() for n, p in algorithm.named_parameters()}


def arrays(batches: list[tuple[Tensor, Tensor]]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(x.double().numpy(), y.numpy()) for x, y in batches]


def encode(weights: Weights, x: np.ndarray, prefix: str = "featurizer.layer") -> np.ndarray:
    flat = x.reshape(len(x), -1)
    return np.tanh(flat @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"])


def linear(weights: Weights, f: np.ndarray, prefix: str = "classifier") -> np.ndarray:
    return f @ weights[f"{prefix}.weight"].T + weights[f"{prefix}.bias"]


def predict(weights: Weights, x: np.ndarray) -> np.ndarray:
    return linear(weights, encode(weights, x))


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(each_loss(logits, labels)))


def each_loss(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return -np.log(softmax(logits)[np.arange(len(labels)), labels])


def batch_norm(x: np.ndarray, weights: Weights, prefix: str) -> np.ndarray:
    normal = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
    return normal * weights[f"{prefix}.weight"] + weights[f"{prefix}.bias"]


def slope(reference: Callable[[Weights], float], weights: Weights, direction: Weights) -> float:
    """Central difference of ``reference`` along ``direction``."""
    step = 1e-6

    def moved(sign: int) -> float:
        return reference({n: w + sign * step * direction[n] for n, w in weights.items()})

    return (moved(1) - moved(-1)) / (2 * step)


def assert_gradient_matches(
    weights: Weights, gradient: dict[str, Tensor], reference: Callable[[Weights], float]
) -> None:
    """``gradient`` is that of ``reference`` at ``weights``, in random directions."""
    rng = np.random.default_rng(0)
    for _ in range(6):
        direction = {n: rng.standard_normal(w.shape) * (n in gradient) for n, w in weights.items()}
        claimed = sum(float((g.numpy() * direction[n]).sum()) for n, g in gradient.items())
        expected = slope(reference, weights, direction)
        np.testing.assert_allclose(claimed, expected, rtol=2e-5, atol=1e-8)


def assert_value_and_gradient_match(
    algorithm: Algorithm, value: Tensor, reference: Callable[[Weights], float]
) -> None:
    """A tensor computed by the algorithm against the same in numpy, with all its slopes."""
    weights = weights_of(algorithm)
    np.testing.assert_allclose(value.item(), reference(weights), rtol=1e-9, atol=1e-12)
    named = dict(algorithm.named_parameters())
    gradients = torch.autograd.grad(
        value, list(named.values()), materialize_grads=True, allow_unused=True
    )
    assert_gradient_matches(weights, dict(zip(named, gradients, strict=True)), reference)


def twin(generator: torch.Generator) -> torch.Generator:
    """A generator that will draw what ``generator`` draws next."""
    copy = torch.Generator()
    copy.set_state(generator.get_state())
    return copy


@dataclass(frozen=True)
class Step:
    """One gradient that an algorithm took: of what, for which optimisers, at which weights."""

    loss: float
    optimizers: tuple[str, ...]
    gradient: dict[str, Tensor]
    weights: Weights

    def assert_matches(self, reference: Callable[[Weights], float], rtol: float = 1e-9) -> None:
        np.testing.assert_allclose(self.loss, reference(self.weights), rtol=rtol)
        assert_gradient_matches(self.weights, self.gradient, reference)

    @property
    def modules(self) -> set[str]:
        return {name.split(".")[0] for name in self.gradient}


def record_steps(algorithm: Algorithm) -> list[Step]:
    """A list that grows by a `Step` whenever the algorithm computes a gradient."""
    steps: list[Step] = []
    original = algorithm.gradients

    def gradients(loss: Tensor, *names: str, **keywords: bool) -> list[Tensor]:
        weights = weights_of(algorithm)
        found = original(loss, *names, **keywords)
        named = {id(p): n for n, p in algorithm.named_parameters()}
        order = [named[id(p)] for p in algorithm._parameters_of(names)]
        gradient = {n: g.clone() for n, g in zip(order, found, strict=True)}
        steps.append(Step(loss.item(), names or ("main",), gradient, weights))
        return found

    algorithm.gradients = gradients  # type: ignore[method-assign]
    return steps
