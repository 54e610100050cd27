"""The sampler is Algorithm 1, and behaves as loaders and ranks expect."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.balance import (
    BalancedBatchSampler,
    LazyMatches,
    Matches,
    match_covariate,
    match_scores,
)


def make(n=120, n_labels=4, n_environments=2, seed=0, k=3):
    """Random scores, labels and environments, matched."""
    rng = np.random.default_rng(seed)
    scores = np.log(rng.dirichlet(np.ones(n_labels), size=n))
    labels, environments = rng.integers(n_labels, size=n), rng.integers(n_environments, size=n)
    return labels, environments, match_scores(scores, labels, environments, n_nearest=k)


def sampler_of(data, **options):
    labels, environments, matches = data
    chosen = {"anchors_per_environment": 4, "n_matches": 2, **options}
    return BalancedBatchSampler(labels, environments, matches, **chosen)


def test_a_batch_has_b_anchors_of_each_environment_with_a_matches_each():
    data = make()
    for batch in sampler_of(data):
        assert len(batch) == 2 * 4 * 3
        assert Counter(data[1][batch]) == {0: 12, 1: 12}


def test_every_group_is_an_anchor_with_different_other_labels_from_its_own_nearest():
    labels, environments, matches = data = make()
    sampler = sampler_of(data, n_matches=3)
    anchors = np.arange(len(labels))
    groups = sampler.draw_groups(anchors, np.random.default_rng(0))
    assert (groups[:, 0] == anchors).all()
    for anchor, *others in groups:
        assert len({labels[anchor], *labels[others]}) == 4
        assert (environments[others] == environments[anchor]).all()
        for other in others:
            assert other in matches.indices[anchor, labels[other]]


def test_all_of_the_k_nearest_are_drawn():
    labels, _, matches = data = make(n=60)
    sampler = sampler_of(data, n_matches=3)
    seen = set()
    for seed in range(40):
        seen |= set(sampler.draw_groups(np.array([0]), np.random.default_rng(seed))[0, 1:])
    others = [y for y in range(4) if y != labels[0]]
    assert seen == set(matches.indices[0, others].ravel())


def test_an_epoch_makes_every_example_of_the_largest_environment_an_anchor_once():
    rng = np.random.default_rng(0)
    environments = np.repeat([0, 1], [24, 7])
    labels = rng.integers(3, size=31)
    matches = match_scores(np.log(rng.dirichlet(np.ones(3), size=31)), labels, environments)
    sampler = BalancedBatchSampler(
        labels, environments, matches, anchors_per_environment=4, n_matches=1
    )
    assert len(sampler) == 6
    large, small = sampler._plan(0)
    assert sorted(large) == list(range(24))
    assert sorted(small[:7]) == sorted(small[7:14]) == list(range(24, 31))
    assert small[:7].tolist() != small[7:14].tolist()
    assert len(list(sampler)) == 6


def test_anchors_and_matches_are_mixed_inside_an_environment():
    data = make(n=400)
    first = [batch[0] for batch in sampler_of(data, anchors_per_environment=10)]
    plan = sampler_of(data, anchors_per_environment=10)._plan(0)[0][::10]
    assert (np.array(first) != plan[: len(first)]).mean() > 0.5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1, 2, 3, 6]), st.integers(1, 3))
def test_the_ranks_together_see_the_batches_of_a_single_process(seed, ranks, n_matches):
    data = make(n=90, seed=seed)
    options = {"anchors_per_environment": 6, "n_matches": n_matches, "seed": seed}
    single = list(sampler_of(data, **options))
    shares = [list(sampler_of(data, num_replicas=ranks, rank=r, **options)) for r in range(ranks)]
    for batch, *parts in zip(single, *shares, strict=True):
        assert Counter(batch) == sum((Counter(part) for part in parts), Counter())


def test_a_group_never_leaves_its_rank():
    """Each rank's share of an environment is whole groups: as many anchors as the ranks split."""
    labels, environments, matches = data = make(n=200, k=1)
    for rank in range(2):
        sampler = sampler_of(data, num_replicas=2, rank=rank, n_matches=3)
        plan = sampler._plan(0)
        for position, batch in enumerate(sampler):
            for environment, anchors in enumerate(plan):
                own = anchors[position * 4 + rank * 2 : position * 4 + rank * 2 + 2]
                expected = Counter(own.tolist())
                for anchor in own:
                    others = [y for y in range(4) if y != labels[anchor]]
                    expected += Counter(matches.indices[anchor, others, 0].tolist())
                here = [i for i in batch if environments[i] == environment]
                assert Counter(here) == expected


