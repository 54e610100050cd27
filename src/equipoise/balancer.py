"""CausalBalancer: rooms 2 and 3 behind one estimator, in scikit-learn manners."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from equipoise.balance import (
    BalancedBatchSampler,
    Groups,
    MatchSource,
    WeightedBatchSampler,
    balanced_frequencies,
    entropy_weights,
    find_matches,
    overlap_weights,
)
from equipoise.balancer_checks import check_parameters, check_target, read_covariates
from equipoise.balancer_files import load_balancer, save_balancer
from equipoise.data import Examples, flatten_examples
from equipoise.diagnosis import BalanceDiagnostics, diagnose_balance, summarise_balance
from equipoise.latent import Features, LatentChoice, LatentCovariateModel
from equipoise.latent.fitting import FEATURE_NOISE
from equipoise.scoring import BalancingScore, Reading, join_covariates, learn_score

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Scores that are equal are told apart by a draw of this size, so that every example of a label
#: is as likely to be a match as another.
TIE_BREAK = 1e-3


@dataclass(frozen=True)
class Examined:
    """Examples to be diagnosed, with what the fit makes of them.

    `source` is None where the examples are not at hand, as of a loaded balancer; `matches` is
    None where the method weighs instead.
    """

    source: Any
    labels: Ints
    environments: Ints
    z: Floats
    log_scores: Floats
    matches: MatchSource | None
    weights: Floats
    features: Features | None = None
    covariates: pd.DataFrame | None = None
    feature_names: tuple[str, ...] | None = None


class CausalBalancer(BaseEstimator):  # type: ignore[misc]
    """Find what varies between environments, balance it, and hand out balanced batches.

    Parameters
    ----------
    balance_on : str
        "varying": the part of X whose link with the label changes between environments.
        "all": all of the latent covariate Z, as in the paper. "given": the covariates alone.
    method : str
        "match": every example with its nearest of the other labels. "overlap" and "entropy":
        overlap weights and entropy balancing.
    n_matches : int, optional
        Other labels joined to every anchor (a); default m − 1, up to 9.
    metric : str
        "kl", "l1", "l2" or "linf", the distance of scores.
    n_nearest : int
        Matches kept for every label; a batch draws one of them at random.
    tolerance : float or None
        Of these, those farther than this are dropped, unless they are the nearest.
    caliper : float, str or None
        The largest distance of a match; "0.2sd" means deviations of the logit.
    reuse_max : int or None
        The most anchors' lists an example may stand in.
    common_support : bool or float
        True drops examples outside the labels' common score range; a number, such as 0.1, drops
        those to which some label gives less probability.
    exact : sequence of str
        Given covariates in which an example and its matches must agree.
    target : label, optional
        Weight the other labels to this label's distribution (methods "overlap", "entropy").
    prior, latent_dim, reading, hidden, feature_noise, max_steps, batch_size, lr
        Of the VAE, which learns Z with `balance_on="all"`: the prior family or "auto"; the
        latent size or "auto" [default: the maximum of Theorem 3.3]; the reading of the score
        ("observed", "hypothesised" or "auto"); widths of perceptrons; noise of features;
        steps, examples of each environment, learning rate.
    n_jobs : int
        Threads for matching.
    device : str
        Where the VAE is fitted.
    random_state : int or None
        Seed of every draw; None takes a new one at each fit.
    verbose : bool
        Show progress.

    Attributes
    ----------
    n_varying_ : int
        Dimensions found whose link with the label varies.
    weights_ : array [N]
        A weight for each fitted example, mean 1: `sample_weight` for any estimator.
    log_scores_ : array [N, m]
        Balancing scores, each by a model that did not see the example.
    z_ : array [N, k]
        What is balanced: the varying coordinates, or all of Z.
    matches_ : Matches or None
        Indices are rows of X; None for weights.
    classes_, environments_ : array
        Labels and environments as given, sorted; codes are positions.
    score_ : BalancingScore
        The fitted score.
    covariates_ : DataFrame or None
        Given covariates of the fitted examples.
    names_ : DataNames
        Names of labels, environments and features; further data are matched by name.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> site, y = rng.integers(2, size=800), rng.integers(2, size=800)
    >>> colour = np.where(rng.random(800) < np.where(site, 0.95, 0.7), y, 1 - y)
    >>> X = np.stack([colour + 0.1 * rng.normal(size=800), y + rng.normal(size=800)], axis=1)
    >>> balancer = CausalBalancer(random_state=0).fit(X, y, site)
    >>> balancer.n_varying_
    1
    >>> balancer.batch_sampler(anchors_per_environment=16)
    BalancedBatchSampler(2 environments × 16 anchors × (1 + 1 matches), 27 batches an epoch)
    """

    # With metadata routing on, pipelines and searches hand these on without being told to.
    __metadata_request__fit: ClassVar = {"environments": True, "covariates": True}
    __metadata_request__fit_resample: ClassVar = {"environments": True, "covariates": True}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __init__(
        self,
        balance_on: str = "varying",
        method: str = "match",
        *,
        n_matches: int | None = None,
        metric: str = "kl",
        n_nearest: int = 40,
        tolerance: float | None = 0.01,
        caliper: float | str | None = None,
        reuse_max: int | None = None,
        common_support: bool | float = False,
        exact: Sequence[str] = (),
        target: Any = None,
        prior: str = "gaussian-fixed-variance",
        latent_dim: int | str | None = None,
        reading: str = "auto",
        hidden: int | tuple[int, ...] | None = None,
        feature_noise: float = FEATURE_NOISE,
        max_steps: int = 600,
        batch_size: int = 64,
        lr: float = 1e-3,
        n_jobs: int = 1,
        device: str = "cpu",
        random_state: int | None = 0,
        verbose: bool = False,
    ) -> None:
        self.balance_on = balance_on
        self.method = method
        self.n_matches = n_matches
        self.metric = metric
        self.n_nearest = n_nearest
        self.tolerance = tolerance
        self.caliper = caliper
        self.reuse_max = reuse_max
        self.common_support = common_support
        self.exact = exact
        self.target = target
        self.prior = prior
        self.latent_dim = latent_dim
        self.reading = reading
        self.hidden = hidden
        self.feature_noise = feature_noise
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.lr = lr
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    matches_: Any
    weights_: Floats
    log_scores_: Floats
    z_: Floats
    score_: BalancingScore
    n_varying_: int
    covariates_: pd.DataFrame | None

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        covariates: Any = None,
        label: str | None = None,
        environment: str | None = None,
        features: Sequence[str] | str | None = None,
        checkpoint: str | Path | None = None,
    ) -> CausalBalancer:
        """Find what varies in X, score it, and match or weigh. Give training examples only.

        Parameters
        ----------
        X : array, tensor, data frame, sparse matrix or map-style dataset
            A dataset of `equipoise.data` brings labels and environments along.
        y, environments : array, optional
            One value for each example. Without environments nothing can vary.
        covariates : data frame, array or names of columns of X, optional
            What you know may be spurious: balanced as it is, beside what is found.
        label, environment, features : str, optional
            Names of columns, where X is a data frame or a Hugging Face dataset.
        checkpoint : path, optional
            An interrupted fit of a VAE goes on from there.
        """
        seed, options = check_parameters(self)
        examples, table = self._collect(
            X, y, environments, covariates, label=label, environment=environment, features=features
        )
        n_matches = check_target(self, examples.names.classes, table)
        exact = _code_exact(table, self.exact)

        def weigh(scores: Floats) -> Floats | None:
            matches = self._match(scores, examples, exact, seed)
            return balanced_frequencies(matches) if matches.matched.any() else None

        score, scores, z = learn_score(
            examples,
            table,
            balance_on=self.balance_on,
            options=options,
            weigh=weigh,
            seed=seed,
            checkpoint=checkpoint,
            verbose=self.verbose,
        )
        matches, weights = self._balance(scores, z, table, examples, exact, seed)
        # All at once: a fit that fails leaves an earlier one as it was.
        self.classes_, self.environments_ = examples.names.classes, examples.names.sites
        self.names_, self.n_matches_, self.score_ = examples.names, n_matches, score
        self.log_scores_, self.z_, self.matches_, self.weights_ = scores, z, matches, weights
        self.n_varying_ = 0 if score.part is None else len(score.part)
        self.n_features_in_ = int(np.prod(examples.input_shape))
        if examples.names.features is not None:
            self.feature_names_in_ = np.array(examples.names.features, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self._seed, self._examples, self.covariates_ = seed, examples, table
        self._labels, self._environments = examples.labels, examples.environments
        return self

    def check_fit(
        self, X: Any, y: ArrayLike | None = None, environments: ArrayLike | None = None, **how: Any
    ) -> None:
        """Refuse what `fit` would refuse, before anything is created; nothing is fitted."""
        check_parameters(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` will say it
            examples, table = self._collect(X, y, environments, how.pop("covariates", None), **how)
        check_target(self, examples.names.classes, table)

    def _collect(
        self, X: Any, y: Any, environments: Any, covariates: Any, **columns: Any
    ) -> tuple[Examples, pd.DataFrame | None]:
        return read_covariates(self, X, y, environments, covariates, **columns)

    def _balance(
        self,
        scores: Floats,
        z: Floats,
        table: pd.DataFrame | None,
        examples: Examples,
        exact: Ints | None,
        seed: int,
    ) -> tuple[MatchSource | None, Floats]:
        """Matches if that is the method, and a weight for each example, mean 1."""
        if self.method == "match":
            matches = self._match(scores, examples, exact, seed)
            if not matches.matched.any():
                raise ValueError(self._tell_unmatched())
            weights = balanced_frequencies(matches)
            return matches, weights / weights.mean()
        codes = examples.labels, examples.environments
        target = (
            None
            if self.target is None
            else int(np.flatnonzero(examples.names.classes == self.target)[0])
        )
        if self.method == "entropy" and (table is not None or z.shape[1]):
            given = () if table is None else tuple(table.columns)
            joint = join_covariates(table, z, given)
            return None, entropy_weights(joint, *codes, target=target).values
        return None, overlap_weights(scores, *codes, target=target).values

    def _match(
        self, scores: Floats, examples: Examples, exact: Ints | None, seed: int
    ) -> MatchSource:
        noise = np.random.default_rng([seed, 0x71E5]).normal(size=scores.shape)
        apart = scores + TIE_BREAK * noise
        apart = apart - np.logaddexp.reduce(apart, axis=1)[:, None]
        return find_matches(
            apart,
            examples.labels,
            examples.environments,
            metric=self.metric,
            n_nearest=self.n_nearest,
            caliper=self.caliper,
            reuse_max=self.reuse_max,
            common_support=self.common_support,
            exact=exact,
            tolerance=self.tolerance,
            n_jobs=self.n_jobs,
        )

    # --- using ---------------------------------------------------------------------------------

    def batch_sampler(
        self,
        anchors_per_environment: int = 32,
        *,
        n_matches: int | None = None,
        seed: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> BalancedBatchSampler | WeightedBatchSampler:
        """Algorithm 1 over the rows of X, for `DataLoader(dataset, batch_sampler=…)`."""
        self._check_fitted()
        how: dict[str, Any] = {
            "seed": self._seed if seed is None else seed,
            "num_replicas": num_replicas,
            "rank": rank,
        }
        if self.matches_ is None:
            return WeightedBatchSampler(
                self.weights_,
                self._labels,
                self._environments,
                examples_per_environment=anchors_per_environment * (1 + self.n_matches_),
                **how,
            )
        return BalancedBatchSampler(
            self._labels,
            self._environments,
            self.matches_,
            anchors_per_environment=anchors_per_environment,
            n_matches=self.n_matches_ if n_matches is None else n_matches,
            **how,
        )

    def fit_resample(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        covariates: Any = None,
        **columns: Any,
    ) -> tuple[Any, Any]:
        """Fit, then return X and y with every example once as anchor, followed by its matches.

        Examples without any match are left out, as in batches; with weights, rows are drawn by
        them. `sample_indices_` names the rows, so `environments[sample_indices_]` goes along.
        """
        self.fit(X, y, environments, covariates=covariates, **columns)
        generator = np.random.default_rng(self._seed)
        if self.matches_ is None:
            n = len(self.weights_)
            rows = generator.choice(n, n, p=self.weights_ / self.weights_.sum())
        else:
            sampler = self.batch_sampler(anchors_per_environment=1)
            anchors = np.flatnonzero(self.matches_.matched)
            groups = sampler.draw_groups(anchors, generator).ravel()  # type: ignore[union-attr]
            rows = groups[groups >= 0]
        self.sample_indices_ = rows
        labels: Any = self.classes_[self._labels[rows]]
        if hasattr(y, "iloc"):
            labels = y.iloc[rows]  # type: ignore[union-attr]
        elif type(y).__module__.startswith("polars"):
            labels = y[rows]  # type: ignore[index]
        return _take_rows(X, rows, self._examples), labels

    def score_examples(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        covariates: Any = None,
    ) -> Floats:
        """Log-scores [N, m] of further examples of the same environments, e.g. a held-out part."""
        self._check_fitted()
        examples, table = self._collect_further(X, y, environments, covariates)
        return self.score_.score(examples, table)

    def balanced_weights(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        covariates: Any = None,
    ) -> Floats:
        """Weights [N], mean 1, under which a held-out part is balanced; none of it enters the fit.

        The examples are scored by the fitted model and matched (or weighted) among themselves:
        a weighted accuracy then estimates accuracy where nothing is spurious.
        """
        self._check_fitted()
        examples, table = self._collect_further(X, y, environments, covariates)
        if not len(examples):
            return np.zeros(0)
        scores = self.score_.score(examples, table)
        exact = _code_exact(table, self.exact)
        if self.method == "match":
            weights = balanced_frequencies(self._match(scores, examples, exact, self._seed))
            if not weights.any():
                warnings.warn(f"all weights are 0: {self._tell_unmatched()}", stacklevel=2)
                return weights
            return np.asarray(weights / weights.mean())
        z = self.score_.coordinates(examples)
        return self._balance(scores, z, table, examples, exact, self._seed)[1]

    def _collect_further(
        self, X: Any, y: Any, environments: Any, covariates: Any = None
    ) -> tuple[Examples, pd.DataFrame | None]:
        """Further examples in the terms of the fit: by names where there are any."""
        examples, table = read_covariates(
            self, X, y, environments, covariates, names=self.names_, given=self.score_.given
        )
        size = int(np.prod(examples.input_shape))
        if len(examples) and size != self.n_features_in_:
            raise ValueError(
                f"X has {size} features, but CausalBalancer is expecting {self.n_features_in_} "
                "features as input"
            )
        return examples, table

    def _tell_unmatched(self) -> str:
        return (
            f"caliper={self.caliper!r} and common_support={self.common_support!r} leave no "
            "example with a match: allow more, or give environments with several labels"
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "score_"):
            raise NotFittedError("this CausalBalancer has not been fitted: call fit first")

    @property
    def latent_model_(self) -> LatentCovariateModel | None:
        """The VAE of Z; None where columns were examined themselves."""
        return self.score_.latent_model

    @property
    def latent_choice_(self) -> LatentChoice | None:
        """Why the latent size and the prior are what they are, if "auto" chose them."""
        return self.score_.choice

    @property
    def readings_(self) -> tuple[Reading, ...]:
        """The readings of the score that were compared."""
        return self.score_.readings

    # --- looking -------------------------------------------------------------------------------

    def diagnose(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        covariates: Any = None,
        known: Mapping[str, Any] | pd.DataFrame | None = None,
        with_price: bool = True,
    ) -> BalanceDiagnostics:
        """All tables on balance before and after, the test of what varies, and a verdict.

        Of the fitted examples, or of further ones. `known` holds covariates that you know, by
        name, a value for each example; a dataset's own `covariate` is taken if there is one.
        `with_price` trains small classifiers to measure what balancing costs and saves.
        """
        examined = self.examine(X, y, environments, covariates=covariates)
        if known is None and getattr(examined.source, "covariate", None) is not None:
            known = {examined.source.covariate_name: examined.source.covariate}
        groups = Groups(
            examined.labels,
            examined.environments,
            self.names_.labels or tuple(map(str, self.classes_)),
            self.names_.environments or tuple(map(str, self.environments_)),
        )
        x, columns = _read_table(examined)
        return diagnose_balance(
            examined.z,
            examined.log_scores,
            examined.matches,
            groups,
            weights=examined.weights,
            n_matches=self.n_matches_,
            varying=self.score_.part,
            coordinates=examined.z if self.score_.part is not None else None,
            features=examined.features,
            columns=columns,
            given=None if examined.covariates is None else dict(examined.covariates.items()),
            known=known,
            x=x if with_price else None,
            seed=self._seed,
        )

    def balance_table(self, *data: Any, **how: Any) -> pd.DataFrame:
        """Standardised mean differences, variance ratios and KS, before and after, of all pairs.

        A row for each environment (and pooled), covariate and pair of labels; see `diagnose`.
        """
        return self.diagnose(*data, **how, with_price=False).table

    def summary(self, *data: Any, **how: Any) -> str:
        """Print a page on balance that ends in a verdict, and return it; see `diagnose`."""
        page = summarise_balance(self.diagnose(*data, **how))
        print(page)
        return page

    def examine(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        covariates: Any = None,
    ) -> Examined:
        """The fitted examples with their coordinates, scores and matches, or further ones.

        What it gives may stand for X in `diagnose` and `write_report`: nothing is computed twice.
        """
        self._check_fitted()
        if isinstance(X, Examined):
            return X
        examples, table = getattr(self, "_examples", None), self.covariates_
        if X is not None:
            examples, table = self._collect_further(X, y, environments, covariates)
        if examples is None:
            codes = self._labels, self._environments
            return Examined(
                None,
                *codes,
                self.z_,
                self.log_scores_,
                self.matches_,
                self.weights_,
                covariates=table,
                feature_names=self.names_.features,
            )
        features = self.score_.encode(examples)
        z = self.score_.coordinates(examples, features)
        scores, matches, weights = self.log_scores_, self.matches_, self.weights_
        if X is not None and not self._are_fitted(examples, z):
            scores = self.score_.score(examples, table)
            exact = _code_exact(table, self.exact)
            matches, weights = self._balance(scores, z, table, examples, exact, self._seed)
        return Examined(
            examples.source,
            examples.labels,
            examples.environments,
            z,
            scores,
            matches,
            weights,
            features,
            table,
            examples.feature_names,
        )

    def _are_fitted(self, examples: Examples, z: Floats) -> bool:
        """Whether these are the fitted examples once more, but for the last digits of z."""
        return (
            np.array_equal(examples.labels, self._labels)
            and np.array_equal(examples.environments, self._environments)
            and np.allclose(z, self.z_, rtol=1e-4, atol=1e-4)
        )

    # --- keeping -------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted balancer (score, matches, weights, names) as one safetensors file."""
        self._check_fitted()
        save_balancer(self, path)

    @classmethod
    def load(cls, path: str | Path) -> CausalBalancer:
        """Read what `save` wrote."""
        return load_balancer(cls(), path)


