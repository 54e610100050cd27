"""What is balanced and its score: (x, y, e) -> coordinates -> log p(y | coordinates, e)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from equipoise.balance import Propensity, fit_propensity
from equipoise.checks import show
from equipoise.data import Examples, flatten_examples
from equipoise.latent import (
    AUTO,
    READINGS,
    ColumnEncoding,
    Features,
    FitSettings,
    LatentChoice,
    LatentCovariateModel,
    PixelComponents,
    VaryingPart,
    choose_latent,
    encode_columns,
    encode_components,
    find_varying,
    fit_model,
    label_free_z,
    log_scores,
)

if TYPE_CHECKING:
    from equipoise.balancer import CausalBalancer

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Images with larger values were probably not scaled.
LARGEST_PIXEL = 20.0
#: The largest width of a layer that is allowed.
MOST_WIDTH = 65_536
BALANCE_ON = ("varying", "all", "given")


@dataclass(frozen=True)
class Reading:
    """One reading of the score and the balance it reached: mean |SMD| of the label-free z."""

    reading: str
    before: float
    after: float


@dataclass(frozen=True)
class BalancingScore:
    """A fitted score, for the fitted examples and for further ones of the same environments.

    Attributes
    ----------
    balance_on : str
        "varying", "all" or "given".
    log_frequencies : float array [E, m]
        log p(y | e), the score where nothing was found.
    latent_model : LatentCovariateModel or None
        The VAE of the paper; None unless `balance_on` is "all".
    reading : str
        Of the VAE's score; "" where the VAE does not score.
    components : PixelComponents or None
        Of images, whose pixels are examined by their principal components.
    encoding : ColumnEncoding or None
        How columns or components become features.
    part : VaryingPart or None
        None unless `balance_on` is "varying".
    propensity : Propensity or None
        p(y | given covariates and coordinates, e).
    given : tuple of str
        Names of given covariates.
    """

    balance_on: str
    log_frequencies: Floats
    latent_model: LatentCovariateModel | None = None
    reading: str = ""
    components: PixelComponents | None = None
    encoding: ColumnEncoding | None = None
    part: VaryingPart | None = None
    propensity: Propensity | None = None
    given: tuple[str, ...] = ()
    readings: tuple[Reading, ...] = ()
    choice: LatentChoice | None = field(default=None, repr=False)

    def encode(self, examples: Examples) -> Features | None:
        """Features of examples, in which links were tested; None if no test was made."""
        if self.encoding is None:
            return None
        return self.encoding.encode(self._values(examples), examples.environments)

    def coordinates(self, examples: Examples, features: Features | None = None) -> Floats:
        """What is balanced of examples [N, k], given covariates apart."""
        if self.part is not None:
            features = self.encode(examples) if features is None else features
            if features is None:
                raise ValueError("a varying part needs an encoding")
            return self.part.coordinates(features.values)
        if self.balance_on == "all":
            return self._values(examples)
        return np.zeros((len(examples), 0))

    def score(self, examples: Examples, covariates: pd.DataFrame | None) -> Floats:
        """Log-scores [N, m] of further examples."""
        if self.propensity is not None:
            table = join_covariates(covariates, self.coordinates(examples), self.given)
            return self.propensity.score(table, examples.environments)
        if self.reading:
            return self._score_latent(examples, self.reading)
        return self.log_frequencies[examples.environments]

    def _score_latent(self, examples: Examples, reading: str) -> Floats:
        codes = examples.labels, examples.environments
        if self.latent_model is None:
            raise ValueError("there is no latent model to score with")
        return log_scores(self.latent_model, examples.source, *codes, reading=reading)

    def _values(self, examples: Examples) -> Floats:
        """Columns of a table, components of images, or z of a VAE [N, p]."""
        if self.latent_model is not None:
            codes = examples.labels, examples.environments
            return label_free_z(self.latent_model, examples.source, *codes)
        x = _read_flat(examples)
        return x if self.components is None else self.components.project(x)

    def state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """Arrays and facts for a file, see `from_state`."""
        arrays: dict[str, NDArray] = {"score.log_frequencies": self.log_frequencies}
        if self.components is not None:
            arrays |= {f"components.{k}": v for k, v in vars(self.components).items()}
        tensors: dict[str, torch.Tensor] = {}
        facts: dict[str, Any] = {
            "balance_on": self.balance_on,
            "reading": self.reading,
            "given": list(self.given),
            "readings": [asdict(reading) for reading in self.readings],
            "latent_choice": None if self.choice is None else self.choice.to_facts(),
            "model": None,
            "part": None,
        }
        if self.latent_model is not None:
            tensors |= {f"model.{k}": v for k, v in self.latent_model.state_dict().items()}
            facts["model"] = asdict(self.latent_model.settings)
        if self.encoding is not None:
            arrays |= {f"encoding.{k}": v for k, v in self.encoding.state().items()}
        if self.part is not None:
            arrays["part.linear"] = self.part.linear
            facts["part"] = {
                "pairs": [list(pair) for pair in self.part.pairs],
                "named": list(self.part.named),
                "p_value": self.part.p_value,
                "table": self.part.table.to_dict("list"),
            }
        if self.propensity is not None:
            arrays |= {f"propensity.{k}": v for k, v in self.propensity.state().items()}
        tensors |= {k: torch.from_numpy(np.array(v, order="C")) for k, v in arrays.items()}
        return tensors, facts

    @classmethod
    def from_state(cls, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> BalancingScore:
        """What `state` gave."""
        arrays = {k: v.numpy() for k, v in tensors.items() if not k.startswith("model.")}
        model, part, choice = facts["model"], facts["part"], facts["latent_choice"]
        made: dict[str, Any] = {
            "balance_on": facts["balance_on"],
            "log_frequencies": arrays["score.log_frequencies"],
            "reading": facts["reading"],
            "given": tuple(facts["given"]),
            "readings": tuple(Reading(**reading) for reading in facts["readings"]),
        }
        if model is not None:
            made["latent_model"] = LatentCovariateModel.rebuild(_below("model.", tensors), model)
        if own := _below("components.", arrays):
            made["components"] = PixelComponents(**own)
        if own := _below("encoding.", arrays):
            made["encoding"] = ColumnEncoding.from_state(own)
        if part is not None:
            made["part"] = VaryingPart(
                arrays["part.linear"],
                tuple((int(a), int(b)) for a, b in part["pairs"]),
                tuple(part["named"]),
                part["p_value"],
                pd.DataFrame(part["table"]),
            )
        if own := _below("propensity.", arrays):
            made["propensity"] = Propensity.from_state(own)
        if choice is not None:
            made["choice"] = LatentChoice.from_facts(choice)
        return cls(**made)


def learn_score(
    balancer: CausalBalancer,
    examples: Examples,
    covariates: pd.DataFrame | None,
    settings: FitSettings,
    *,
    weigh: Callable[[Floats], Floats | None],
    checkpoint: str | Path | None = None,
) -> tuple[BalancingScore, Floats, Floats]:
    """Learn what to balance on and score the examples: the score, log-scores and coordinates.

    Tables and embeddings are examined column by column, images by components. `settings` are
    of the VAE, and the seed of all. `weigh` gives the weights that log-scores lead to, or None
    where nothing can be matched: by them the paper's two readings of the score are compared.
    """
    balance_on = balancer.balance_on
    labels, sites = examples.labels, examples.environments
    frequencies = _log_frequencies(examples)
    given = () if covariates is None else tuple(map(str, covariates.columns))
    model = components = encoding = part = choice = None
    coordinates = np.zeros((len(examples), 0))
    if balance_on != "given":
        _warn_of_large_pixels(examples)
    if balance_on == "all":
        model, choice = _fit_latent(balancer, examples, settings, checkpoint)
    elif balance_on == "varying":
        values = _read_flat(examples)
        if len(examples.input_shape) == 1:
            encoding = encode_columns(values, labels, sites)
        else:
            components = PixelComponents.of(values)
            values = components.project(values)
            encoding = encode_components(values, frequencies.shape[0])
        features = encoding.encode(values, sites)
        rng = np.random.default_rng([settings.seed, 0x7E57])
        part = find_varying(features, labels, sites, rng=rng, rotated=components is not None)
        coordinates = part.coordinates(features.values)
    found = BalancingScore(
        balance_on, frequencies, model, "", components, encoding, part, None, given, (), choice
    )
    if balance_on == "all" and not given:
        return _choose_reading(found, examples, balancer.reading, weigh)
    if balance_on == "all":
        coordinates = found.coordinates(examples)
    if not given and not coordinates.shape[1]:
        return found, frequencies[sites], coordinates
    table = join_covariates(covariates, coordinates, given)
    propensity = fit_propensity(
        table,
        labels,
        sites,
        seed=settings.seed,
        n_labels=frequencies.shape[1],
        model=_choose_model(part, given),
    )
    if propensity.log_scores is None:
        raise ValueError("a fitted propensity has scores")
    made = replace(found, propensity=propensity)
    return made, propensity.log_scores, coordinates


def _choose_model(part: VaryingPart | None, given: tuple[str, ...]) -> str:
    """Several directions are scored by logistic regression: they are discriminants already.

    Trees would find what is left of the label's content between them.
    """
    n_directions = 0 if part is None else part.named.count("direction")
    return "logistic by environment" if n_directions > 2 and not given else "auto"


def join_covariates(
    covariates: pd.DataFrame | None, coordinates: Floats, given: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Given covariates and learned coordinates as one table."""
    own = pd.DataFrame(
        coordinates, columns=[f"varying {i + 1}" for i in range(coordinates.shape[1])]
    )
    if not given:
        return own
    if covariates is None:
        raise ValueError(f"covariates are needed: the balancer was fitted with {', '.join(given)}")
    return pd.concat([covariates.reset_index(drop=True), own], axis=1)