def test_the_seed_and_the_epoch_fix_every_draw():
    data = make()
    first = list(sampler_of(data))
    assert list(sampler_of(data)) == first
    assert list(sampler_of(data, seed=1)) != first
    other_epoch = sampler_of(data)
    other_epoch.set_epoch(1)
    assert list(other_epoch) != first
    other_epoch.set_epoch(0)
    assert list(other_epoch) == first


def test_a_loop_that_never_sets_the_epoch_sees_new_draws_in_each():
    sampler = sampler_of(make())
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(1)
    assert list(sampler) == second


def test_a_pass_that_was_broken_off_starts_over():
    sampler = sampler_of(make())
    whole = list(sampler)
    sampler.set_epoch(0)
    assert next(iter(sampler)) == whole[0]
    assert list(sampler) == whole


@pytest.mark.parametrize("n_taken", [0, 1, 5, -1])
def test_a_restored_sampler_goes_on_after_the_last_batch(n_taken):
    data = make()
    undisturbed = sampler_of(data, seed=5)
    n_taken %= len(undisturbed) + 1
    expected = [*undisturbed, *undisturbed]
    interrupted = sampler_of(data, seed=5)
    batches = iter(interrupted)
    for _ in range(n_taken):
        next(batches)
    restored = sampler_of(data)
    restored.load_state_dict(interrupted.state_dict())
    rest = list(restored)
    rest += [] if len(rest) + n_taken > len(undisturbed) else list(restored)
    assert rest == expected[n_taken:]


def test_lightning_and_accelerate_find_set_epoch_where_they_look():
    sampler = sampler_of(make())
    sampler.sampler.set_epoch(3)
    assert sampler.epoch == 3


def test_a_label_missing_in_an_environment_is_skipped_and_counted():
    labels = np.array([0, 1, 2, 0, 1, 0, 1])
    environments = np.array([0, 0, 0, 1, 1, 1, 1])
    scores = np.log(np.full((7, 3), 1 / 3))
    matches = match_scores(scores, labels, environments)
    sampler = BalancedBatchSampler(
        labels, environments, matches, anchors_per_environment=4, n_matches=2
    )
    (batch,) = sampler
    assert Counter(environments[batch]) == {0: 12, 1: 8}
    assert sampler.skipped_matches == 4


@pytest.mark.parametrize("m", [2, 3, 5])
def test_theorem_3_7_holds_for_every_number_of_matches(m):
    """p̂(Y|Z,E) = (a/(m−1) + (m−a−1)/(m−1)·p(Y|Z,E)) / (a+1) under exact matches."""
    rng = np.random.default_rng(m)
    n = 4000
    covariate = rng.integers(3, size=n)
    propensity = rng.dirichlet(np.full(m, 5.0), size=3)
    labels = np.array([rng.choice(m, p=propensity[z]) for z in covariate])
    environments = np.zeros(n, dtype=int)
    table = np.zeros((3, m))
    np.add.at(table, (covariate, labels), 1)
    p = table / table.sum(1, keepdims=True)
    assert (table > 0).all()
    exact = {"n_nearest": 50, "tolerance": 0.0}
    matches = match_scores(np.log(p[covariate]), labels, environments, **exact)
    for a in range(1, m):
        sampler = BalancedBatchSampler(
            labels, environments, matches, anchors_per_environment=n, n_matches=a
        )
        (batch,) = sampler
        seen = np.zeros((3, m))
        np.add.at(seen, (covariate[batch], labels[batch]), 1)
        expected = (a / (m - 1) + (m - a - 1) / (m - 1) * p) / (a + 1)
        # Only the labels that anchors draw are random: a standard error of √(p(1−p)/n) at most.
        error = np.abs(seen / seen.sum(1, keepdims=True) - expected)
        assert (error < 4 * np.sqrt(0.25 / seen.sum(1, keepdims=True))).all()
        if a == m - 1:
            assert error.max() < 1e-12


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_the_degree_of_balancing_is_the_share_of_anchors_with_other_labels(beta):
    rng = np.random.default_rng(0)
    n = 3000
    covariate, labels = rng.integers(4, size=n), rng.integers(3, size=n)
    environments = np.zeros(n, dtype=int)
    matches = match_covariate(covariate, labels, environments, generator=rng)
    sampler = BalancedBatchSampler(
        labels,
        environments,
        matches,
        anchors_per_environment=n,
        n_matches=2,
        degree_of_balancing=beta,
    )
    groups = sampler.draw_groups(np.arange(n), np.random.default_rng(1))
    assert (covariate[groups] == covariate[:, None]).all()
    other = labels[groups[:, 1:]] != labels[:, None]
    assert (other.all(1) | (~other).all(1)).all()
    assert abs(other.all(1).mean() - beta) < 4 * np.sqrt(0.25 / n)


