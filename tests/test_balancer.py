"""CausalBalancer keeps scikit-learn's manners and the method's promises."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from equipoise import CausalBalancer
from equipoise.balance import balanced_frequencies
from equipoise.balancer_checks import check_parameters
from equipoise.data import split_environments
from equipoise.diagnosis import cross_table, mutual_information, same_covariate_rate
from equipoise.files import load_state, save_state
from equipoise.latent import FitSettings
from tests.conftest import make_spurious

VAE = {"balance_on": "all", "hidden": (64,), "max_steps": 300, "random_state": 0}
both = pytest.mark.parametrize("balance_on", ["varying", "all"])


@pytest.fixture(scope="module")
def data():
    return make_spurious(n=2000, n_labels=3)


@pytest.fixture(scope="module")
def fitted(data):
    return CausalBalancer(random_state=0).fit(data)


@pytest.fixture(scope="module")
def fitted_vae(data):
    return CausalBalancer(**VAE).fit(data)


@pytest.fixture(params=["fitted", "fitted_vae"])
def either(request):
    return request.getfixturevalue(request.param)


def test_matches_have_the_covariate_that_no_estimator_saw(data, either):
    assert same_covariate_rate(either.matches_, data.covariate) > 0.97


def test_balanced_batches_are_free_of_the_spurious_dependence(data, either):
    before = mutual_information(cross_table(data.covariate, data.labels))
    batches = np.concatenate(list(either.batch_sampler(16)))
    after = mutual_information(cross_table(data.covariate[batches], data.labels[batches]))
    assert after < 0.02 * before


@both
def test_the_covariate_is_never_read(data, balance_on):
    class Guarded(type(data)):
        @property
        def covariate(self):
            raise AssertionError("an estimator looked at the true covariate")

        @covariate.setter
        def covariate(self, value):
            pass

    guarded = Guarded(data.source.x, data.labels, data.environments)
    CausalBalancer(balance_on, hidden=(8,), max_steps=20).fit(guarded)


def test_fitted_attributes_have_the_shapes_they_promise(data, fitted):
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.environments_.tolist() == [0, 1]
    assert fitted.log_scores_.shape == (2000, 3)
    assert fitted.matches_.indices.shape == (2000, 3, 40)
    assert fitted.n_matches_ == 2
    assert fitted.z_.shape == (2000, fitted.n_varying_)
    assert fitted.weights_.shape == (2000,)
    assert fitted.weights_.mean() == pytest.approx(1.0)
    assert fitted.n_features_in_ == 6


def test_what_varies_is_found_among_the_columns_without_a_vae(fitted):
    columns = fitted.score_.encoding.column[fitted.score_.part.linear.any(axis=1)]
    assert fitted.n_varying_ == len(columns)
    assert set(columns) == {0, 1, 2}  # the other three are the label's
    assert fitted.latent_model_ is None
    assert fitted.readings_ == ()


def test_of_the_papers_readings_the_one_that_balances_better_is_taken(fitted_vae):
    readings = fitted_vae.readings_
    assert {reading.reading for reading in readings} == {"observed", "hypothesised"}
    best = min(readings, key=lambda reading: reading.after)
    assert fitted_vae.score_.reading == best.reading
    assert best.after < 0.5 * best.before


@both
def test_every_kind_of_input_gives_the_same_matches(data, balance_on):
    x = data.source.x.numpy()
    names = np.array(["ant", "bee", "cow"])[data.labels]
    sites = np.array(["rome", "oslo"])[data.environments]
    settings = {"balance_on": balance_on, "hidden": (8,), "max_steps": 20}
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
    balancer = CausalBalancer().fit(X, y, site)
    loader = DataLoader(TensorDataset(X, y), batch_sampler=balancer.batch_sampler(8))
    xb, yb = next(iter(loader))
    assert xb.shape == (2 * 8 * 3, 6)
    assert torch.bincount(yb).tolist() == [16, 16, 16]


def test_the_default_leaves_out_what_some_label_hardly_has_and_the_paper_leaves_out_nothing(data):
    """For two labels; with three, errors of small probabilities would decide."""
    y, site = np.tile([0, 1], 1000), np.repeat([0, 1], 1000)
    X = np.random.default_rng(0).normal(size=(2000, 2))
    X[:, 0] += 2 * y * (1 + site)
    default = CausalBalancer().fit(X, y, site)
    asked = CausalBalancer(common_support="auto").fit(X, y, site)
    np.testing.assert_array_equal(default.weights_, asked.weights_)
    everything = CausalBalancer(common_support=False).fit(X, y, site)
    assert (default.weights_ == 0).sum() > (everything.weights_ == 0).sum() == 0
    paper = CausalBalancer(balance_on="all", max_steps=20).fit(X, y, site)
    assert (paper.weights_ > 0).all()
    assert (CausalBalancer().fit(data).weights_ > 0).all()


def test_fit_resample_takes_every_example_as_anchor_and_adds_its_matches(data):
    x = pd.DataFrame(data.source.x.numpy())
    balancer = CausalBalancer(n_matches=1, common_support=False)
    x_new, y_new = balancer.fit_resample(x, data.labels, data.environments)
    taken = balancer.sample_indices_
    assert len(x_new) == len(y_new) == len(taken) == 4000
    assert (np.bincount(taken, minlength=2000) >= 1).all()
    assert np.array_equal(x_new.to_numpy(), x.to_numpy()[taken])
    assert np.array_equal(y_new, data.labels[taken])
    pairs = taken.reshape(-1, 2)
    assert (data.labels[pairs[:, 0]] != data.labels[pairs[:, 1]]).all()
    assert (data.environments[pairs[:, 0]] == data.environments[pairs[:, 1]]).all()


def test_same_random_state_same_bits(data, either):
    again = CausalBalancer(**either.get_params()).fit(data)
    assert np.array_equal(either.log_scores_, again.log_scores_)
    assert list(either.batch_sampler(16)) == list(again.batch_sampler(16))


def test_a_saved_balancer_comes_back_the_same(data, either, tmp_path):
    path = tmp_path / "balancer.safetensors"
    either.save(path)
    again = CausalBalancer.load(path)
    assert again.get_params() == either.get_params()
    assert again.readings_ == either.readings_
    assert again.n_varying_ == either.n_varying_
    assert list(either.batch_sampler(16)) == list(again.batch_sampler(16))
    assert np.array_equal(either.balanced_weights(data), again.balanced_weights(data))


def test_balanced_weights_estimate_accuracy_without_the_spurious_cue(either):
    """A classifier that copies the covariate is right by chance where nothing is spurious."""
    further = make_spurious(n=3000, n_labels=3, seed=9)
    right = further.covariate == further.labels
    weights = either.balanced_weights(further)
    assert weights.mean() == pytest.approx(1.0)
    assert right.mean() > 0.8
    assert np.average(right, weights=weights) == pytest.approx(1 / 3, abs=0.03)


@both
def test_no_held_out_example_enters_a_fit_a_match_or_a_batch(data, balance_on):
    seen = set()

    class Watched(type(data)):
        def fetch(self, indices):
            seen.update(np.asarray(indices).tolist())
            return super().fetch(indices)

    watched = Watched(data.source.x, data.labels, data.environments)
    split = split_environments(watched.environments)
    train = watched.subset(split.train)
    balancer = CausalBalancer(balance_on, hidden=(8,), max_steps=30).fit(train)
    for batch in balancer.batch_sampler(32):
        train[batch]
    matched = train.indices[balancer.matches_.indices[balancer.matches_.indices >= 0]]
    held_out = set(split.held_out.tolist())
    assert seen == set(split.train.tolist())
    assert not held_out & set(matched.tolist())


def test_parameters_can_be_read_set_and_shown():
    balancer = CausalBalancer(n_matches=2, metric="l2")
    assert repr(balancer) == "CausalBalancer(metric='l2', n_matches=2)"
    balancer.set_params(metric="kl")
    assert balancer.get_params()["metric"] == "kl"
    with pytest.raises(ValueError, match=r"Invalid parameter 'metrik'.*'metric'"):
        balancer.set_params(metrik="kl")


def test_the_vae_is_fitted_with_the_defaults_of_its_settings():
    assert check_parameters(CausalBalancer()) == FitSettings()


def test_one_width_may_stand_alone(data, tmp_path):
    alone, tupled = (CausalBalancer("all", hidden=h, max_steps=5).fit(data) for h in (8, (8,)))
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
        balancer = CausalBalancer().fit(part)
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
    balancer = CausalBalancer().fit(data)
    before = balancer.classes_, balancer.matches_
    with pytest.raises(ValueError, match="two labels or more"):
        balancer.fit(data.source.x, np.zeros(2000), data.environments)
    assert (balancer.classes_, balancer.matches_) == before


def test_environments_of_one_label_each_are_refused():
    e = np.arange(80) % 4
    with pytest.raises(ValueError, match="every environment has one label only"):
        CausalBalancer().fit(np.random.default_rng(0).normal(size=(80, 3)), e // 2, e)


@both
def test_large_numbers_of_a_table_keep_their_differences(data, balance_on):
    """Unix seconds differ by less than a float32 can tell."""
    x = data.source.x.numpy().astype(np.float64)
    plain, moved = (
        CausalBalancer(balance_on, hidden=(8,), max_steps=20).fit(
            values, data.labels, data.environments
        )
        for values in (x, x + 1.7e9)
    )
    np.testing.assert_allclose(plain.log_scores_, moved.log_scores_, rtol=1e-3, atol=1e-3)


@both
def test_images_with_colours_last_are_refused_and_unscaled_ones_warned_of(balance_on):
    y, e = np.arange(40) % 2, np.arange(40) // 20
    with pytest.raises(ValueError, match=r"transpose\(0, 3, 1, 2\)"):
        CausalBalancer(balance_on).fit(np.zeros((40, 8, 8, 3), dtype=np.uint8), y, e)
    pixels = np.random.default_rng(0).uniform(0, 199, size=(40, 3, 8, 8)).astype(np.float32)
    pixels[:, 0, 0, 0] = 200.0
    with pytest.warns(UserWarning, match="values up to 200"):
        CausalBalancer(balance_on, hidden=(4,), max_steps=2).fit(pixels, y, e)


def test_images_that_are_all_the_same_are_refused():
    y, e = np.arange(40) % 2, np.arange(40) // 20
    with pytest.raises(ValueError, match="all images are the same"):
        CausalBalancer().fit(np.full((40, 3, 8, 8), 0.3, dtype=np.float32), y, e)


def test_training_restores_what_counts_as_zero_and_so_leaves_matching_exact(data):
    CausalBalancer("all", hidden=(8,), max_steps=5).fit(data)
    assert float(torch.tensor(1e-310, dtype=torch.float64) * 1.0) > 0


@pytest.mark.parametrize("name", ["match_counts", "z"])
def test_a_file_of_another_layout_is_refused_in_a_sentence(fitted, tmp_path, name):
    path = tmp_path / "balancer.safetensors"
    fitted.save(path)
    tensors, facts = load_state(path)
    del tensors[name]
    save_state(path, tensors, facts)
    with pytest.raises(ValueError, match=rf"missing: '{name}'\): fit and save it again"):
        CausalBalancer.load(path)


def test_numpy_parameters_can_be_saved_and_later_changes_do_not_matter(data, tmp_path):
    path = tmp_path / "balancer.safetensors"
    balancer = CausalBalancer(n_matches=np.int64(1), random_state=np.int64(3))
    balancer.fit(data).set_params(n_nearest=5).save(path)
    assert CausalBalancer.load(path).matches_.indices.shape == (2000, 3, 40)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_state": -1}, "random_state"),
        ({"device": "cuda:99"}, "device must be"),
        ({"tolerance": np.zeros(3)}, "tolerance must be a number"),
        ({"tolerance": pd.NA}, "tolerance must be a number"),
    ],
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
    named = CausalBalancer().fit(data.source.x, frame["label"], frame["day"])
    assert named.classes_.tolist() == ["a", "b", "c"]
    coded = CausalBalancer().fit(data.source.x, frame["code"], frame["day"])
    assert coded.classes_.tolist() == [0, 1, 2]
    frame.loc[3, "label"] = pd.NA
    with pytest.raises(ValueError, match="missing values"):
        CausalBalancer().fit(data.source.x, frame["label"], frame["day"])


@pytest.fixture(scope="module")
def found(fitted):
    return fitted.diagnose()


class TestLooking:
    """Balance before and after, by the methods a user calls."""

    def test_the_dependence_on_the_covariate_is_found_and_removed(self, found):
        colour = found.worst[found.worst["kind"] == "known"]  # the dataset brings its covariate
        assert colour["smd_before"].max() > 2
        assert colour["smd_after"].mean() < 0.1
        verdict = found.verdict
        assert (verdict.state, verdict.recommendation) == ("removed", "trade-off")
        assert verdict.protection - 2 * verdict.protection_error > 20  # points
        assert verdict.price > 5
        assert (found.varying["joint_p_value"].iloc[0] <= 0.01).all()

    def test_balance_table_is_a_frame_of_all_pairs(self, fitted):
        table = fitted.balance_table()
        z = table[(table["kind"] == "z") & (table["environment"] == "0")]
        assert len(z) == 3 * fitted.n_varying_  # pairs of labels × what is balanced
        assert z["smd_before"].mean() > 3 * z["smd_after"].mean()

    def test_summary_prints_a_page_that_ends_in_the_verdict(self, fitted, found, capsys):
        page = fitted.summary()
        assert capsys.readouterr().out.strip() == page.strip()
        words = " ".join(page.split())
        assert found.verdict.headline in words
        assert words.endswith(found.verdict.advice[-1])

    def test_the_fitted_examples_once_more_give_the_same_tables(self, data, fitted, found):
        again = fitted.diagnose(data)
        pd.testing.assert_frame_equal(again.table, found.table)
        assert again.verdict == found.verdict

    def test_further_examples_are_matched_among_themselves(self, fitted):
        further = make_spurious(n=900, n_labels=3, seed=9)
        seen = fitted.diagnose(further)
        assert seen.n_examples == 900
        np.testing.assert_allclose(seen.weights, fitted.balanced_weights(further))
        assert seen.verdict.state == "removed"

    def test_further_examples_without_a_match_are_refused_in_words_and_weigh_nothing(self):
        balancer = CausalBalancer().fit(make_spurious(n=2000, n_labels=2))
        further = make_spurious(n=100, n_labels=2, seed=9)
        balancer.set_params(common_support=0.49)
        with pytest.raises(ValueError, match=r"common_support=0\.49 leave no example with a match"):
            balancer.diagnose(further)
        with pytest.warns(UserWarning, match=r"all weights are 0.*common_support"):
            assert not balancer.balanced_weights(further).any()

    def test_further_examples_of_one_environment_are_enough(self, fitted):
        further = make_spurious(n=900, n_labels=3, seed=9)
        some = further.subset(np.flatnonzero(further.environments == 1))
        seen = fitted.diagnose(some)
        assert set(seen.table["environment"]) == {"1", "(pooled)"}
        assert set(seen.information["environment"]) == {"1", "(pooled)"}

    def test_a_loaded_balancer_diagnoses_too_but_knows_no_price_without_examples(
        self, data, fitted, found, tmp_path
    ):
        fitted.save(tmp_path / "balancer.safetensors")
        loaded = CausalBalancer.load(tmp_path / "balancer.safetensors")
        seen = loaded.diagnose()
        assert seen.bargain is None
        assert np.isnan(seen.verdict.price)
        kinds = ["z", "square", "product", "score"]
        mine, theirs = (t[t["kind"].isin(kinds)]["smd_after"] for t in (seen.table, found.table))
        np.testing.assert_array_equal(mine, theirs)
        assert loaded.diagnose(data).verdict == found.verdict

    def test_names_of_users_are_used_throughout(self, data):
        names = np.array(["ant", "bee", "cow"])[data.labels]
        frame = pd.DataFrame(data.source.x.numpy(), columns=list("abcdef"))
        balancer = CausalBalancer().fit(frame, names, data.environments)
        table = balancer.balance_table(known={"colour": data.covariate})
        assert set(table["first"]) == {"ant", "bee"}
        assert {"a", "f", "colour = 1"} <= set(table["covariate"])


def test_resampling_leaves_out_what_batches_leave_out():
    data = make_spurious(n=2000, n_labels=2)
    balancer = CausalBalancer(caliper=1e-8, random_state=0)
    balancer.fit_resample(data)
    weights = balanced_frequencies(balancer.matches_)
    assert 0 < (weights > 0).sum() < 2000
    assert set(balancer.sample_indices_) <= set(np.flatnonzero(weights > 0))
