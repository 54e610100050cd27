import numpy as np
import pytest
import torch

from equipoise.algorithms.risks import ERM
from equipoise.benchmark import split_for_run
from equipoise.benchmark.balancers import fit_balancer
from equipoise.benchmark.evaluation import Evaluator

from .tiny import make_data, make_settings


def right_by_hand(algorithm, dataset, rows):
    """One example at a time."""
    algorithm.eval()
    with torch.no_grad():
        found = [int(algorithm.predict(dataset[int(row)][0][None]).argmax()) for row in rows]
    return np.array(found) == dataset.labels[rows]


def test_accuracies_are_those_of_one_example_at_a_time():
    dataset = make_data(n=300)
    data = split_for_run(make_settings(), dataset)
    balancer = fit_balancer(make_settings(), data)
    algorithm = ERM((6,), 3, 2, seed=1)
    found = Evaluator(data, balancer=balancer).evaluate(algorithm)
    for accuracies, parts in (
        (found.train, data.train_parts),
        (found.held_out, data.held_out_parts),
    ):
        by_hand = [right_by_hand(algorithm, dataset, rows).mean() for rows in parts]
        assert np.allclose(accuracies, by_hand)

    weights = balancer.balanced_weights(data.held_out)
    right = right_by_hand(algorithm, dataset, data.held_out.indices)
    by_environment = [
        (weights * right)[chosen].sum() / weights[chosen].sum()
        for chosen in (data.held_out.environments == e for e in (0, 1))
    ]
    assert np.isclose(found.balanced, np.mean(by_environment))


def test_fewer_examples_are_always_the_same_and_never_of_a_selecting_part():
    data = split_for_run(make_settings(), make_data())
    first, second = (Evaluator(data, at_most=20, data_seed=3) for _ in range(2))
    algorithm = ERM((6,), 3, 2)
    some, again = (e.evaluate(algorithm, complete=False) for e in (first, second))
    whole = first.evaluate(algorithm)
    assert some == again
    assert some.held_out == whole.held_out
    assert some.train[2] == whole.train[2]  # the test environment
    assert all((accuracy * 20).is_integer() for accuracy in np.round(some.train[:2], 9))


def test_a_label_the_balancer_never_saw_weighs_nothing():
    dataset = make_data()
    settings = make_settings()
    data = split_for_run(settings, dataset)
    dataset.labels[data.train.indices[data.train.labels == 2]] = 0
    data = split_for_run(settings, dataset)
    balancer = fit_balancer(settings, data)
    algorithm = ERM((6,), 3, 2)
    torch.nn.init.constant_(algorithm.classifier.weight, 0.0)
    algorithm.classifier.bias.data = torch.tensor([0.0, 0.0, 9.0])  # always the unseen label
    assert Evaluator(data, balancer=balancer).evaluate(algorithm).balanced == 0.0


def test_held_out_examples_without_any_match_are_no_ground_to_select_by():
    """All weights may be 0 under a caliper; a mean over nothing would be NaN."""
    data = split_for_run(make_settings(), make_data(n=300))
    balancer = fit_balancer(make_settings(), data)
    balancer.common_support = 0.33  # nothing is as undecided as that between three labels
    with (
        pytest.warns(UserWarning, match="all weights are 0"),
        pytest.raises(ValueError, match=r"none of the .* held-out examples .* has a match"),
    ):
        Evaluator(data, balancer=balancer)