def test_matches_of_other_examples_are_refused():
    labels, environments, matches = make()
    options = {"anchors_per_environment": 4, "n_matches": 2}
    with pytest.raises(ValueError, match="matches are of 120 examples, labels of 119"):
        BalancedBatchSampler(labels[1:], environments[1:], matches, **options)
    with pytest.raises(ValueError, match="other labels or environments"):
        BalancedBatchSampler(labels, environments[::-1], matches, **options)
    with pytest.raises(ValueError, match="batches an epoch"):
        sampler_of((labels, environments, matches)).load_state_dict(
            sampler_of((labels, environments, matches), anchors_per_environment=8).state_dict()
        )


WHOLE_STATE = {"seed": 0, "epoch": 0, "position": 3}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "state must be a state_dict of a sampler"),
        (None, "state must be a state_dict of a sampler"),
        ({**WHOLE_STATE, "position": None}, "position of the state must be a whole number"),
        ({**WHOLE_STATE, "seed": -1}, "seed of the state must be at least 0"),
        ({**WHOLE_STATE, "epoch": 10**20}, "epoch of the state must be at most"),
        ({**WHOLE_STATE, "batches": "x"}, "batches of the state must be a whole number"),
    ],
)
def test_a_state_that_is_none_is_refused_and_changes_nothing(state, message):
    sampler = sampler_of(make())
    with pytest.raises((ValueError, TypeError), match=message):
        sampler.load_state_dict(state)
    assert sampler.state_dict() == sampler_of(make()).state_dict()


BAD = {
    "more matches than other labels": ({"n_matches": 4}, "number of labels − 1 = 3"),
    "no matches": ({"n_matches": 0}, "n_matches must be between 1"),
    "anchors that ranks cannot share": (
        {"num_replicas": 3, "rank": 0},
        "multiple of the 3 replicas",
    ),
    "no anchors": ({"anchors_per_environment": 0}, "anchors_per_environment must be at least 1"),
    "a rank that does not exist": ({"rank": 1, "num_replicas": 1}, "rank 1 is not one of 1"),
    "a rank without the number of ranks": ({"rank": 0}, "both num_replicas and rank"),
    "a degree above one": ({"degree_of_balancing": 1.5}, "degree_of_balancing must be"),
    "a degree without companions": ({"degree_of_balancing": 0.5}, "companions"),
}


@pytest.mark.parametrize(("options", "message"), BAD.values(), ids=BAD.keys())
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        sampler_of(make(), **options)


def test_a_framework_that_rebuilds_the_sampler_its_own_way_is_told_what_to_do():
    with pytest.raises(TypeError):
        BalancedBatchSampler(sampler_of(make()), batch_size=4, drop_last=False)
    with pytest.raises(TypeError, match="use_distributed_sampler=False"):
        BalancedBatchSampler([0, 1], [0, 0], None, anchors_per_environment=1, n_matches=1)


def test_string_labels_are_refused_with_what_is_expected():
    _, environments, matches = make(n=3)
    with pytest.raises(ValueError, match="integer codes"):
        BalancedBatchSampler(
            ["a", "b", "c"], environments, matches, anchors_per_environment=1, n_matches=1
        )


def test_an_anchor_whose_matches_are_all_beyond_the_caliper_is_left_out():
    scores = np.log([[0.5, 0.5], [0.5, 0.5], [0.99, 0.01], [0.5, 0.5]])
    labels, environments = [0, 1, 0, 1], [0, 0, 0, 0]
    matches = match_scores(scores, labels, environments, caliper=0.01)
    sampler = BalancedBatchSampler(
        labels, environments, matches, anchors_per_environment=3, n_matches=1
    )
    (batch,) = sampler
    assert 2 not in batch
    assert Counter(np.array(labels)[batch]) == {0: 3, 1: 3}
    assert sampler.skipped_matches == 0