def _code_exact(table: pd.DataFrame | None, exact: Sequence[str]) -> Ints | None:
    """One code for each combination of the covariates that must agree."""
    if not len(exact) or table is None:
        return None
    codes = table[list(exact)].astype(str).agg("\x1f".join, axis=1)
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def _take_rows(X: Any, rows: Ints, examples: Examples) -> Any:
    if isinstance(X, torch.Tensor):
        return X[torch.from_numpy(rows)]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if type(X).__module__.startswith("polars") or hasattr(X, "tocsr"):
        return X[rows]
    if isinstance(X, np.ndarray | list | tuple):
        return np.asarray(X)[rows]
    return examples.source.fetch(rows)


def _read_table(examined: Examined, at_most: int = 100) -> tuple[Floats | None, dict[str, Floats]]:
    """Flat examples for small classifiers, and the columns of a table by name."""
    if examined.source is None or not len(examined.labels):
        return None, {}
    rows = np.arange(len(examined.labels))
    x = flatten_examples(examined.source, rows).double().numpy()
    first = examined.source.fetch(np.zeros(1, dtype=np.int64))
    if first.ndim != 2 or first.shape[1] > at_most:
        return x, {}
    names = examined.feature_names or tuple(f"feature {i + 1}" for i in range(x.shape[1]))
    return x, {name: x[:, i] for i, name in enumerate(names)}
