"""CausalBalancer in scikit-learn's and imbalanced-learn's own tools, on their own terms."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from imblearn.pipeline import Pipeline
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import check_is_fitted

from equipoise import CausalBalancer

QUICK = {"random_state": 0}


def make_data(n=240, seed=0):
    """Two sites; colour goes with the label, more in one than in the other."""
    rng = np.random.default_rng(seed)
    y, site = rng.integers(2, size=n), rng.integers(2, size=n)
    colour = np.where(rng.random(n) < np.where(site == 0, 0.9, 0.7), y, 1 - y)
    X = np.stack([colour + 0.1 * rng.normal(size=n), y + rng.normal(size=n)], axis=1)
    return X, y, site


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


#: What scikit-learn checks and cannot hold here, and why.
EXPECTED_FAILURES = {
    "check_dtype_object": "a dict in X is a ValueError of ours, as every table that is no numbers",
}


@pytest.mark.slow
def test_scikit_learns_own_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(
            CausalBalancer(**QUICK), expected_failed_checks=EXPECTED_FAILURES, on_fail=None
        )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    held = {r["check_name"] for r in results if r["status"] == "passed"}
    assert not held & set(EXPECTED_FAILURES), "no longer to be expected"
    assert len(EXPECTED_FAILURES) <= 6


@pytest.mark.usefixtures("routing")
class TestWithRouting:
    def pipeline(self):
        return Pipeline(
            [
                ("scale", StandardScaler()),
                ("balance", CausalBalancer(**QUICK)),
                ("model", LogisticRegression()),
            ]
        )

    def test_a_pipeline_balances_what_it_fits_and_not_what_it_predicts(self):
        X, y, site = make_data()
        fitted = self.pipeline().fit(X, y, environments=site)
        assert len(fitted.named_steps["balance"].sample_indices_) > len(X)
        assert fitted.predict(X).shape == (len(X),)

    def test_cross_validate_hands_environments_on(self):
        X, y, site = make_data()
        found = cross_validate(
            self.pipeline(), X, y, params={"environments": site}, cv=2, error_score="raise"
        )
        assert found["test_score"].shape == (2,)

    def test_a_grid_is_searched_over_the_balancer(self):
        X, y, site = make_data()
        grid = {"balance__n_nearest": [1, 5]}
        search = GridSearchCV(self.pipeline(), grid, cv=2, error_score="raise")
        search.fit(X, y, environments=site)
        assert search.best_params_["balance__n_nearest"] in (1, 5)


def test_parameters_clone_and_show():
    balancer = CausalBalancer(n_nearest=7, random_state=3)
    assert clone(balancer).get_params() == balancer.get_params()
    assert "CausalBalancer" in balancer._repr_html_()


def test_a_fitted_balancer_knows_its_features():
    X, y, site = make_data()
    balancer = CausalBalancer(**QUICK)
    with pytest.raises(NotFittedError):
        check_is_fitted(balancer)
    balancer.fit(pd.DataFrame(X, columns=["colour", "shape"]), y, site)
    check_is_fitted(balancer)
    assert balancer.n_features_in_ == 2
    assert balancer.feature_names_in_.tolist() == ["colour", "shape"]


def test_pandas_in_pandas_out_with_the_index_kept():
    X, y, site = make_data()
    index = [f"patient {i}" for i in range(len(X))]
    frame = pd.DataFrame(X, columns=["colour", "shape"], index=index)
    balancer = CausalBalancer(**QUICK)
    X_new, y_new = balancer.fit_resample(frame, pd.Series(y, index=index, name="ill"), site)
    expected = np.array(index)[balancer.sample_indices_]
    assert isinstance(X_new, pd.DataFrame)
    assert isinstance(y_new, pd.Series)
    assert y_new.name == "ill"
    assert X_new.index.tolist() == y_new.index.tolist() == expected.tolist()


def test_polars_in_polars_out():
    X, y, site = make_data()
    frame = pl.DataFrame(X, schema=["colour", "shape"])
    balancer = CausalBalancer(**QUICK)
    X_new, y_new = balancer.fit_resample(frame, pl.Series("ill", y), pl.Series("site", site))
    assert isinstance(X_new, pl.DataFrame)
    assert isinstance(y_new, pl.Series)
    assert X_new.equals(frame[balancer.sample_indices_])
    assert balancer.feature_names_in_.tolist() == ["colour", "shape"]


def test_sparse_matrices_work():
    X, y, site = make_data()
    dense = CausalBalancer(**QUICK).fit(X, y, site)
    found = CausalBalancer(**QUICK).fit(sparse.csr_matrix(X), y, site)
    assert np.allclose(dense.log_scores_, found.log_scores_)


def test_random_state_none_draws_another_seed_each_time():
    X, y, site = make_data()
    first, second = (CausalBalancer(**{**QUICK, "random_state": None}) for _ in range(2))
    first.fit(X, y, site)
    second.fit(X, y, site)
    assert not np.array_equal(first.log_scores_, second.log_scores_)


def test_weights_are_sample_weights():
    X, y, site = make_data()
    balancer = CausalBalancer(**QUICK).fit(X, y, site)
    assert balancer.weights_.mean() == pytest.approx(1.0)
    LogisticRegression().fit(X, y, sample_weight=balancer.weights_)