def test_environments_without_any_match_are_left_out_with_a_warning():
    labels, environments = np.array([0, 1, 1, 1]), np.array([0, 0, 7, 7])
    matches = match_scores(np.log(np.full((4, 2), 0.5)), labels, environments)
    with pytest.warns(UserWarning, match=r"environments \[7\] has a match"):
        sampler = BalancedBatchSampler(
            labels, environments, matches, anchors_per_environment=2, n_matches=1
        )
    assert [sorted(batch) for batch in sampler] == [[0, 0, 1, 1]]
    assert sampler.environment_codes.tolist() == [0, 7]
    assert [[len(part) for part in step] for step in sampler.steps()] == [[4, 0]]


def test_nothing_to_match_is_an_error_that_says_what_to_do():
    none = Matches(np.full((2, 2, 1), -1), np.full((2, 2, 1), np.inf), "kl")
    with pytest.raises(ValueError, match="widen the caliper"):
        BalancedBatchSampler([0, 1], [0, 0], none, anchors_per_environment=2, n_matches=1)


def test_lazy_matches_beyond_the_caliper_leave_their_anchor_out_too():
    scores = np.log([[0.5, 0.5], [0.5, 0.5], [0.99, 0.01], [0.5, 0.5]])
    labels, environments = np.array([0, 1, 0, 1]), np.zeros(4, dtype=np.int64)
    lazy = LazyMatches(scores, labels, environments, caliper=0.01)
    sampler = BalancedBatchSampler(
        labels, environments, lazy, anchors_per_environment=4, n_matches=1
    )
    (batch,) = sampler
    assert 2 not in batch
    assert Counter(labels[batch]) == {0: 3, 1: 3}
    assert sampler.skipped_matches == 1
    nothing = LazyMatches(scores[2:], labels[2:], environments[2:], caliper=0.0)
    alone = BalancedBatchSampler(
        labels[2:], environments[2:], nothing, anchors_per_environment=2, n_matches=1
    )
    with pytest.raises(ValueError, match="within the caliper"):
        next(iter(alone))


# --- steps, processes ----------------------------------------------------------------------------


def test_a_step_has_one_array_for_each_environment_and_a_batch_is_the_step_flattened():
    data = make(n_environments=3)
    sampler, flat = sampler_of(data), sampler_of(data)
    for number, (step, batch) in enumerate(zip(sampler.steps(), flat, strict=True)):
        assert [set(data[1][part]) for part in step] == [{0}, {1}, {2}]
        assert np.concatenate(step).tolist() == batch
        assert np.concatenate(sampler.draw_step(number)).tolist() == batch


def test_any_step_of_training_can_be_drawn_by_its_number():
    sampler = sampler_of(make())
    sampler.set_epoch(2)
    third_epoch = list(sampler)
    drawn = [sampler.draw_step(2 * len(sampler) + place) for place in range(len(sampler))]
    assert [np.concatenate(step).tolist() for step in drawn] == third_epoch


def test_a_restored_place_survives_the_set_epoch_that_trainers_call_first():
    sampler = sampler_of(make())
    expected = list(sampler)
    sampler.load_state_dict({"seed": 0, "epoch": 0, "position": 3})
    sampler.set_epoch(0)
    assert list(sampler) == expected[3:]


class Group:
    """A process group of two, as `torch.distributed` shows it."""

    def __init__(self, monkeypatch, rank, world=2):
        monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
        monkeypatch.setattr("torch.distributed.get_world_size", lambda: world)
        monkeypatch.setattr("torch.distributed.get_rank", lambda: rank)


@pytest.mark.parametrize("rank", [0, 1])
def test_ranks_are_those_of_the_process_group_even_if_it_starts_later(monkeypatch, rank):
    data = make()
    sampler = sampler_of(data)  # as in a script whose trainer starts the processes
    explicit = [list(sampler_of(data, num_replicas=2, rank=r)) for r in range(2)]
    Group(monkeypatch, rank)
    assert list(sampler) == explicit[rank]
    assert list(sampler_of(data)) == explicit[rank]


def test_ranks_that_would_repeat_each_others_batches_are_refused(monkeypatch):
    data = make()
    early = sampler_of(data, num_replicas=1, rank=0)
    odd = sampler_of(data, anchors_per_environment=3)
    Group(monkeypatch, rank=1)
    for make_iterator in (early.__iter__, early.steps, lambda: early.draw_step(0)):
        with pytest.raises(ValueError, match="all would train on the same batches"):
            make_iterator()
    with pytest.raises(ValueError, match="this process is rank 1 of 2"):
        sampler_of(data, num_replicas=2, rank=0)
    with pytest.raises(ValueError, match="multiple of the 2 replicas"):
        iter(odd)


# --- weights -------------------------------------------------------------------------------------
