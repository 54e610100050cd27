"""CausalBalancer keeps scikit-learn's manners and the method's promises."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from equipoise import CausalBalancer
from equipoise.balance import balanced_frequencies
from equipoise.data import split_environments
from equipoise.diagnosis import cross_table, mutual_information, same_covariate_rate
from tests.conftest import make_spurious

SETTINGS = {"hidden": (64,), "max_steps": 300, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    return make_spurious(n=2000, n_labels=3)


@pytest.fixture(scope="module")
def fitted(data):
    return CausalBalancer(**SETTINGS).fit(data)


def test_matches_have_the_covariate_that_no_estimator_saw(data, fitted):
    assert same_covariate_rate(fitted.matches_, data.covariate) > 0.97


def test_balanced_batches_are_free_of_the_spurious_dependence(data, fitted):
    before = mutual_information(cross_table(data.covariate, data.labels))
    batches = np.concatenate(list(fitted.batch_sampler(16)))
    after = mutual_information(cross_table(data.covariate[batches], data.labels[batches]))
    assert after < 0.02 * before


def test_the_covariate_is_never_read(data):
    class Guarded(type(data)):
        @property
        def covariate(self):
            raise AssertionError("an estimator looked at the true covariate")

        @covariate.setter
        def covariate(self, value):
            pass

    guarded = Guarded(data.source.x, data.labels, data.environments)
    CausalBalancer(hidden=(8,), max_steps=20).fit(guarded)


def test_fitted_attributes_have_the_shapes_they_promise(data, fitted):
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.environments_.tolist() == [0, 1]
    assert fitted.log_scores_.shape == (2000, 3)
    assert fitted.matches_.indices.shape == (2000, 3, 40)
    assert fitted.n_matches_ == 2
    assert {reading.score for reading in fitted.readings_} == {"observed", "hypothesised"}
    best = min(fitted.readings_, key=lambda reading: reading.after)
    assert fitted.score_ == best.score
    assert best.after < 0.5 * best.before


def test_every_kind_of_input_gives_the_same_matches(data):
    x = data.source.x.numpy()
    names = np.array(["ant", "bee", "cow"])[data.labels]
    sites = np.array(["rome", "oslo"])[data.environments]
    settings = {"hidden": (8,), "max_steps": 20}
    first = CausalBalancer(**settings).fit(x, data.labels, data.environments)
    tensor = CausalBalancer(**settings).fit(torch.from_numpy(x), data.labels, data.environments)
    frame = CausalBalancer(**settings).fit(pd.DataFrame(x), data.labels, data.environments)
    items = TensorDataset(torch.from_numpy(x))
    plain = CausalBalancer(**settings).fit(items, pd.Series(data.labels), data.environments)
    for other in (tensor, frame, plain):
        assert np.array_equal(first.matches_.indices, other.matches_.indices)
    named = CausalBalancer(**settings).fit(x, names, sites)
    assert named.classes_.tolist() == ["ant", "bee", "cow"]
    assert named.environments_.tolist() == ["oslo", "rome"]
    batch = next(iter(named.batch_sampler(4)))
    assert set(sites[batch]) == {"rome", "oslo"}


def test_five_lines_give_a_balanced_loader(data):
    X, y, site = data.source.x, torch.from_numpy(data.labels), data.environments
    balancer = CausalBalancer(**SETTINGS).fit(X, y, site)
    loader = DataLoader(TensorDataset(X, y), batch_sampler=balancer.batch_sampler(8))
    xb, yb = next(iter(loader))
    assert xb.shape == (2 * 8 * 3, 6)
    assert torch.bincount(yb).tolist() == [16, 16, 16]


def test_fit_resample_takes_every_example_as_anchor_and_adds_its_matches(data):
    x = pd.DataFrame(data.source.x.numpy())
    balancer = CausalBalancer(n_matches=1, hidden=(8,), max_steps=20)
    x_new, y_new = balancer.fit_resample(x, data.labels, data.environments)
    taken = balancer.sample_indices_
    assert len(x_new) == len(y_new) == len(taken) == 4000
    assert (np.bincount(taken, minlength=2000) >= 1).all()
    assert np.array_equal(x_new.to_numpy(), x.to_numpy()[taken])
    assert np.array_equal(y_new, data.labels[taken])
    pairs = taken.reshape(-1, 2)
    assert (data.labels[pairs[:, 0]] != data.labels[pairs[:, 1]]).all()
    assert (data.environments[pairs[:, 0]] == data.environments[pairs[:, 1]]).all()


def test_same_random_state_same_bits(data, fitted):
    again = CausalBalancer(**SETTINGS).fit(data)
    assert np.array_equal(fitted.log_scores_, again.log_scores_)
    assert list(fitted.batch_sampler(16)) == list(again.batch_sampler(16))


def test_a_saved_balancer_comes_back_the_same(data, fitted, tmp_path):
    path = tmp_path / "balancer.safetensors"
    fitted.save(path)
    again = CausalBalancer.load(path)
    assert again.get_params() == fitted.get_params()
    assert again.readings_ == fitted.readings_
    assert list(fitted.batch_sampler(16)) == list(again.batch_sampler(16))
    assert np.array_equal(fitted.balanced_weights(data), again.balanced_weights(data))


def test_balanced_weights_estimate_accuracy_without_the_spurious_cue(data, fitted):
    """A classifier that copies the covariate is right by chance where nothing is spurious."""
    further = make_spurious(n=3000, n_labels=3, seed=9)
    right = further.covariate == further.labels
    weights = fitted.balanced_weights(further)
    assert right.mean() > 0.8
    assert np.average(right, weights=weights) == pytest.approx(1 / 3, abs=0.03)


def test_no_held_out_example_enters_a_fit_a_match_or_a_batch(data):
    seen = set()

    class Watched(type(data)):
        def fetch(self, indices):
            seen.update(np.asarray(indices).tolist())
            return super().fetch(indices)

    watched = Watched(data.source.x, data.labels, data.environments)
    split = split_environments(watched.environments)
    train = watched.subset(split.train)
    balancer = CausalBalancer(hidden=(8,), max_steps=30).fit(train)
    for batch in balancer.batch_sampler(32):
        train[batch]
    matched = train.indices[balancer.matches_.indices[balancer.matches_.indices >= 0]]
    held_out = set(split.held_out.tolist())
    assert seen == set(split.train.tolist())
    assert not held_out & set(matched.tolist())


def test_parameters_can_be_read_set_and_shown():
    balancer = CausalBalancer(n_matches=2, metric="l2")
    assert repr(balancer) == "CausalBalancer(n_matches=2, metric='l2')"
    balancer.set_params(metric="kl")
    assert balancer.get_params()["metric"] == "kl"
    with pytest.raises(ValueError, match="Did you mean 'metric'"):
        balancer.set_params(metrik="kl")


def test_one_width_may_stand_alone(data, tmp_path):
    alone, tupled = (CausalBalancer(hidden=h, max_steps=5).fit(data) for h in (8, (8,)))
    np.testing.assert_array_equal(alone.log_scores_, tupled.log_scores_)
    alone.save(tmp_path / "b.safetensors")
    assert CausalBalancer.load(tmp_path / "b.safetensors").hidden == 8


def test_scikit_learn_can_clone_it():
    from sklearn.base import clone

    original = CausalBalancer(n_matches=2, reading="observed")
    assert clone(original).get_params() == original.get_params()


def test_a_label_seen_in_one_environment_only_is_matched_there_and_skipped_elsewhere():
    data = make_spurious(n=600, n_labels=3)
    keep = np.flatnonzero((data.labels != 2) | (data.environments == 0))
    part = data.subset(keep)
    with pytest.warns(UserWarning, match=r"labels seen in one environment only: '2'"):
        balancer = CausalBalancer(hidden=(8,), max_steps=20).fit(part)
    elsewhere = balancer.matches_.indices[part.environments == 1]
    assert (elsewhere[:, 2] == -1).all()
    sampler = balancer.batch_sampler(8)
    next(iter(sampler))
    assert sampler.skipped_matches == 8


def test_further_examples_of_an_unknown_label_or_environment_are_refused(fitted):
    with pytest.raises(ValueError, match="label 7 was not seen"):
        fitted.score_examples(np.zeros((1, 6)), [7], [0])
    with pytest.raises(ValueError, match="environment 'rome' was not seen"):
        fitted.score_examples(np.zeros((1, 6)), [0], ["rome"])
    with pytest.raises(ValueError, match="call fit first"):
        CausalBalancer().batch_sampler()


def test_a_refused_fit_leaves_an_earlier_one_as_it_was(data):
    balancer = CausalBalancer(hidden=(8,), max_steps=20).fit(data)
    before = balancer.classes_, balancer.matches_
    with pytest.raises(ValueError, match="two labels or more"):
        balancer.fit(data.source.x, np.zeros(2000), data.environments)
    assert (balancer.classes_, balancer.matches_) == before


def test_environments_of_one_label_each_are_refused():
    e = np.arange(80) % 4
    with pytest.raises(ValueError, match="every environment has one label only"):
        CausalBalancer().fit(np.random.default_rng(0).normal(size=(80, 3)), e // 2, e)


def test_large_numbers_of_a_table_keep_their_differences(data):
    """Unix seconds differ by less than a float32 can tell."""
    x = data.source.x.numpy().astype(np.float64)
    plain = CausalBalancer(hidden=(8,), max_steps=20).fit(x, data.labels, data.environments)
    moved = CausalBalancer(hidden=(8,), max_steps=20).fit(x + 1.7e9, data.labels, data.environments)
    np.testing.assert_allclose(plain.log_scores_, moved.log_scores_, rtol=1e-3, atol=1e-3)


def test_images_with_colours_last_are_refused_and_unscaled_ones_warned_of():
    y, e = np.arange(40) % 2, np.arange(40) // 20
    with pytest.raises(ValueError, match=r"transpose\(0, 3, 1, 2\)"):
        CausalBalancer().fit(np.zeros((40, 8, 8, 3), dtype=np.uint8), y, e)
    pixels = np.full((40, 3, 8, 8), 200.0, dtype=np.float32)
    with pytest.warns(UserWarning, match="values up to 200"):
        CausalBalancer(hidden=(4,), max_steps=2).fit(pixels, y, e)


def test_training_restores_what_counts_as_zero_and_so_leaves_matching_exact(data):
    CausalBalancer(hidden=(8,), max_steps=5).fit(data)
    assert float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) > 0


def test_a_file_of_another_layout_is_a_clear_error(data, tmp_path):
    from equipoise.files import load_state, save_state

    path = tmp_path / "balancer.safetensors"
    CausalBalancer(hidden=(8,), max_steps=5).fit(data).save(path)
    tensors, facts = load_state(path)
    del tensors["match_counts"]
    save_state(path, tensors, facts)
    with pytest.raises(ValueError, match="match_counts"):
        CausalBalancer.load(path)


def test_numpy_parameters_can_be_saved_and_later_changes_do_not_matter(data, tmp_path):
    path = tmp_path / "balancer.safetensors"
    balancer = CausalBalancer(np.int64(1), hidden=(8,), max_steps=5, random_state=np.int64(3))
    balancer.fit(data).set_params(n_nearest=5).save(path)
    assert CausalBalancer.load(path).matches_.indices.shape == (2000, 3, 40)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"random_state": None}, "random_state"), ({"device": "cuda:99"}, "device must be")],
)
def test_parameters_that_cannot_work_are_refused_before_anything_is_done(data, settings, message):
    with pytest.raises((ValueError, TypeError), match=message):
        CausalBalancer(**settings).fit(data)


def test_columns_may_come_from_a_data_frame_of_any_types(data):
    frame = pd.DataFrame(
        {
            "label": pd.Series(np.array(["a", "b", "c"])[data.labels], dtype="string"),
            "code": data.labels.astype(object),
            "day": pd.to_datetime("2026-01-01") + pd.to_timedelta(data.environments, unit="D"),
        }
    )
    settings = {"hidden": (8,), "max_steps": 5}
    named = CausalBalancer(**settings).fit(data.source.x, frame["label"], frame["day"])
    assert named.classes_.tolist() == ["a", "b", "c"]
    coded = CausalBalancer(**settings).fit(data.source.x, frame["code"], frame["day"])
    assert coded.classes_.tolist() == [0, 1, 2]
    frame.loc[3, "label"] = pd.NA
    with pytest.raises(ValueError, match="missing values"):
        CausalBalancer(**settings).fit(data.source.x, frame["label"], frame["day"])


@pytest.fixture(scope="module")
def found(fitted):
    return fitted.diagnose()


class TestLooking:
    """Balance before and after, by the methods a user calls."""

    def test_the_dependence_on_the_covariate_is_found_and_removed(self, found):
        colour = found.worst[found.worst["kind"] == "known"]  # the dataset brings its covariate
        assert colour["smd_before"].max() > 2
        assert colour["smd_after"].mean() < 0.1
        assert found.verdict.level == "removed"
        assert found.gain is not None
        assert found.gain.gain > 0.05

    def test_balance_table_is_a_frame_of_all_pairs(self, fitted):
        table = fitted.balance_table()
        z = table[(table["kind"] == "z") & (table["environment"] == "0")]
        assert len(z) == 3 * 5  # pairs of labels × coordinates of z
        assert z["smd_before"].mean() > 3 * z["smd_after"].mean()

    def test_summary_prints_a_page_that_ends_in_words(self, fitted, capsys):
        page = fitted.summary()
        assert capsys.readouterr().out.strip() == page.strip()
        assert "A strong dependence of the label on Z was found" in " ".join(page.split())

    def test_the_fitted_examples_once_more_give_the_same_tables(self, data, fitted, found):
        again = fitted.diagnose(data)
        pd.testing.assert_frame_equal(again.table, found.table)
        assert again.verdict == found.verdict

    def test_further_examples_are_matched_among_themselves(self, fitted):
        further = make_spurious(n=900, n_labels=3, seed=9)
        seen = fitted.diagnose(further)
        assert seen.n_examples == 900
        np.testing.assert_allclose(seen.weights, fitted.balanced_weights(further))
        assert seen.verdict.level == "removed"

    def test_further_examples_without_a_match_are_refused_in_words_and_weigh_nothing(self):
        balancer = CausalBalancer(**SETTINGS).fit(make_spurious(n=900, n_labels=2))
        further = make_spurious(n=100, n_labels=2, seed=9)
        balancer.set_params(common_support=0.45)
        with pytest.raises(ValueError, match=r"common_support=0\.45 leave no example with a match"):
            balancer.diagnose(further)
        with pytest.warns(UserWarning, match=r"all weights are 0.*common_support"):
            assert not balancer.balanced_weights(further).any()

    def test_further_examples_of_one_environment_are_enough(self, fitted):
        further = make_spurious(n=900, n_labels=3, seed=9)
        some = further.subset(np.flatnonzero(further.environments == 1))
        seen = fitted.diagnose(some)
        assert set(seen.table["environment"]) == {"1", "(pooled)"}
        assert set(seen.information["environment"]) == {"1", "(pooled)"}

    def test_a_loaded_balancer_diagnoses_too_but_knows_no_gain_without_examples(
        self, data, fitted, found, tmp_path
    ):
        fitted.save(tmp_path / "balancer.safetensors")
        loaded = CausalBalancer.load(tmp_path / "balancer.safetensors")
        seen = loaded.diagnose()
        assert seen.gain is None
        kinds = ["z", "square", "product", "score"]
        mine, theirs = (t[t["kind"].isin(kinds)]["smd_after"] for t in (seen.table, found.table))
        np.testing.assert_array_equal(mine, theirs)
        assert loaded.diagnose(data).gain == found.gain

    def test_a_file_without_z_asks_for_the_examples(self, data, fitted, tmp_path):
        from equipoise.files import load_state, save_state

        path = tmp_path / "balancer.safetensors"
        fitted.save(path)
        tensors, facts = load_state(path)
        del tensors["z"]
        save_state(path, tensors, facts)
        earlier = CausalBalancer.load(path)
        with pytest.raises(ValueError, match="saved without z: give the examples"):
            earlier.balance_table()
        assert len(earlier.balance_table(data)) == len(fitted.balance_table(data))

    def test_names_of_users_are_used_throughout(self, data):
        names = np.array(["ant", "bee", "cow"])[data.labels]
        frame = pd.DataFrame(data.source.x.numpy(), columns=list("abcdef"))
        balancer = CausalBalancer(hidden=(8,), max_steps=20).fit(frame, names, data.environments)
        table = balancer.balance_table(known={"colour": data.covariate})
        assert set(table["first"]) == {"ant", "bee"}
        assert {"a", "f", "colour = 1"} <= set(table["covariate"])


def test_resampling_leaves_out_what_batches_leave_out():
    data = make_spurious(n=600, n_labels=2)
    balancer = CausalBalancer(hidden=(8,), max_steps=30, caliper=1e-5, random_state=0)
    balancer.fit_resample(data)
    weights = balanced_frequencies(balancer.matches_)
    assert 0 < (weights > 0).sum() < 600
    assert set(balancer.sample_indices_) <= set(np.flatnonzero(weights > 0))
