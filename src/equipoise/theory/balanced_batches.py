"""Theorems 3.6 and 3.7: which functions of Z balance, and what share labels get in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import chi2, combine_pvalues

from equipoise.balance import BalancedBatchSampler, MatchSource, match_covariate, match_scores
from equipoise.balancer import CausalBalancer
from equipoise.diagnosis import cross_table, mutual_information
from equipoise.theory.outcome import Experiment, Judgement, Record
from equipoise.theory.scm import Floats, Ints, SyntheticSample

LEARNED = "learned score"
MATCHINGS = ("covariate", "true score", LEARNED)
LABELS = (2, 5, 10)
STRENGTHS = (0.7, 0.5)  # of the link with the label, by environment
COLUMNS = {
    "n_labels": "m",
    "n_matches": "a",
    "matching": "matched on",
    "gap": "mean gap",
    "largest_gap": "largest gap",
    "gap_of_random_batches": "of random batches",
    "p_value": "p-value",
}
LEAST_P = 1e-3  # of all exact cases together
COLOURS = dict(zip(MATCHINGS, ("#1b7837", "#7fbf7b", "#2166ac"), strict=True))


# --- Theorem 3.7: the share of every label, given Z and E ---------------------------------------


def sample_discrete(n_examples: int, n_labels: int, *, seed: int) -> SyntheticSample:
    """A covariate with a value for every label, which goes with it more or less by environment.

    x shows the covariate clearly and the label faintly, as colour and shape do in ColoredMNIST.
    The other labels of a value are uneven, so that no two values have the same score. Scores are
    those of the sample itself: what is matched is what was drawn.
    """
    shape = (len(STRENGTHS), n_labels, n_labels)  # environments, values, labels
    own, strength = np.eye(n_labels), np.array(STRENGTHS)[:, None, None]
    generator = np.random.default_rng([seed, n_labels, 0x37])
    others = generator.uniform(0.5, 1.5, size=shape) * (1.0 - own)
    others /= others.sum(axis=2, keepdims=True)
    propensity = strength * own + (1.0 - strength) * others
    environments = np.arange(n_examples) % len(STRENGTHS)
    z = generator.integers(n_labels, size=n_examples)
    steps = propensity[environments, z].cumsum(axis=1)
    drawn = generator.random(n_examples)[:, None] * steps[:, -1:]
    labels = (drawn > steps).sum(axis=1).astype(np.int64)
    shown = 3.0 * own[z] + 0.2 * generator.normal(size=(n_examples, n_labels))
    faint = own[labels] + generator.normal(size=(n_examples, n_labels))
    counts = count_cells(labels, z, environments, shape)
    if counts.min() == 0:
        raise ValueError(
            f"{n_examples} examples leave a (value, label) cell of {n_labels} labels empty: "
            "give more"
        )
    shares = np.log(counts / counts.sum(axis=2, keepdims=True))
    x = np.concatenate([shown, faint], axis=1)
    return SyntheticSample(x, labels, environments, z, shares[environments, z])


def balanced_share(propensity: Floats, n_matches: int, n_labels: int) -> Floats:
    """p̂(Y | Z, E) of Theorem 3.7, for a = `n_matches`.

    >>> balanced_share(np.array([0.9, 0.1]), n_matches=1, n_labels=2)
    array([0.5, 0.5])
    """
    a, m = n_matches, n_labels
    return np.asarray((a / (m - 1) + (m - a - 1) / (m - 1) * propensity) / (a + 1))


def count_cells(labels: Ints, z: Ints, environments: Ints, shape: tuple[int, int, int]) -> Floats:
    """How often every (environment, covariate, label) occurs [|E|, values, m]."""
    flat = np.ravel_multi_index((environments, z, labels), shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)


@dataclass(frozen=True)
class BalanceCase:
    """Which batches to count: m labels, a matches, matched how."""

    n_labels: int
    n_matches: int
    matching: str
    n_examples: int
    epochs: int
    max_steps: int
    seed: int

    def __str__(self) -> str:
        return f"m = {self.n_labels}, a = {self.n_matches}, {self.matching}"


def measure_balance(case: BalanceCase) -> Record:
    """Count the labels of whole epochs of batches, cell by cell, against the formula.

    With exact matches every anchor draws each other label with probability a / (m − 1), so
    the sampling error of a count is binomial and `p_value` says whether the gap is more.
    """
    m, sample = case.n_labels, sample_discrete(case.n_examples, case.n_labels, seed=case.seed)
    # Draws of its own for every case, so that their p-values are independent.
    place = [case.seed, m, case.n_matches, MATCHINGS.index(case.matching)]
    seed = int(np.random.SeedSequence(place).generate_state(1)[0])
    y, z, e = sample.labels, sample.z, sample.environments
    rows = _draw_epochs(y, e, _match(sample, case), 250, case.n_matches, seed, case.epochs)
    shape = (len(STRENGTHS), m, m)
    data, drawn = count_cells(y, z, e, shape), count_cells(y[rows], z[rows], e[rows], shape)
    propensity = data / data.sum(axis=2, keepdims=True)
    expected = balanced_share(propensity, case.n_matches, m)
    gap = np.abs(drawn / drawn.sum(axis=2, keepdims=True) - expected)
    return {
        "gap": float(gap.mean()),
        "largest_gap": float(gap.max()),
        "gap_of_random_batches": float(np.abs(propensity - expected).mean()),
        "p_value": _test_counts(drawn, data, case) if case.n_matches < m - 1 else None,
    }


def _match(sample: SyntheticSample, case: BalanceCase) -> MatchSource:
    codes = sample.labels, sample.environments
    if case.matching == "covariate":
        generator = np.random.default_rng([case.seed, 1])
        return match_covariate(sample.z, *codes, generator=generator)
    if case.matching == "true score":
        return match_scores(sample.log_propensity, *codes)
    balancer = CausalBalancer(max_steps=case.max_steps, random_state=case.seed)
    found: MatchSource = balancer.fit(sample.x, *codes).matches_
    return found


def _test_counts(drawn: Floats, data: Floats, case: BalanceCase) -> float:
    """p-value of the squared distance of all counts from those expected, given their covariance.

    An anchor takes a of its m − 1 other labels without replacement: each with p = a / (m − 1),
    with covariance −p(1 − p) / (m − 2) between two. At a = m − 1 nothing is left to chance.
    """
    m, p = case.n_labels, case.n_matches / (case.n_labels - 1)
    anchors = case.epochs * data.reshape(-1, m)  # [cells, m]
    missed = drawn.reshape(-1, m) - anchors - p * (anchors.sum(axis=1, keepdims=True) - anchors)
    # Of one anchor of label y: p(1 − p) · ((m − 1)·I − 1·1ᵀ) / (m − 2), without row and column y.
    one = p * (1 - p) / (m - 2) * ((m - 1) * np.eye(m) - np.ones((m, m)))
    keep = 1.0 - np.eye(m)  # [label of the anchor, other label]
    covariance = np.einsum("cy,yi,yj,ij->cij", anchors, keep, keep, one)
    distance = np.einsum("ci,cij,cj->c", missed, np.linalg.pinv(covariance), missed)
    return float(chi2.sf(float(distance.sum()), len(anchors) * (m - 1)))


# --- values of Z that share a score -------------------------------------------------------------

# How a match is chosen among those equally near -> nearest ones kept, ties broken at random.
TIES = {
    "the nearest, lowest index": (1, False),
    "the nearest, ties broken once at random": (1, True),
    "one of the 40 nearest at random": (40, False),
}


def examine_ties(n_examples: int, *, seed: int) -> pd.DataFrame:
    """Exact matches where different values of Z share a score: p̂(Y | Z) depends on the choice.

    Two labels, four values of Z with scores 0.7, 0.7, 0.3, 0.3. Theorem 3.7 gives every label one
    half, given Z; its proof takes p̂(Y | Z) for p̂(Y | b(Z)), which holds if the match is drawn
    at random among all that are equally near. Gaps are the largest to one half.
    """
    generator = np.random.default_rng([seed, 0x71E5])
    z = generator.integers(4, size=n_examples)
    propensity = np.array([0.7, 0.7, 0.3, 0.3])[z]
    labels = (generator.random(n_examples) >= propensity).astype(np.int64)
    log_scores = np.log(np.stack([propensity, 1.0 - propensity], axis=1))
    found = []
    for name, (n_nearest, at_random) in TIES.items():
        breaker = np.random.default_rng([seed, 1]) if at_random else None
        matches = match_scores(log_scores, labels, n_nearest=n_nearest, generator=breaker)
        rows = _draw_epochs(labels, np.zeros_like(labels), matches, 250, 1, seed)
        given_z = count_cells(labels[rows], z[rows], np.zeros_like(rows), (1, 4, 2))[0]
        both = given_z, given_z.reshape(2, 2, 2).sum(axis=1)
        gaps = [np.abs(n[:, 0] / n.sum(axis=1) - 0.5).max() for n in both]
        found.append((name, *gaps))
    return pd.DataFrame(found, columns=["match", "largest gap given Z", "given s(Z)"])


def _draw_epochs(
    labels: Ints, places: Ints, matches: MatchSource, anchors: int, a: int, seed: int, n: int = 1
) -> Ints:
    """The examples of all batches of n epochs."""
    sizes = {"anchors_per_environment": anchors, "n_matches": a, "seed": seed}
    sampler = BalancedBatchSampler(labels, places, matches, **sizes)
    return np.concatenate([np.asarray(batch) for _ in range(n) for batch in sampler])


# --- Theorem 3.6: a function balances if and only if it is finer than the score -----------------

# p(y | z) of six values of Z and three labels. Values 0 and 1 have one score, and so have 2 and 3;
# values 4 and 5 agree with 2 in the first label alone.
PROPENSITY = np.array(
    [
        [0.6, 0.3, 0.1],
        [0.6, 0.3, 0.1],
        [0.2, 0.5, 0.3],
        [0.2, 0.5, 0.3],
        [0.2, 0.1, 0.7],
        [0.2, 0.3, 0.5],
    ]
)

# Functions b(Z) as codes of the six values.
FUNCTIONS: dict[str, tuple[int, ...]] = {
    "Z itself": (0, 1, 2, 3, 4, 5),
    "finer than s(Z)": (0, 1, 2, 2, 3, 4),
    "s(Z)": (0, 0, 1, 1, 2, 3),
    "one entry of s(Z)": (0, 0, 1, 1, 1, 1),
    "coarser than s(Z)": (0, 0, 1, 1, 0, 0),
    "a constant": (0, 0, 0, 0, 0, 0),
}


def is_finer(function: Ints, propensity: Floats) -> bool:
    """Whether s(Z) is a function of b(Z): equal codes have equal scores.

    >>> is_finer(np.array([0, 0, 1]), np.array([[0.5, 0.5], [0.5, 0.5], [0.9, 0.1]]))
    True
    """
    groups = [propensity[function == code] for code in np.unique(function)]
    return all(np.allclose(group, group[0]) for group in groups)


def conditional_information(joint: Floats, function: Ints) -> float:
    """I(Y; Z | b(Z)) in nats, of a joint distribution [values of Z, labels]."""
    parts = [joint[function == code] for code in np.unique(function)]
    return sum(float(part.sum()) * mutual_information(part) for part in parts)


def examine_functions(n_examples: int, *, seed: int) -> pd.DataFrame:
    """Match on each of `FUNCTIONS` with a = m − 1: a balancing score leaves no I(Y; Z)."""
    generator = np.random.default_rng([seed, 0x36])
    n_values, m = PROPENSITY.shape
    z = generator.integers(n_values, size=n_examples)
    steps = PROPENSITY[z].cumsum(axis=1)
    labels = (generator.random(n_examples)[:, None] > steps).sum(axis=1).clip(max=m - 1)
    before = mutual_information(cross_table(z, labels))
    found = []
    for name, codes in FUNCTIONS.items():
        function, place = np.array(codes), np.zeros_like(labels)
        matches = match_covariate(function[z], labels, place, n_labels=m, generator=generator)
        rows = _draw_epochs(labels, place, matches, 100, m - 1, seed)
        left = mutual_information(cross_table(z[rows], labels[rows]))
        told = conditional_information(PROPENSITY / n_values, function)
        found.append((name, is_finer(function, PROPENSITY), told, left, before))
    columns = ["b(Z)", "finer", "I(Y;Z|b)", "I(Y;Z) in batches", "I(Y;Z) before"]
    return pd.DataFrame(found, columns=columns)


# --- the experiment ----------------------------------------------------------------------------


def list_balance_cases(seed: int, quick: bool) -> list[BalanceCase]:
    """Every a for m = 2, 5, 10 with exact matches; learned scores for the first, middle, last."""
    cases = []
    for m in (2, 5) if quick else LABELS:
        for matching in MATCHINGS:
            learned = matching == LEARNED
            steps = (150 if quick else 600) if learned else 0
            sizes = 8_000 if quick else 20_000, 1 if learned else 4, steps
            every = sorted({1, m // 2, m - 1}) if learned else range(1, m)
            cases += [BalanceCase(m, a, matching, *sizes, seed) for a in every]
    return cases


def judge_balance(records: pd.DataFrame, seed: int, quick: bool) -> Judgement:
    """Whether exact matches follow the formula and exactly the finer functions balance."""
    size = 2_000 if quick else 6_000
    functions, ties = examine_functions(size, seed=seed), examine_ties(size, seed=seed)
    learned = records["matching"] == LEARNED
    shares = records.assign(p_value=records["p_value"].where(~learned).astype(float))
    tables = {
        "labels in batches": shares[list(COLUMNS)].rename(columns=COLUMNS),
        "values of Z that share a score": ties,
        "balancing scores": functions,
    }
    exact, others = records[~learned], records[learned]
    tested = exact["p_value"].dropna().astype(float)
    together = float(combine_pvalues(tested).pvalue)
    full = exact.loc[exact["p_value"].isna(), "largest_gap"].max()
    share = (others["gap"] / others["gap_of_random_batches"]).mean()
    of_first = functions["I(Y;Z) in batches"] / functions["I(Y;Z) before"]
    left, kept = of_first[functions["finer"]].max(), of_first[~functions["finer"]].min()
    holds = bool(together > LEAST_P and full < 1e-9 and left < 0.05 < kept)
    words = (
        f"With exact matches, label shares in batches follow Theorem 3.7 within sampling error for "
        f"every m and a: p = {together:.2f} over all {len(tested)} cases. At a = m − 1 the largest "
        f"gap is {full:.0g}. Learned scores leave {share:.0%} of the gap of random batches. "
        f"Functions finer than s(Z) leave at most {left:.1%} of I(Y;Z) in batches; coarser ones "
        f"leave at least {kept:.0%}, as Theorem 3.6 says."
    )
    return tables, draw_balance(records), holds, words


def draw_balance(records: pd.DataFrame) -> Figure:
    """The mean gap to the formula over a, for each m; grey are random batches."""
    labels = sorted(records["n_labels"].unique())
    figure = Figure(figsize=(3.4 * len(labels) + 1, 3.4), layout="constrained")
    panels = figure.subplots(1, len(labels), squeeze=False, sharey=True)[0]
    for axes, m in zip(panels, labels, strict=True):
        for matching, colour in COLOURS.items():
            own = records[(records["n_labels"] == m) & (records["matching"] == matching)]
            plain = matching == MATCHINGS[0]
            style = "o-" if plain else "s--"
            axes.plot(own["n_matches"], own["gap"], style, color=colour, label=matching)
            if plain:
                before = own["gap_of_random_batches"]
                axes.plot(own["n_matches"], before, "x:", color="#999999", label="random batches")
        axes.set_yscale("symlog", linthresh=1e-3)
        axes.set_ylim(-1e-4, 0.3)
        axes.axhline(0.0, color="black", lw=0.5)
        axes.set_xticks(range(1, m))
        axes.set_title(f"m = {m}")
        axes.set_xlabel("matches a")
    first = figure.axes[0]
    first.set_ylabel("|p̂(Y|Z,E) − formula|, mean")
    first.legend(fontsize=8, title="matched on", loc="center right", bbox_to_anchor=(1.0, 0.4))
    return figure


BALANCE = Experiment("balance", list_balance_cases, measure_balance, judge_balance)
