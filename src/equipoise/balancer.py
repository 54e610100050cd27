"""CausalBalancer: rooms 2 and 3 behind one estimator, in scikit-learn manners."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray

from equipoise.balance import (
    BalancedBatchSampler,
    Groups,
    Matches,
    balanced_frequencies,
    choose_n_matches,
    match_scores,
)
from equipoise.balance.distances import get_metric
from equipoise.balance.match import Caliper
from equipoise.balance.matches import check_tolerance, keep_near_ties, pack_matches, unpack_matches
from equipoise.balance.scores import check_support
from equipoise.checks import (
    check_choice,
    check_count,
    check_device,
    check_jobs,
    check_seed,
    show,
)
from equipoise.data import (
    DataNames,
    Source,
    check_for_balancing,
    collect_examples,
    flatten_examples,
)
from equipoise.diagnosis import BalanceDiagnostics, diagnose_balance, standardized_differences
from equipoise.diagnosis.gain import choose_gain_examples, estimate_gain
from equipoise.diagnosis.summary import summarise_balance
from equipoise.files import load_state, save_state
from equipoise.latent import FitSettings, LatentCovariateModel, get_prior, label_free_z, log_scores
from equipoise.latent.choice import AUTO, LatentChoice, choose_latent
from equipoise.latent.fitting import FEATURE_NOISE
from equipoise.latent.scores import READINGS

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """One reading of the score and the balance it reached: mean |SMD| of the label-free z."""

    score: str
    before: float
    after: float


@dataclass(frozen=True)
class Examined:
    """Examples to be diagnosed, with what the model and the matching made of them.

    `source` is None where the examples are not at hand, as of a loaded balancer.
    """

    source: Any
    labels: Ints
    environments: Ints
    z: Floats
    log_scores: Floats
    matches: Matches
    feature_names: tuple[str, ...] | None = None  # of the columns of a table, where X names them


class CausalBalancer:
    """Learn the latent covariate, score it, match on the score, and hand out balanced batches.

    Parameters
    ----------
    n_matches : other labels joined to every anchor (a); None takes m − 1, up to 9
    metric : "kl", "l1", "l2" or "linf", the distance of scores
    n_nearest : matches kept for every label; a batch draws one of them at random
    tolerance : of these, those farther than this are dropped, unless they are the nearest
    caliper : no match may be farther than this; "0.2sd" means deviations of the logit; None
        allows any
    reuse_max : cap on how many anchors' lists an example may stand in
    common_support : True leaves out examples whose scores some label has no example near; a
        number, such as 0.1, those to which some label gives less probability than that
    prior : family of p(z|y,e): "gaussian-fixed-variance" (k = 1) or "gaussian" (k = 2), or
        "auto" for the one that data and environments speak for
    latent_dim : n; None takes the largest that Theorem 3.3 allows, up to the paper's cap; "auto"
        chooses among sizes that the environments can tell, see `choose_latent`
    score : "observed", "hypothesised", or "auto" for the one that balances better
    hidden : widths of the perceptrons, such as (64, 64) or 64; by default the paper's
    feature_noise : deviation of the noise in feature vectors, as a share of each feature's own;
        the larger it is, the less single features are taken for part of Z
    max_steps, batch_size, lr : of the fit; `batch_size` counts examples of each environment
    n_jobs : threads for matching
    device : where the model is fitted
    random_state : seed of the model, its batches and every draw
    verbose : show progress

    Attributes
    ----------
    classes_, environments_ : labels and environments as given, sorted; their codes are positions
    names_ : DataNames, what the fitted data call labels, environments and features; further data
        that have names are read by them, whatever their own codes and order of columns
    latent_model_ : the fitted LatentCovariateModel
    log_scores_ : [N, m]
    z_ : [N, n] averaged over the labels an example might have, so that no label enters it
    matches_ : Matches; indices are rows of X
    latent_choice_ : a LatentChoice, why n and the prior are what they are, if "auto" chose them
    score_ : the reading in use, and `readings_` what was compared to choose it
    n_matches_ : a in use
    sample_indices_ : rows that `fit_resample` took

    >>> rng = np.random.default_rng(0)
    >>> site, y = rng.integers(2, size=400), rng.integers(2, size=400)
    >>> colour = np.where(rng.random(400) < 0.9, y, 1 - y)
    >>> X = np.stack([colour + 0.1 * rng.normal(size=400), y + rng.normal(size=400)], axis=1)
    >>> balancer = CausalBalancer(max_steps=50, random_state=0).fit(X, y, site)
    >>> balancer.batch_sampler(anchors_per_environment=16)
    BalancedBatchSampler(2 environments × 16 anchors × (1 + 1 matches), 14 batches an epoch)
    """

    def __init__(
        self,
        n_matches: int | None = None,
        *,
        metric: str = "kl",
        n_nearest: int = 40,
        tolerance: float | None = 0.1,
        caliper: float | str | None = None,
        reuse_max: int | None = None,
        common_support: bool | float = False,
        prior: str = "gaussian-fixed-variance",
        latent_dim: int | str | None = None,
        score: str = "auto",
        hidden: int | tuple[int, ...] | None = None,
        feature_noise: float = FEATURE_NOISE,
        max_steps: int = 600,
        batch_size: int = 64,
        lr: float = 1e-3,
        n_jobs: int = 1,
        device: str = "cpu",
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.n_matches = n_matches
        self.metric = metric
        self.n_nearest = n_nearest
        self.tolerance = tolerance
        self.caliper = caliper
        self.reuse_max = reuse_max
        self.common_support = common_support
        self.prior = prior
        self.latent_dim = latent_dim
        self.score = score
        self.hidden = hidden
        self.feature_noise = feature_noise
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.lr = lr
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    classes_: NDArray
    environments_: NDArray
    names_: DataNames
    latent_model_: LatentCovariateModel
    log_scores_: Floats
    z_: Floats
    matches_: Matches
    score_: str
    readings_: tuple[Reading, ...]
    latent_choice_: LatentChoice | None
    n_matches_: int
    sample_indices_: Ints

    # --- fitting -------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        checkpoint: str | Path | None = None,
    ) -> CausalBalancer:
        """Learn Z from all of X, score and match it. Give training examples only.

        X is an array, a tensor, a data frame or a map-style dataset; a dataset of
        `equipoise.data` brings labels and environments along. With `checkpoint` an interrupted
        fit goes on where it stopped.
        """
        settings, hidden = self._check_parameters()
        examples = collect_examples(X, y, environments)
        check_for_balancing(examples)
        names, source = examples.names, examples.source
        n_matches = self._choose_n_matches(len(names.classes))
        shape = tuple(source.fetch(np.zeros(1, dtype=np.int64)).shape[1:])
        codes = examples.labels, examples.environments
        options: dict[str, Any] = {
            "settings": settings,
            "checkpoint": checkpoint,
            "verbose": self.verbose,
        }
        choice = None
        if AUTO in (self.latent_dim, self.prior):
            choice, model = choose_latent(
                source,
                *codes,
                latent_dim=self.latent_dim,
                prior=self.prior,
                hidden=hidden,
                device=self.device,
                **options,
            )
        else:
            model = LatentCovariateModel(
                shape,
                len(names.classes),
                len(names.sites),
                latent_dim=None if self.latent_dim is None else int(self.latent_dim),
                prior=self.prior,
                hidden=hidden,
                seed=int(self.random_state),
            ).to(self.device)
            model.fit(source, *codes, **options)
        z = label_free_z(model, source, *codes)
        chosen, readings = self._choose_reading(model, source, z, *codes)
        # All at once: a fit that fails leaves an earlier one as it was.
        self.classes_, self.environments_ = names.classes, names.sites
        self.names_ = names
        self._labels, self._environments = codes
        self.latent_model_, self.n_matches_, self.readings_ = model, n_matches, readings
        self.latent_choice_ = choice
        self.score_, self.log_scores_, self.matches_ = chosen
        self.z_, self._source = z, source
        self._feature_names = examples.feature_names
        return self

    def check_fit(
        self, X: Any, y: ArrayLike | None = None, environments: ArrayLike | None = None
    ) -> None:
        """Refuse what `fit` would refuse of parameters, labels and environments; nothing is done.

        For whoever prepares something first, such as a directory, that a mistake need not leave.
        """
        self._check_parameters()
        examples = collect_examples(X, y, environments)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `fit` will say it
            check_for_balancing(examples)
        self._choose_n_matches(len(examples.names.classes))

    def _check_parameters(self) -> tuple[FitSettings, tuple[int, ...] | None]:
        """All that can be told without data, before anything takes long."""
        get_metric(self.metric)
        if not isinstance(self.prior, str) or self.prior != AUTO:
            get_prior(self.prior)
        if isinstance(self.latent_dim, str):
            check_choice("latent_dim", self.latent_dim, (AUTO,), hint="or a whole number")
        elif self.latent_dim is not None:
            check_count("latent_dim", self.latent_dim, most=10_000)
        check_choice("score", self.score, ("auto", *READINGS))
        check_count("n_nearest", self.n_nearest, most=10_000)
        check_count("max_steps", self.max_steps)
        check_seed("random_state", self.random_state)
        check_device("device", self.device)
        check_jobs("n_jobs", self.n_jobs)
        Caliper.parse(self.caliper)
        check_support(self.common_support)
        if self.reuse_max is not None:
            check_count("reuse_max", self.reuse_max)
        if self.tolerance is not None:
            check_tolerance(self.tolerance)
        settings = FitSettings(
            max_steps=self.max_steps,
            batch_size=self.batch_size,
            lr=self.lr,
            seed=int(self.random_state),
            feature_noise=self.feature_noise,
        )
        return settings, _read_widths(self.hidden)

    def _choose_n_matches(self, n_labels: int) -> int:
        return choose_n_matches(n_labels, self.n_matches)

    def _choose_reading(
        self,
        model: LatentCovariateModel,
        source: Source,
        z: Floats,
        labels: Ints,
        environments: Ints,
    ) -> tuple[tuple[str, Floats, Matches], tuple[Reading, ...]]:
        """Match under each reading asked for and keep the one that leaves labels most alike."""
        before = _mean_difference(z, labels, environments, None)
        found, readings = [], []
        for name in READINGS if self.score == "auto" else (self.score,):
            scores = log_scores(model, source, labels, environments, score=name)
            matches = self._match(scores, labels, environments)
            if not matches.matched.any():
                continue
            weights = balanced_frequencies(matches)
            after = _mean_difference(z, labels, environments, weights)
            readings.append(Reading(name, before, after))
            found.append((name, scores, matches))
        if not found:
            raise ValueError(self._tell_unmatched())
        best = int(np.argmin([reading.after for reading in readings]))
        return found[best], tuple(readings)

    def _match(self, scores: Floats, labels: Ints, environments: Ints) -> Matches:
        matches = match_scores(
            scores,
            labels,
            environments,
            metric=self.metric,
            n_nearest=self.n_nearest,
            caliper=self.caliper,
            reuse_max=self.reuse_max,
            common_support=self.common_support,
            n_jobs=self.n_jobs,
        )
        return matches if self.tolerance is None else keep_near_ties(matches, self.tolerance)

    # --- using ---------------------------------------------------------------------------------

    def batch_sampler(
        self,
        anchors_per_environment: int = 32,
        *,
        n_matches: int | None = None,
        seed: int | None = None,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> BalancedBatchSampler:
        """Algorithm 1 over the rows of X, for `DataLoader(dataset, batch_sampler=…)`."""
        self._check_fitted()
        return BalancedBatchSampler(
            self._labels,
            self._environments,
            self.matches_,
            anchors_per_environment=anchors_per_environment,
            n_matches=self.n_matches_ if n_matches is None else n_matches,
            seed=int(self.random_state) if seed is None else seed,
            num_replicas=num_replicas,
            rank=rank,
        )

    def fit_resample(
        self, X: Any, y: ArrayLike | None = None, environments: ArrayLike | None = None
    ) -> tuple[Any, NDArray]:
        """Fit, then return X and y with every example once as anchor, followed by its matches.

        Examples without any match are left out, as in batches. `sample_indices_` names the rows
        taken, so `environments[sample_indices_]` goes along.
        """
        self.fit(X, y, environments)
        sampler = self.batch_sampler(anchors_per_environment=1)
        anchors = np.flatnonzero(self.matches_.matched)
        generator = np.random.default_rng(self.random_state)
        groups = sampler.draw_groups(anchors, generator).ravel()
        self.sample_indices_ = groups[groups >= 0]
        labels = self.classes_[self._labels[self.sample_indices_]]
        if isinstance(X, torch.Tensor):
            return X[torch.from_numpy(self.sample_indices_)], labels
        if hasattr(X, "iloc"):
            return X.iloc[self.sample_indices_], labels
        if isinstance(X, np.ndarray | list | tuple):
            return np.asarray(X)[self.sample_indices_], labels
        return self._source.fetch(self.sample_indices_), labels

    def score_examples(
        self, X: Any, y: ArrayLike | None = None, environments: ArrayLike | None = None
    ) -> Floats:
        """Log-scores [N, m] of further examples of the same environments, e.g. a held-out part."""
        self._check_fitted()
        source, labels, sites = self._encode_further(X, y, environments)
        return log_scores(self.latent_model_, source, labels, sites, score=self.score_)

    def balanced_weights(
        self, X: Any, y: ArrayLike | None = None, environments: ArrayLike | None = None
    ) -> Floats:
        """Weights [N] under which a held-out part is balanced; nothing of it enters the fit.

        The examples are scored by the fitted model and matched among themselves: a weighted
        accuracy then estimates accuracy where nothing is spurious, without test data.
        """
        self._check_fitted()
        source, labels, sites = self._encode_further(X, y, environments)
        scores = log_scores(self.latent_model_, source, labels, sites, score=self.score_)
        weights = balanced_frequencies(self._match(scores, labels, sites))
        if len(weights) and not weights.any():
            warnings.warn(f"all weights are 0: {self._tell_unmatched()}", stacklevel=2)
        return weights

    def _tell_unmatched(self) -> str:
        return (
            f"caliper={self.caliper!r} and common_support={self.common_support!r} leave no "
            "example with a match: allow more, or give environments with several labels"
        )

    def _encode_further(
        self, X: Any, y: ArrayLike | None, environments: ArrayLike | None
    ) -> tuple[Source, Ints, Ints]:
        """Further examples in the terms of the fit: by names where there are any, else by codes."""
        examples = collect_examples(X, y, environments, names=self.names_)
        source = examples.source
        fitted = self.latent_model_.settings.input_shape
        if len(source) and source.fetch(np.zeros(1, dtype=np.int64)).shape[1:] != fitted:
            raise ValueError(f"examples must have the shape {fitted} that was fitted")
        return source, examples.labels, examples.environments

    def _check_fitted(self) -> None:
        if not hasattr(self, "matches_"):
            raise ValueError("this CausalBalancer has not been fitted: call fit first")

    # --- looking -------------------------------------------------------------------------------

    def diagnose(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        known: Mapping[str, Any] | pd.DataFrame | None = None,
        with_gain: bool = True,
    ) -> BalanceDiagnostics:
        """All tables on balance before and after matching, and a verdict in words.

        Of the examples that were fitted, or of further ones, which are then matched among
        themselves. `known` holds covariates that you know, by name, a value for each example;
        a dataset's own `covariate` is taken if there is one. `with_gain` trains a small
        classifier to see what there is to gain; a loaded balancer can do so only if it is given
        the examples.
        """
        examined = self.examine(X, y, environments)
        if known is None and getattr(examined.source, "covariate", None) is not None:
            known = {examined.source.covariate_name: examined.source.covariate}
        groups = Groups(
            examined.labels,
            examined.environments,
            self.names_.labels or _name_codes(self.classes_, examined.source, "label_names"),
            self.names_.environments
            or _name_codes(self.environments_, examined.source, "environment_names"),
        )
        gain = None
        if with_gain and examined.source is not None:
            weights = balanced_frequencies(examined.matches)
            rows = choose_gain_examples(len(groups), int(self.random_state))
            features = flatten_examples(examined.source, rows)
            gain = estimate_gain(
                features, groups.labels[rows], weights[rows], seed=int(self.random_state)
            )
        return diagnose_balance(
            examined.z,
            examined.log_scores,
            examined.matches,
            groups,
            n_matches=self.n_matches_,
            known=known,
            features=_name_features(examined),
            gain=gain,
            seed=int(self.random_state),
        )

    def balance_table(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        known: Mapping[str, Any] | pd.DataFrame | None = None,
    ) -> pd.DataFrame:
        """Standardised mean differences, variance ratios and KS, before and after, of all pairs.

        A row for each environment (and pooled), covariate and pair of labels; see `diagnose`.
        """
        return self.diagnose(X, y, environments, known=known, with_gain=False).table

    def summary(
        self,
        X: Any = None,
        y: ArrayLike | None = None,
        environments: ArrayLike | None = None,
        *,
        known: Mapping[str, Any] | pd.DataFrame | None = None,
    ) -> str:
        """Print a page on the balance of the matches that ends in a verdict, and return it."""
        page = summarise_balance(self.diagnose(X, y, environments, known=known))
        print(page)
        return page

    def examine(
        self, X: Any = None, y: ArrayLike | None = None, environments: ArrayLike | None = None
    ) -> Examined:
        """The fitted examples with their z, scores and matches, or the same of further ones.

        What it gives may stand for X in `diagnose` and `write_report`: nothing is computed twice.
        """
        self._check_fitted()
        if isinstance(X, Examined):
            return X
        if X is None:
            if not hasattr(self, "z_"):
                raise ValueError(
                    "this CausalBalancer was saved without z: give the examples it was fitted on"
                )
            codes = self._labels, self._environments
            source = getattr(self, "_source", None)
            names = getattr(self, "_feature_names", None) or self.names_.features
            return Examined(source, *codes, self.z_, self.log_scores_, self.matches_, names)
        source, labels, sites = self._encode_further(X, y, environments)
        scores = log_scores(self.latent_model_, source, labels, sites, score=self.score_)
        known = self._are_fitted(labels, sites, scores)
        scores = self.log_scores_ if known else scores
        matches = self.matches_ if known else self._match(scores, labels, sites)
        if not matches.matched.any():
            raise ValueError(self._tell_unmatched())
        if known and hasattr(self, "z_"):
            z = self.z_
        else:
            z = label_free_z(self.latent_model_, source, labels, sites)
        return Examined(source, labels, sites, z, scores, matches, self.names_.features)

    def _are_fitted(self, labels: Ints, environments: Ints, scores: Floats) -> bool:
        """Whether these are the fitted examples once more, but for the last digits of scores."""
        return (
            np.array_equal(labels, self._labels)
            and np.array_equal(environments, self._environments)
            and np.allclose(scores, self.log_scores_, rtol=1e-4, atol=1e-4)
        )

    # --- keeping -------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Constructor parameters by name, as in scikit-learn."""
        names = [
            name for name in inspect.signature(type(self).__init__).parameters if name != "self"
        ]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters: Any) -> CausalBalancer:
        """Change constructor parameters; an unknown one is a ValueError."""
        for name, value in parameters.items():
            check_choice("parameter", name, self.get_params())
            setattr(self, name, value)
        return self

    def save(self, path: str | Path) -> None:
        """Write the fitted balancer (model, scores, matches, names) as one safetensors file."""
        self._check_fitted()
        tensors = {f"model.{k}": v for k, v in self.latent_model_.state_dict().items()}
        arrays = {
            "log_scores": self.log_scores_,
            **pack_matches(self.matches_),
            "labels": self._labels,
            "environments": self._environments,
        }
        if hasattr(self, "z_"):
            arrays["z"] = self.z_
        tensors |= {name: torch.from_numpy(array) for name, array in arrays.items()}
        facts = {
            "causal_balancer": {k: _plain(v) for k, v in self.get_params().items()},
            "model": asdict(self.latent_model_.settings),
            "classes": self.classes_.tolist(),
            "environments": self.environments_.tolist(),
            "names": self.names_.to_facts(),
            "score": self.score_,
            "readings": [vars(reading) for reading in self.readings_],
            "latent_choice": None
            if self.latent_choice_ is None
            else self.latent_choice_.to_facts(),
            "n_matches": self.n_matches_,
            "n_nearest": self.matches_.n_nearest,
            "metric": self.matches_.metric,
        }
        save_state(path, tensors, facts)

    @classmethod
    def load(cls, path: str | Path) -> CausalBalancer:
        """Read what `save` wrote."""
        tensors, facts = load_state(path)
        try:
            return cls._restore(tensors, facts)
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{path} does not hold a CausalBalancer of this version (missing: {error})"
            ) from error

    @classmethod
    def _restore(cls, tensors: dict[str, torch.Tensor], facts: Any) -> CausalBalancer:
        parameters = facts["causal_balancer"]
        if isinstance(parameters["hidden"], list):
            parameters["hidden"] = tuple(parameters["hidden"])
        balancer = cls(**parameters)
        balancer.classes_ = np.asarray(facts["classes"])
        balancer.environments_ = np.asarray(facts["environments"])
        # Files of earlier versions hold no names: further data are then read by their codes.
        balancer.names_ = DataNames.from_facts(
            {
                "classes": facts["classes"],
                "sites": facts["environments"],
                **(facts.get("names") or {}),
            }
        )
        balancer.score_, balancer.n_matches_ = facts["score"], facts["n_matches"]
        balancer.readings_ = tuple(Reading(**reading) for reading in facts["readings"])
        choice = facts.get("latent_choice")
        balancer.latent_choice_ = None if choice is None else LatentChoice.from_facts(choice)
        balancer._labels = tensors["labels"].numpy()
        balancer._environments = tensors["environments"].numpy()
        balancer.log_scores_ = tensors["log_scores"].numpy()
        if "z" in tensors:  # files of earlier versions have none
            balancer.z_ = tensors["z"].numpy()
        arrays = {name: tensor.numpy() for name, tensor in tensors.items() if "match" in name}
        balancer.matches_ = unpack_matches(
            arrays, n_nearest=facts["n_nearest"], metric=facts["metric"]
        )
        weights = {k.removeprefix("model."): v for k, v in tensors.items() if "model." in k}
        balancer.latent_model_ = LatentCovariateModel.rebuild(weights, facts["model"])
        return balancer

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if v != defaults[k].default]
        return f"CausalBalancer({', '.join(changed)})"


