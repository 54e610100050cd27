from copy import deepcopy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from equipoise.algorithms import ERM, Ranks, TrainingState
from equipoise.algorithms.risks import IRM

from .tiny import TinyNet, make, tiny_batches, tiny_net, tiny_net_with_dropout


def test_an_unknown_hyperparameter_is_named_with_the_nearest_and_the_allowed():
    with pytest.raises(ValueError, match="unknown hyperparameter of IRM 'irm_lamda'") as error:
        IRM((6,), 3, 2, irm_lamda=3)
    assert "Did you mean 'irm_lambda'?" in str(error.value)
    assert "weight_decay" in str(error.value)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        (tiny_batches((4, 4, 4)), "at most 2; got 3"),
        ([(torch.zeros(0, 6), torch.zeros(0).long())] * 2, "at least one environment"),
        ([tiny_batches((4,))[0], (torch.zeros(3, 6), torch.zeros(2).long())], "3 examples and 2"),
        ([(torch.zeros(2, 5), torch.zeros(2).long())] * 2, r"shape \(5,\).*built for \(6,\)"),
    ],
)
def test_batches_that_do_not_fit_are_refused_before_anything_changes(batches, message):
    erm = make("ERM")
    state = erm.training_state()
    with pytest.raises(ValueError, match=message):
        erm.update(batches)
    after = erm.training_state()
    assert all(torch.equal(state.tensors[k], after.tensors[k]) for k in state.tensors)


def test_large_images_are_recognised_by_their_side_unless_told():
    def lr(shape, **keywords):
        net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return ERM(shape, 3, 2, featurizer=net, **keywords).settings["lr"]

    assert lr((3, 28, 28)) == 1e-3
    assert lr((3, 224, 224)) == 5e-5
    assert lr((3, 28, 28), large_images=True) == 5e-5
    assert lr((3, 224, 224), large_images=False) == 1e-3


def test_any_module_serves_as_featurizer_whether_it_states_its_outputs_or_not():
    silent = nn.Sequential(nn.Linear(6, 7), nn.Tanh())
    assert ERM((6,), 3, 2, featurizer=silent).classifier.in_features == 7
    assert ERM((6,), 3, 2, featurizer=TinyNet()).classifier.in_features == 5
    assert ERM((6,), 3, 2, featurizer=silent, n_features=7).classifier.in_features == 7
    with pytest.raises(ValueError, match="one feature vector for each example"):
        ERM((2, 8, 8), 3, 2, featurizer=nn.Conv2d(2, 4, 3))


def test_frozen_parameters_of_a_users_module_stay_as_they_are():
    net = TinyNet()
    net.layer.weight.requires_grad_(False)
    before = net.layer.weight.clone()
    erm = ERM((6,), 3, 2, featurizer=net)
    for seed in range(3):
        erm.update(tiny_batches(seed=seed))
    assert torch.equal(before, erm.featurizer.layer.weight)


def test_a_users_module_serves_several_algorithms_and_stays_as_it_is():
    net = TinyNet()
    before = net.layer.weight.detach().clone()
    first, second = (ERM((6,), 3, 2, featurizer=net, seed=0) for _ in range(2))
    for seed in range(3):
        first.update(tiny_batches(seed=seed))
    assert torch.equal(before, net.layer.weight)
    assert torch.equal(before, second.featurizer.layer.weight)
    assert not torch.equal(before, first.featurizer.layer.weight)


def test_a_step_uses_the_scaled_learning_rate_even_after_adam_restarted():
    irm = make("IRM", lr=0.1, irm_penalty_anneal_iters=1)
    irm.set_lr_factor(0.5)
    irm.update(tiny_batches())
    before = [p.detach().clone() for p in irm.parameters()]
    irm.update(tiny_batches(seed=1))  # Adam restarts, so each entry moves by lr·sign(gradient)
    for old, new in zip(before, irm.parameters(), strict=True):
        torch.testing.assert_close((old - new).abs(), torch.full_like(old, 0.05), rtol=1e-2, atol=0)


def test_adamw_decays_the_weights_apart_from_the_gradient():
    adamw = make("ERM", optimizer="adamw", lr=0.1, weight_decay=0.5)
    adam = make("ERM", lr=0.1)
    start = [p.detach().clone() for p in adamw.parameters()]
    for algorithm in (adamw, adam):
        algorithm.update(tiny_batches())
    for origin, decayed, plain in zip(start, adamw.parameters(), adam.parameters(), strict=True):
        torch.testing.assert_close(decayed, plain - 0.1 * 0.5 * origin)
    with pytest.raises(ValueError, match="'adam' or 'adamw', got 'sgd'"):
        make("ERM", optimizer="sgd")