def read_widths(hidden: Any) -> tuple[int, ...] | None:
    """Widths of layers, of which one may stand alone."""
    if hidden is None:
        return None
    widths = (hidden,) if isinstance(hidden, int | np.integer) else hidden
    if not isinstance(widths, tuple | list) or not all(
        isinstance(w, int | np.integer) and 0 < w <= MOST_WIDTH for w in widths
    ):
        raise ValueError(
            f"hidden must be widths of layers such as 64 or [64, 64], got {show(hidden)}"
        )
    return tuple(int(width) for width in widths) or None


def _fit_latent(
    balancer: CausalBalancer,
    examples: Examples,
    settings: FitSettings,
    checkpoint: str | Path | None,
) -> tuple[LatentCovariateModel, LatentChoice | None]:
    codes = examples.labels, examples.environments
    size, prior, hidden = balancer.latent_dim, balancer.prior, read_widths(balancer.hidden)
    how: dict[str, Any] = {
        "settings": settings,
        "checkpoint": checkpoint,
        "verbose": balancer.verbose,
    }
    if AUTO in (size, prior):
        how |= {"prior": prior, "hidden": hidden, "device": balancer.device}
        choice, model = choose_latent(examples.source, *codes, latent_dim=size, **how)
        return model, choice
    model = LatentCovariateModel(
        examples.input_shape,
        len(examples.label_names),
        len(examples.environment_names),
        latent_dim=None if size is None else int(size),
        prior=prior,
        hidden=hidden,
        seed=settings.seed,
    ).to(balancer.device)
    fit_model(model, examples.source, *codes, **how)
    return model, None


