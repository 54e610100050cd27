"""What holds for every registered algorithm."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from equipoise.algorithms import TrainingState, get_algorithm, list_algorithms

from .tiny import N_LABELS, make, tiny_batches, tiny_net_with_dropout

ALL = list_algorithms()

# Short annealing, so that a restart of Adam falls inside the few steps of a test.
QUICK = {
    "IRM": {"irm_penalty_anneal_iters": 4},
    "VREx": {"vrex_penalty_anneal_iters": 4},
    "Fishr": {"penalty_anneal_iters": 4},
    "PI": {"pi_partition_steps": 4},
    "JTT": {"jtt_identification_steps": 4},
    "EIIL": {"eiil_reference_steps": 4},
}


def quick(name, **keywords):
    return make(name, **{**QUICK.get(name, {}), **keywords})


def same_bits(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


@pytest.mark.parametrize("name", ALL)
def test_a_training_resumed_from_safetensors_and_json_ends_with_the_same_bits(name, tmp_path):
    def fresh(seed):
        return quick(name, seed=seed, featurizer=tiny_net_with_dropout)

    def train(algorithm, steps):
        reports = []
        for step in steps:
            if step in (0, 2):  # the factor set before the interruption holds after it
                algorithm.set_lr_factor(1 / (1 + step))
            reports.append(algorithm.update(tiny_batches(seed=step)))
        return reports

    undisturbed = fresh(seed=5)
    reports = train(undisturbed, range(6))

    interrupted = fresh(seed=5)
    first = train(interrupted, range(3))
    state = interrupted.training_state()
    save_file(state.tensors, tmp_path / "state.safetensors")
    (tmp_path / "state.json").write_text(json.dumps(state.values))

    resumed = fresh(seed=6)
    tensors = load_file(tmp_path / "state.safetensors")
    values = json.loads((tmp_path / "state.json").read_text())
    torch.manual_seed(123)  # the global generator plays no part
    resumed.load_training_state(TrainingState(tensors, values))
    second = train(resumed, range(3, 6))

    assert first + second == reports
    assert same_bits(resumed.training_state().tensors, undisturbed.training_state().tensors)


@pytest.mark.parametrize("name", ALL)
def test_the_loss_falls_within_a_few_dozen_steps(name):
    build = quick if name in ("JTT", "EIIL") else make  # their second model starts late
    algorithm = build(name, lr=1e-2)
    batches = tiny_batches((24, 16))
    reports = [algorithm.update(batches)["loss"] for _ in range(60)]
    assert sum(reports[-5:]) < 0.8 * sum(reports[:5])
    algorithm.eval()
    x, y = (torch.cat(part) for part in zip(*batches, strict=True))
    assert (algorithm.predict(x).argmax(1) == y).float().mean() > 0.6


@pytest.mark.parametrize("name", ALL)
def test_the_generalised_cross_entropy_changes_the_steps_of_the_model(name):
    def train(q):
        algorithm = quick(name, gce_q=q)
        start = algorithm.classifier.weight.detach().clone()
        for seed in range(6):
            algorithm.update(tiny_batches(seed=seed))
        return start, algorithm.classifier.weight

    (first, plain), (second, generalised) = train(0.0), train(0.7)
    assert torch.equal(first, second)
    assert not torch.equal(plain, generalised)


@pytest.mark.parametrize("name", ALL)
def test_batches_may_differ_in_size_and_lack_a_label(name):
    algorithm = quick(name, n_environments=3)
    for seed in range(6):
        batches = tiny_batches((8, 1, 3), seed=seed)
        batches[0] = (batches[0][0], batches[0][1].clamp(max=1))  # no label 2 here
        report = algorithm.update(batches)
        assert all(torch.isfinite(torch.tensor(value)) for value in report.values()), report
    weights = algorithm.state_dict()
    assert all(torch.isfinite(w).all() for w in weights.values() if w.is_floating_point())
    assert algorithm.eval().predict(batches[0][0]).shape == (8, N_LABELS)


@pytest.mark.parametrize("name", ALL)
def test_an_absent_environment_changes_nothing_of_its_own_and_the_others_are_trained(name):
    """Absent is absent, whether it is left out, empty or named, and what is there is used."""
    batches = tiny_batches((8, 5, 6))
    nothing = (batches[1][0][:0], batches[1][1][:0])
    named, empty, all_there = (quick(name, n_environments=3) for _ in range(3))
    for _ in range(6):
        report = named.update([batches[0], batches[2]], [0, 2])
        assert report == empty.update([batches[0], nothing, batches[2]])
        all_there.update(batches)
    assert same_bits(named.state_dict(), empty.state_dict())
    assert not same_bits(named.state_dict(), all_there.state_dict())
    alone = quick(name, n_environments=3).update(batches[:1])
    assert all(torch.isfinite(torch.tensor(value)) for value in alone.values()), alone


def test_what_an_algorithm_keeps_of_an_environment_waits_for_its_return():
    batches = tiny_batches((8, 5, 6))
    for name, kept in (("Fishr", "variances"), ("MTL", "embeddings")):
        algorithm = quick(name, n_environments=3)
        algorithm.update(batches)
        before = getattr(algorithm, kept).clone()
        algorithm.update([batches[0], batches[2]], [0, 2])
        after = getattr(algorithm, kept)
        changed = (before != after).any(dim=1)
        assert changed.tolist() == [True, False, True]
    groupdro = quick("GroupDRO", n_environments=3)
    for _ in range(3):
        groupdro.update(batches[:2])
    assert groupdro.q[2] < 1 / 3  # its weight grows with no loss
    assert groupdro.q.sum().item() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ALL)
def test_a_learning_rate_factor_of_zero_stops_every_optimiser(name):
    algorithm = quick(name)
    before = [p.detach().clone() for p in algorithm.parameters()]
    algorithm.set_lr_factor(0.0)
    for seed in range(6):
        algorithm.update(tiny_batches(seed=seed))
    assert all(torch.equal(a, b) for a, b in zip(before, algorithm.parameters(), strict=True))


@pytest.mark.parametrize("name", ALL)
def test_a_step_leaves_the_global_generator_as_it_was(name):
    algorithm = quick(name, featurizer=tiny_net_with_dropout)
    before = torch.get_rng_state()
    algorithm.update(tiny_batches())
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ALL)
def test_a_search_draws_every_hyperparameter_and_the_algorithm_takes_them(name):
    algorithm = get_algorithm(name)
    for large_images in (False, True):
        drawn = algorithm.draw_hyperparameters(7, large_images=large_images)
        assert drawn == algorithm.draw_hyperparameters(7, large_images=large_images)
        assert drawn != algorithm.draw_hyperparameters(8, large_images=large_images)
        json.dumps(drawn)
        assert make(name, **drawn).settings == drawn


@pytest.mark.parametrize("name", ALL)
def test_one_environment_is_enough_or_refused_with_a_reason(name):
    if get_algorithm(name).min_environments == 1:
        report = quick(name, n_environments=1).update(tiny_batches((8,)))
        assert torch.isfinite(torch.tensor(report["loss"]))
    else:
        with pytest.raises(ValueError, match="needs at least 2"):
            quick(name, n_environments=1)
