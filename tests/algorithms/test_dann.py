import numpy as np
import pytest
import torch

from . import reference as ref
from .tiny import N_LABELS, make_double, tiny_batches

SMALL = {"mlp_width": 4, "mlp_depth": 3}


def discriminator_loss(w, inputs, labels, environments, *, by_label, grad_penalty):
    """Example by example; the gradient of the input by finite differences."""

    def loss_of(row, environment):
        hidden = row[None]
        for layer in (0, 3):
            hidden = np.maximum(ref.linear(w, hidden, f"discriminator.layers.{layer}"), 0)
        return -np.log(ref.softmax(ref.linear(w, hidden, "discriminator.layers.6"))[0, environment])

    present = set(labels.tolist())
    total = 0.0
    for row, label, environment in zip(inputs, labels, environments, strict=True):
        weight = 1 / ((labels == label).sum() * len(present)) if by_label else 1 / len(labels)
        total += weight * loss_of(row, environment)
        if grad_penalty:
            slopes = [
                (loss_of(row + 1e-5 * e, environment) - loss_of(row - 1e-5 * e, environment)) / 2e-5
                for e in np.eye(len(row))
            ]
            total += grad_penalty * np.square(slopes).sum() / len(labels)
    return float(total)


def reference_losses(algorithm, batches, *, grad_penalty):
    conditional = type(algorithm).__name__ == "CDANN"
    data = ref.arrays(batches)
    x = np.concatenate([part for part, _ in data])
    y = np.concatenate([part for _, part in data])
    environments = np.repeat(np.arange(len(data)), [len(part) for _, part in data])

    def disc(w):
        inputs = ref.encode(w, x)
        if conditional:
            inputs = inputs + w["label_embeddings.weight"][y]
        return discriminator_loss(
            w, inputs, y, environments, by_label=conditional, grad_penalty=grad_penalty
        )

    return disc, lambda w: ref.cross_entropy(ref.predict(w, x), y)


def without_label(batches, label):
    return [(x[y != label], y[y != label]) for x, y in batches]


@pytest.mark.parametrize("name", ["DANN", "CDANN"])
@pytest.mark.parametrize("grad_penalty", [0.0, 0.3])
def test_the_two_players_minimise_what_the_equations_say(name, grad_penalty):
    algorithm = make_double(name, dann_lambda=0.7, grad_penalty=grad_penalty, **SMALL)
    batches = without_label(tiny_batches((9, 7), dtype=torch.float64), label=N_LABELS - 1)
    disc, classification = reference_losses(algorithm, batches, grad_penalty=grad_penalty)
    steps = ref.record_steps(algorithm)
    algorithm.update(batches)
    algorithm.update(batches)
    generator, discriminator = steps

    assert generator.optimizers == ("main",)
    assert generator.modules == {"featurizer", "classifier"}
    generator.assert_matches(lambda w: classification(w) - 0.7 * disc(w), rtol=1e-6)

    assert discriminator.optimizers == ("discriminator",)
    assert discriminator.modules <= {"discriminator", "label_embeddings"}
    discriminator.assert_matches(disc, rtol=1e-6)


def test_the_discriminator_takes_the_stated_number_of_steps_between_the_others():
    dann = make_double("DANN", d_steps_per_g_step=3, **SMALL)
    steps = ref.record_steps(dann)
    for seed in range(8):
        dann.update(tiny_batches(seed=seed, dtype=torch.float64))
    turns = [step.optimizers[0][0] for step in steps]
    assert "".join(turns) == "ddmdddmd"


def test_adam_has_the_betas_and_rates_of_the_benchmark():
    dann = make_double("DANN", lr=0.1, lr_d=0.2, weight_decay_d=0.3, **SMALL)
    main, discriminator = (dann.optimizers[k].param_groups[0] for k in ("main", "discriminator"))
    assert main["betas"] == discriminator["betas"] == (0.5, 0.9)
    assert (main["lr"], main["weight_decay"]) == (0.1, 0.0)
    assert (discriminator["lr"], discriminator["weight_decay"]) == (0.2, 0.3)
