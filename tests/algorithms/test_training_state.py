import json

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from equipoise.algorithms import TrainingState, WeightAverage

from .tiny import make, tiny_batches


def test_the_average_weighs_the_past_geometrically_and_sums_to_one():
    model = nn.Linear(3, 2).double()
    average = WeightAverage(model, decay=0.8)
    rng = np.random.default_rng(0)
    history = []
    for step in range(1, 8):
        model.weight.data = torch.tensor(rng.standard_normal((2, 3)))
        history.append(model.weight.data.numpy())
        average.update()
        shares = np.array([0.8 ** (step - i) for i in range(1, step + 1)])
        expected = np.tensordot(shares / shares.sum(), np.array(history), axes=1)
        np.testing.assert_allclose(average.average["weight"].numpy(), expected, rtol=1e-9)


def test_the_model_has_the_average_inside_and_its_own_weights_after_even_an_error():
    model = nn.Linear(2, 1)
    average = WeightAverage(model, decay=0.5)
    own = model.weight.detach().clone()
    average.average["weight"].fill_(7.0)

    def evaluate():
        with average.applied():
            assert (model.weight == 7).all()
            raise KeyError

    with pytest.raises(KeyError):
        evaluate()
    assert torch.equal(model.weight, own)


def test_training_goes_on_untouched_after_the_average_was_applied():
    plain, averaged = make("ERM"), make("ERM")
    average = WeightAverage(averaged, decay=0.9)
    for seed in range(4):
        plain.update(tiny_batches(seed=seed))
        averaged.update(tiny_batches(seed=seed))
        average.update()
        with average.applied(), torch.no_grad():
            averaged.eval().predict(tiny_batches()[0][0])
    for a, b in zip(plain.parameters(), averaged.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_resumed_average_has_the_same_bits():
    algorithm = make("ERM")
    undisturbed, first = (WeightAverage(algorithm, decay=0.9) for _ in range(2))
    resumed = WeightAverage(make("ERM", seed=9), decay=0.9)
    resumed.model = algorithm
    for seed in range(6):
        algorithm.update(tiny_batches(seed=seed))
        undisturbed.update()
        if seed < 3:
            first.update()
        else:
            if seed == 3:
                state = first.training_state()
                tensors = load(save(state.tensors))
                values = json.loads(json.dumps(state.values))
                resumed.load_training_state(TrainingState(tensors, values))
            resumed.update()
    for name, value in undisturbed.average.items():
        assert torch.equal(value, resumed.average[name])


def test_an_average_of_another_model_is_refused():
    state = WeightAverage(nn.Linear(2, 1)).training_state()
    with pytest.raises(ValueError, match="another model"):
        WeightAverage(nn.Linear(2, 1, bias=False)).load_training_state(state)