@pytest.mark.parametrize("name", ["small-cnn", "mnist-cnn"])
def test_convolutions_take_the_step_of_a_plain_loop(name):
    erm = ERM((2, 12, 12), 3, 2, featurizer=name, seed=0, lr=1e-2)
    network = nn.Sequential(deepcopy(erm.featurizer), deepcopy(erm.classifier))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2, fused=False, foreach=False)
    for seed in range(3):
        batches = tiny_batches(shape=(2, 12, 12), seed=seed)
        erm.update(batches)
        x, y = (torch.cat(parts) for parts in zip(*batches, strict=True))
        optimizer.zero_grad()
        cross_entropy(network(x), y).backward()
        optimizer.step()
    for ours, plain in zip(erm.parameters(), network.parameters(), strict=True):
        assert (ours - plain).abs().mean() < 1e-3  # Adam's first steps are signs: few may differ


def test_the_state_of_another_algorithm_or_network_is_refused():
    state = make("CORAL").training_state()
    with pytest.raises(ValueError, match="belongs to 'CORAL', not to 'ERM'"):
        make("ERM").load_training_state(state)
    other = ERM((6,), 3, 2, featurizer=lambda shape: TinyNet(n_outputs=4))
    with pytest.raises(RuntimeError, match="size mismatch"):
        other.load_training_state(make("ERM").training_state())


def test_a_saved_state_is_a_copy_that_later_steps_do_not_change():
    erm = make("ERM")
    erm.update(tiny_batches())
    state = erm.training_state()
    kept = TrainingState({k: v.clone() for k, v in state.tensors.items()}, dict(state.values))
    erm.update(tiny_batches())
    assert all(torch.equal(state.tensors[k], kept.tensors[k]) for k in kept.tensors)
    assert state.values == kept.values


def test_bfloat16_autocast_trains_and_keeps_the_weights_in_float32():
    erm = make("ERM", lr=1e-2)
    erm.autocast_dtype = torch.bfloat16
    losses = [erm.update(tiny_batches((24, 16)))["loss"] for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
    assert {p.dtype for p in erm.parameters()} == {torch.float32}


def test_ranks_draw_other_dropout_masks_and_the_first_those_of_one_process():
    class Second(Ranks):
        rank = 1

    ended = []
    for ranks in (Ranks(), Ranks(), Second()):
        erm = make("ERM", featurizer=tiny_net_with_dropout)
        erm.ranks = ranks
        erm.update(tiny_batches())
        ended.append(erm.classifier.weight.detach())
    assert torch.equal(ended[0], ended[1])
    assert not torch.equal(ended[0], ended[2])


def test_the_repr_tells_the_settings():
    assert "irm_lambda=100.0" in repr(IRM((6,), 3, 2, featurizer=tiny_net))


@pytest.mark.parametrize("environments", [[0, 2], [0, 0], [-1, 0], [0]])
def test_environments_that_are_not_there_are_refused(environments):
    with pytest.raises(ValueError, match=r"one \(x, y\) for each environment of this step"):
        make("ERM").update(tiny_batches((4, 4)), environments)


@pytest.mark.parametrize(
    "name",
    ["GroupDRO", "CORAL", "MMD", "CausIRL_CORAL", "CausIRL_MMD", "ANDMask", "SANDMask", "MTL"],
)
def test_live_batch_norm_sees_each_environment_by_itself(name):
    network = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4))
    batches = tiny_batches((9, 7))
    algorithm = make(name, featurizer=network)
    assert algorithm.encodes_apart
    apart = algorithm.encode(batches)[0]
    for seen, (x, _) in zip(apart, batches, strict=True):
        torch.testing.assert_close(seen.mean(dim=0), torch.zeros(4), atol=1e-6, rtol=0)
        torch.testing.assert_close(seen, algorithm.featurizer(x))
    together = torch.cat(make("ERM", featurizer=network).encode(batches)[0])
    torch.testing.assert_close(together.mean(dim=0), torch.zeros(4), atol=1e-6, rtol=0)
    assert not torch.allclose(together, torch.cat(apart))
