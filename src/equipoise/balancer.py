"""CausalBalancer: rooms 2 and 3 behind one estimator, in scikit-learn manners.

Methods import what they need of the rooms: to import the class must not cost importing torch.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import pandas as pd

    from equipoise.balance import BalancedBatchSampler, WeightedBatchSampler
    from equipoise.diagnosis import BalanceDiagnostics
    from equipoise.examining import Examined
    from equipoise.latent import LatentChoice, LatentCovariateModel
    from equipoise.scoring import Reading

Column = ArrayLike | None
Floats = NDArray[np.float64]


class CausalBalancer(BaseEstimator):  # type: ignore[misc]
    """Find what varies between environments, balance it, and hand out balanced batches.

    Parameters
    ----------
    balance_on : str
        "varying": the part of X whose link with the label changes between environments.
        "all": all of the latent covariate Z, as in the paper. "given": the covariates alone.
    method : str
        "match" each example with its nearest of the other labels, or weigh: "overlap", "entropy".
    n_matches : int, optional
        Other labels joined to every anchor (a); default m − 1, up to 9.
    metric : str
        "kl", "l1", "l2" or "linf", the distance of scores.
    n_nearest : int
        Matches kept for every label; a batch draws one of them at random.
    tolerance : float, "auto" or None
        Matches farther than this are dropped, unless they are the nearest. "auto" is 5 % of the
        information that is balanced, at least 0.01.
    caliper : float, str or None
        The largest distance of a match; "0.2sd" means deviations of the logit.
    reuse_max : int or None
        The most anchors' lists an example may stand in.
    common_support : bool, float or "auto", optional
        True drops examples outside the labels' common score range; a number, such as 0.1, drops
        those to which some label gives less probability; "auto" computes the best such limit.
        Default: "auto" for two labels with `balance_on="varying"`, else False.
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
    log_scores_, z_ : array [N, m], array [N, k]
        Balancing scores, each by a model that did not see the example; what is balanced.
    matches_ : Matches or None
        Indices are rows of X; None for weights.
    classes_, environments_ : array
        Labels and environments as given, sorted; codes are positions.
    score_, names_, covariates_ : BalancingScore, DataNames, DataFrame or None
        The fitted score, names by which further data are matched, given covariates.

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
    BalancedBatchSampler(2 environments × 16 anchors × (1 + 1 matches), 24 batches an epoch)
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
        tolerance: float | str | None = "auto",
        caliper: float | str | None = None,
        reuse_max: int | None = None,
        common_support: bool | float | str | None = None,
        exact: Sequence[str] = (),
        target: Any = None,
        prior: str = "gaussian-fixed-variance",
        latent_dim: int | str | None = None,
        reading: str = "auto",
        hidden: int | tuple[int, ...] | None = None,
        feature_noise: float = 0.3,
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

    def fit(
        self,
        X: Any,
        y: Column = None,
        environments: Column = None,
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
        from equipoise.balance import balanced_frequencies
        from equipoise.balancer_checks import check_parameters, check_target, read_covariates
        from equipoise.balancing import balance_examples, match_examples
        from equipoise.scoring import learn_score

        settings = check_parameters(self)
        seed = settings.seed
        columns: dict[str, Any] = {"label": label, "environment": environment, "features": features}
        examples, table = read_covariates(self, X, y, environments, covariates, **columns)
        n_matches = check_target(self, examples.names.classes, table)

        def weigh(scores: Floats) -> Floats | None:
            codes = examples.labels, examples.environments
            matches = match_examples(self, scores, *codes, table, seed)
            return balanced_frequencies(matches) if matches.matched.any() else None

        score, scores, z = learn_score(
            self, examples, table, settings, weigh=weigh, checkpoint=checkpoint
        )
        matches, weights = balance_examples(self, scores, z, examples, table, seed)
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

    def check_fit(self, X: Any, y: Column = None, environments: Column = None, **how: Any) -> None:
        """Refuse what `fit` would refuse, before anything is created; nothing is fitted."""
        from equipoise.balancer_checks import check_parameters, check_target, read_covariates

        check_parameters(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` will say it
            covariates = how.pop("covariates", None)
            examples, table = read_covariates(self, X, y, environments, covariates, **how)
        check_target(self, examples.names.classes, table)

    def batch_sampler(
        self,
        anchors_per_environment: int = 32,
        *,
        n_matches: int | None = None,
        seed: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> BalancedBatchSampler | WeightedBatchSampler:
        """Algorithm 1 over the rows of X, for `DataLoader(dataset, batch_sampler=…)`.

        A batch has environments × `anchors_per_environment` × (1 + `n_matches`) rows: of two
        environments and ten labels, 32 anchors make a batch of 2 × 32 × (1 + 9) = 640.
        """
        from equipoise.balance import BalancedBatchSampler, WeightedBatchSampler

        self._check_fitted()
        seed = self._seed if seed is None else seed
        how: dict[str, Any] = {"seed": seed, "num_replicas": num_replicas, "rank": rank}
        codes = self._labels, self._environments
        if self.matches_ is None:
            size = anchors_per_environment * (1 + self.n_matches_)
            return WeightedBatchSampler(self.weights_, *codes, examples_per_environment=size, **how)
        return BalancedBatchSampler(
            *codes,
            self.matches_,
            anchors_per_environment=anchors_per_environment,
            n_matches=self.n_matches_ if n_matches is None else n_matches,
            **how,
        )

    def fit_resample(
        self,
        X: Any,
        y: Column = None,
        environments: Column = None,
        *,
        covariates: Any = None,
        **columns: Any,
    ) -> tuple[Any, Any]:
        """Fit, then return X and y with every example once as anchor, followed by its matches.

        Examples without any match are left out, as in batches; with weights, rows are drawn by
        them. `sample_indices_` names the rows, so `environments[sample_indices_]` goes along.
        """
        from equipoise.balancing import resample

        self.fit(X, y, environments, covariates=covariates, **columns)
        self.sample_indices_, resampled, labels = resample(self, X, y)
        return resampled, labels

    def score_examples(
        self, X: Any, y: Column = None, environments: Column = None, *, covariates: Any = None
    ) -> Floats:
        """Log-scores [N, m] of further examples of the same environments, e.g. a held-out part."""
        from equipoise.balancer_checks import read_further

        self._check_fitted()
        examples, table = read_further(self, X, y, environments, covariates)
        return self.score_.score(examples, table)

    def balanced_weights(
        self, X: Any, y: Column = None, environments: Column = None, *, covariates: Any = None
    ) -> Floats:
        """Weights [N], mean 1, under which a held-out part is balanced; none of it enters the fit.

        A weighted accuracy then estimates accuracy where nothing is spurious.
        """
        from equipoise.balancer_checks import read_further
        from equipoise.balancing import weigh_examples

        self._check_fitted()
        examples, table = read_further(self, X, y, environments, covariates)
        return weigh_examples(self, examples, table, self._seed)

    def _check_fitted(self) -> None:
        told = "this CausalBalancer has not been fitted: call fit first"
        check_is_fitted(self, "score_", msg=told)

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

    def diagnose(
        self,
        X: Any = None,
        y: Column = None,
        environments: Column = None,
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
        from equipoise.examining import diagnose_examined

        examined = self.examine(X, y, environments, covariates=covariates)
        return diagnose_examined(self, examined, known, with_price)

    def balance_table(self, *data: Any, **how: Any) -> pd.DataFrame:
        """Standardised mean differences, variance ratios and KS, before and after, of all pairs."""
        return self.diagnose(*data, **how, with_price=False).table

    def summary(self, *data: Any, **how: Any) -> str:
        """Print a page on balance that ends in a verdict, and return it; see `diagnose`."""
        from equipoise.diagnosis import summarise_balance

        page = summarise_balance(self.diagnose(*data, **how))
        print(page)
        return page

    def examine(
        self,
        X: Any = None,
        y: Column = None,
        environments: Column = None,
        *,
        covariates: Any = None,
    ) -> Examined:
        """The fitted examples with their coordinates, scores and matches, or further ones.

        What it gives may stand for X in `diagnose` and `write_report`: nothing is computed twice.
        """
        from equipoise.examining import examine_examples

        self._check_fitted()
        return examine_examples(self, X, y, environments, covariates)

    def save(self, path: str | Path) -> None:
        """Write the fitted balancer (score, matches, weights, names) as one safetensors file."""
        from equipoise.balancer_files import save_balancer

        self._check_fitted()
        save_balancer(self, path)

    @classmethod
    def load(cls, path: str | Path) -> CausalBalancer:
        """Read what `save` wrote."""
        from equipoise.balancer_files import load_balancer

        return load_balancer(cls(), path)