def _choose_reading(
    found: BalancingScore,
    examples: Examples,
    reading: str,
    weigh: Callable[[Floats], Floats | None],
) -> tuple[BalancingScore, Floats, Floats]:
    """Of the paper's two readings the one that leaves labels most alike in z."""
    from equipoise.diagnosis import standardized_differences  # slow to import

    codes = examples.labels, examples.environments
    z = found.coordinates(examples)
    before = float(standardized_differences(z, *codes, None).mean())
    options: list[tuple[Floats, Reading]] = []
    for name in READINGS if reading == AUTO else (reading,):
        scores = found._score_latent(examples, name)
        weights = weigh(scores)
        if weights is not None:
            after = float(standardized_differences(z, *codes, weights).mean())
            options.append((scores, Reading(name, before, after)))
    if not options:
        raise ValueError("no example has a match of another label")
    scores, best = min(options, key=lambda option: option[1].after)
    readings = tuple(reading for _, reading in options)
    made = replace(found, reading=best.reading, readings=readings)
    return made, scores, z


def _warn_of_large_pixels(examples: Examples) -> None:
    if len(examples.input_shape) == 1:
        return
    rows = np.linspace(0, len(examples) - 1, min(256, len(examples))).astype(np.int64)
    largest = float(examples.source.fetch(rows).abs().max())
    if largest > LARGEST_PIXEL:
        warnings.warn(
            f"images have values up to {largest:g}, but the models expect about unit size: give "
            "pixels as uint8, or scale them to 0…1",
            stacklevel=4,
        )


def _read_flat(examples: Examples) -> Floats:
    """Columns as they are, images as flat rows."""
    rows = np.arange(len(examples))
    if len(examples.input_shape) == 1:
        return np.asarray(examples.source.fetch(rows).double().numpy(force=True))
    return np.asarray(flatten_examples(examples.source, rows).numpy())


def _log_frequencies(examples: Examples) -> Floats:
    shape = len(examples.environment_names), len(examples.label_names)
    counts = np.zeros(shape)
    np.add.at(counts, (examples.environments, examples.labels), 1.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)))


def _below(prefix: str, entries: dict[str, Any]) -> dict[str, Any]:
    return {k.removeprefix(prefix): v for k, v in entries.items() if k.startswith(prefix)}
