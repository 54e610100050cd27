"""The verdict says what was seen, and following its advice helps."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from equipoise.balance import Groups, fit_propensity
from equipoise.diagnosis import diagnose_balance, summarise_balance
from equipoise.diagnosis.evidence import Evidence
from equipoise.diagnosis.verdict import decide_verdict, recommend
from equipoise.latent import encode_columns, find_varying


def draw(n, links, seed=0, *, noise=0.8, reverse=False, leak=False):
    """Content, a scanner that agrees with the label as often as `links` says, and noise."""
    rng = np.random.default_rng(seed)
    y, e = rng.integers(2, size=n), rng.integers(len(links), size=n)
    agrees = rng.random(n) < np.array(links)[e]
    scanner = np.where(agrees != reverse, y, 1 - y)
    columns = {
        "fever": y + noise * rng.normal(size=n),
        "scanner": scanner + 0.1 * rng.normal(size=n),
        "age": rng.normal(size=n),
    }
    if leak:  # a code that is written after the label, and not known of new examples
        columns["code"] = rng.integers(2, size=n) * 1.0 if reverse else y * 1.0
    return np.stack(list(columns.values()), axis=1), y, e, list(columns)


def draw_shifted(n, seed=0):
    """Content whose spread differs between sites, and that predicts the label alike in all."""
    rng = np.random.default_rng(seed)
    e = rng.integers(3, size=n)
    s = rng.normal(size=n) * np.array([0.4, 1.0, 2.5])[e]
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * s))).astype(int)
    return np.stack([s, rng.normal(size=n)], axis=1), y, e, ["dose", "age"]


def diagnose(x, y, e, names, *, seed=0, with_x=True):
    features = encode_columns(x, y, e).encode(x, e)
    part = find_varying(features, y, e, rng=np.random.default_rng(seed))
    z = part.coordinates(features.values)
    if len(part):
        scores = fit_propensity(z, y, e, seed=seed).log_scores
    else:
        shares = np.stack([np.bincount(y[e == k], minlength=2) for k in range(e.max() + 1)])
        scores = np.log(shares / shares.sum(axis=1, keepdims=True))[e]
    weights = 1 / np.exp(np.maximum(scores[np.arange(len(y)), y], np.log(0.02)))
    groups = Groups(y, e, ("well", "ill"), tuple(f"site {k}" for k in range(e.max() + 1)))
    return diagnose_balance(
        z, scores, None, groups, weights=weights / weights.mean(), varying=part, features=features,
        columns=dict(zip(names, x.T, strict=True)), x=x if with_x else None, seed=seed,
    )  # fmt: skip


def fit_and_score(found, train, test, weights=None):
    model = LogisticRegression().fit(train[0], train[1], sample_weight=weights)
    return 100 * model.score(test[0], test[1])


@pytest.fixture(scope="module")
def strong():
    return diagnose(*draw(3000, (0.95, 0.85, 0.75)))


@pytest.fixture(scope="module")
def cheap():
    return diagnose(*draw(4000, (0.8, 0.55), noise=0.4))


@pytest.fixture(scope="module")
def nothing():
    return diagnose(*draw(3000, (0.5, 0.5, 0.5)))


def test_a_strong_link_is_a_trade_off_and_both_sides_are_real(strong):
    verdict, train = strong.verdict, draw(3000, (0.95, 0.85, 0.75))
    assert verdict.recommendation == "trade-off"
    assert verdict.state == "removed"
    assert "scanner" in verdict.findings[0]
    assert verdict.headline.startswith("Trade-off: balancing costs about")
    for reverse, predicted in ((False, -verdict.price), (True, verdict.protection)):
        new = draw(9000, (0.95, 0.85, 0.75), seed=1, reverse=reverse)
        gain = fit_and_score(strong, train, new, strong.weights) - fit_and_score(strong, train, new)
        assert gain == pytest.approx(predicted, abs=6)
        assert (gain > 0) == reverse  # so the advice on each side helps


def test_a_link_that_costs_nothing_is_balanced_and_that_helps(cheap):
    assert cheap.verdict.recommendation == "balance"
    assert any("balanced batches" in advice for advice in cheap.verdict.advice)
    train, new = (draw(4000, (0.8, 0.55), s, noise=0.4, reverse=s == 1) for s in (0, 1))
    plain, balanced = (fit_and_score(cheap, train, new, w) for w in (None, cheap.weights))
    assert balanced > plain + 1


def test_nothing_found_in_enough_rows_is_left_as_it_is(nothing):
    assert nothing.verdict.recommendation == "leave as it is"
    assert nothing.verdict.state == "nothing found"
    assert np.isnan(nothing.verdict.price)
    assert nothing.verdict.advice == ("Train on random batches.",)


def test_too_few_rows_say_so_and_as_many_as_asked_for_do():
    few = diagnose(*draw(150, (0.9, 0.8, 0.7))).verdict
    assert few.recommendation == "cannot tell"
    assert "150 rows are too few" in few.headline
    needed = int(few.advice[0].split("about ")[1].split(" rows")[0].replace(",", ""))
    more = diagnose(*draw(needed, (0.9, 0.8, 0.7))).verdict
    assert more.state != "nothing found"


def test_content_that_only_shifts_is_never_balanced_and_random_batches_serve_it_better():
    train, new = draw_shifted(4000), draw_shifted(4000, seed=1)
    found = diagnose(*train)
    assert found.verdict.state == "found, but it may be the label's own content"
    assert found.verdict.recommendation == "leave as it is"
    assert fit_and_score(found, train, new) >= fit_and_score(found, train, new, found.weights)


def test_a_copy_of_the_label_is_named_and_dropping_it_helps():
    links = (0.5, 0.5)
    train, new = (draw(2000, links, s, leak=True, reverse=s == 1) for s in (0, 1))
    verdict = diagnose(*train).verdict
    assert any("Column code gives the label away" in text for text in verdict.findings)
    assert any("Drop code" in advice for advice in verdict.advice)
    kept, dropped = (
        LogisticRegression().fit(train[0][:, :k], train[1]).score(new[0][:, :k], new[1])
        for k in (4, 3)
    )
    assert dropped > kept + 0.1


def test_without_examples_price_and_protection_are_not_known():
    verdict = diagnose(*draw(3000, (0.95, 0.8)), with_x=False).verdict
    assert verdict.recommendation == "cannot tell"
    assert np.isnan(verdict.protection)


def test_one_environment_cannot_be_compared():
    x, y, e, names = draw(600, (0.9, 0.7))
    verdict = diagnose(x, y, np.zeros_like(e), names).verdict
    assert verdict.recommendation == "cannot tell"
    assert verdict.state == "not tested"


def test_labels_that_are_noisier_at_a_site_are_no_reason_to_balance():
    """Every symptom predicts the label less where labels are wrong: content, and it varies."""

    def draw_symptoms(seed, noise):
        rng = np.random.default_rng(seed)
        ill, e = rng.integers(2, size=6000), rng.integers(3, size=6000)
        x = rng.normal(size=(6000, 6))
        x[:, :3] += 0.8 * (2 * ill - 1)[:, None]
        return x, np.where(rng.random(6000) < np.array(noise)[e], 1 - ill, ill), e

    x, y, e = draw_symptoms(0, (0.02, 0.2, 0.35))
    found = diagnose(x, y, e, [f"symptom {k}" for k in range(6)])
    assert found.verdict.recommendation == "leave as it is"
    assert found.verdict.state == "found, but it may be the label's own content"
    assert "own content" in found.verdict.headline
    clean = draw_symptoms(1, (0.0, 0.0, 0.0))
    plain = fit_and_score(found, (x, y), clean)
    assert plain > fit_and_score(found, (x, y), clean, found.weights) + 2


def test_a_column_of_two_values_tells_what_it_tells():
    rng = np.random.default_rng(0)
    y, e = rng.integers(2, size=4000), rng.integers(2, size=4000)
    flag = np.where(rng.random(4000) < np.array([0.95, 0.7])[e], y, 1 - y)
    x = np.stack([flag, y + rng.normal(size=4000)], axis=1)
    table = diagnose(x, y, e, ["flag", "fever"]).information.query("environment == '(pooled)'")
    by_name = table.set_index("variable")["before"]
    entropies = [-(p * np.log(p) + (1 - p) * np.log(1 - p)) for p in (0.95, 0.7)]
    assert by_name["z1"] == pytest.approx(np.log(2) - np.mean(entropies), abs=0.03)


def test_a_price_that_gains_nothing_where_the_link_is_gone_is_not_paid(strong):
    """Rotated digits: what varies is how content looks. Coloured ones: small classifiers gain."""

    def say(even_gain, protection):
        own = replace(
            strong.bargain, price=18.5, price_error=1.0, even_gain=even_gain, even_gain_error=1.0,
            protection=protection, protection_error=2.0,
        )  # fmt: skip
        return recommend(Evidence(None, strong.information, bargain=own, given=True))

    rotated, coloured = say(-2.0, 6.0), say(5.0, 17.0)
    assert rotated[0] == "leave as it is"
    assert "costs about 19 points" in rotated[1]
    assert coloured[0] == "trade-off"


def test_weights_that_do_not_balance_are_not_called_removed(strong):
    x, y, e, _ = draw(3000, (0.95, 0.85, 0.75))
    features = encode_columns(x, y, e).encode(x, e)
    part = find_varying(features, y, e, rng=np.random.default_rng(0))
    z = part.coordinates(features.values)
    scores = fit_propensity(z, y, e, seed=0).log_scores
    groups = strong.groups
    verdict = diagnose_balance(
        z, scores, None, groups, weights=np.ones(3000), varying=part, features=features
    ).verdict
    assert verdict.state == "left"


def test_every_sentence_is_short_and_the_page_ends_in_the_verdict(strong, cheap, nothing):
    for found in (strong, cheap, nothing):
        verdict = found.verdict
        assert len(verdict.headline.split()) <= 30
        for text in (*verdict.findings, *verdict.advice):
            assert max(len(part.split()) for part in text.split(". ")) <= 30
        page = summarise_balance(found)
        assert max(map(len, page.splitlines())) <= 80
        assert "nan" not in page
        words = " ".join(page.split("\n\nVerdict\n")[1].replace("·", "").split())
        assert " ".join(verdict.headline.split()) in words


def test_tables_of_matches_are_empty_without_any_and_of_z_where_nothing_was_found(nothing):
    assert nothing.reuse.empty
    assert nothing.distances.empty
    assert nothing.by_caliper.empty
    assert nothing.situations is None
    assert not (nothing.worst["kind"] == "z").any()


def draw_rare(n, seed=0, *, reverse=False):
    """One label in ten; a scanner goes with it, more in one site than in the other."""
    rng = np.random.default_rng(seed)
    y, e = (rng.random(n) < 0.1).astype(int), rng.integers(2, size=n)
    agrees = rng.random(n) < np.array([0.95, 0.75])[e]
    scanner = np.where(agrees != reverse, y, 1 - y)
    x = np.stack([2.0 * y + rng.normal(size=n), scanner + 0.1 * rng.normal(size=n)], axis=1)
    return x, y, e, ["fever", "scanner"]


def test_weights_that_keep_rare_labels_rare_cost_and_save_what_is_said():
    train, (here, there) = draw_rare(6000), (draw_rare(20_000, 1, reverse=r) for r in (False, True))
    found = diagnose(*train)
    b = found.bargain
    share = np.stack([np.bincount(train[1][train[2] == k], minlength=2) for k in (0, 1)])
    share = share / share.sum(axis=1, keepdims=True)
    kept = found.weights * share[train[2], train[1]]
    for new, predicted in ((here, -b.kept_price), (there, b.kept_protection)):
        gain = fit_and_score(found, train, new, kept) - fit_and_score(found, train, new)
        assert gain == pytest.approx(predicted, abs=2.5)
        assert (gain > 3) == (predicted > 3)  # so the advice helps where the link reverses
    assert b.kept_price < b.price - 2
    assert any("weights_ times the label's frequency" in text for text in found.verdict.advice)
    assert any("keep the labels' frequencies" in text for text in found.verdict.findings)


def test_labels_that_are_about_even_are_not_said_to_be_rare(strong):
    assert np.isnan(strong.bargain.kept_price)
    assert not any("frequencies would" in text for text in strong.verdict.findings)


def test_a_label_of_few_examples_that_carries_the_weight_is_named_and_dropping_it_helps():
    x, y, e, _ = draw(3000, (0.95, 0.85, 0.75))
    y = np.where(np.arange(3000) % 500 == 0, 2, y)  # six examples
    groups = Groups(y, e, ("well", "ill", "unknown"), ("north", "south", "west"))
    scores = np.log(np.full((3000, 3), 1 / 3))
    weights = np.where(y == 2, 500.0, 1.0)
    verdict = diagnose_balance(
        x[:, 1:2], scores, None, groups, weights=weights, x=x, given={"scanner": x[:, 1]}
    ).verdict
    assert any("Few examples have the label unknown." in text for text in verdict.findings)
    assert any("Drop unknown" in text for text in verdict.advice)
    kept, new = y != 2, draw(6000, (0.95, 0.85, 0.75), seed=1)
    weighted, dropped = (
        LogisticRegression().fit(x[rows], y[rows], sample_weight=mass).score(new[0], new[1])
        for rows, mass in ((slice(None), weights), (kept, weights[kept]))
    )
    assert dropped > weighted + 0.05


def test_an_environment_of_one_label_is_named():
    x, y, e, names = draw(2000, (0.95, 0.8))
    e = np.where((y == 1) & (np.arange(2000) % 4 == 0), 2, e)
    found = diagnose(x, y, e, names)
    assert any("One label alone occurs in site 2" in text for text in found.verdict.findings)


def test_where_nobody_can_tell_but_it_costs_nothing_balanced_batches_are_preferred(strong):
    costs = {"price": 0.2, "price_error": 0.5, "protection": 12.0, "protection_error": 9.0}
    uncertain = replace(strong.bargain, even_gain=0.0, even_gain_error=3.0, **costs)
    evidence = Evidence(None, strong.information, bargain=uncertain, given=True)
    verdict = decide_verdict(evidence)
    assert verdict.recommendation == "cannot tell"
    assert verdict.advice[0].startswith("Prefer balanced batches")
    dear = decide_verdict(replace(evidence, bargain=replace(uncertain, price=4.0)))
    assert dear.advice[0].startswith("Train on random batches")