def _read_widths(hidden: Any) -> tuple[int, ...] | None:
    """Widths of layers, of which one may stand alone."""
    if hidden is None:
        return None
    widths = (hidden,) if isinstance(hidden, int | np.integer) else hidden
    if not isinstance(widths, tuple | list) or not all(
        isinstance(w, int | np.integer) and w > 0 for w in widths
    ):
        raise ValueError(
            f"hidden must be widths of layers such as 64 or [64, 64], got {show(hidden)}"
        )
    return tuple(int(width) for width in widths) or None


def _mean_difference(z: Floats, labels: Ints, environments: Ints, weights: Floats | None) -> float:
    return float(standardized_differences(z, labels, environments, weights).mean())


def _name_features(examined: Examined, at_most: int = 100) -> dict[str, Floats]:
    """The columns of a table by name; nothing of images and of long vectors, such as embeddings."""
    if examined.source is None or not len(examined.labels):
        return {}
    shape = examined.source.fetch(np.zeros(1, dtype=np.int64)).shape
    if len(shape) != 2 or shape[1] > at_most:
        return {}
    x = examined.source.fetch(np.arange(len(examined.labels))).double().numpy()
    names = examined.feature_names or tuple(f"feature {i + 1}" for i in range(shape[1]))
    return {name: x[:, i] for i, name in enumerate(names)}


def _name_codes(values: NDArray, source: Any, attribute: str) -> tuple[str, ...]:
    """Labels or environments in words, of a balancer that was saved without their names."""
    names = getattr(source, attribute, None)
    if names is None or values.dtype.kind not in "iu" or not 0 <= values.min() <= values.max():
        return tuple(str(value) for value in values)
    return tuple(names[code] if code < len(names) else str(code) for code in values.tolist())


def _plain(value: Any) -> Any:
    """A parameter as JSON knows it, whatever numpy made of it."""
    return value.item() if isinstance(value, np.generic) else value
