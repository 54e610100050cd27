"""A column that behaves as what is spurious does and is not in Z must not go unnoticed."""

import numpy as np

from equipoise.balance import match_scores
from equipoise.balance.groups import Groups
from equipoise.diagnosis.diagnostics import diagnose_balance


def diagnose(*, sees_device, links=(0.95, 0.85, 0.7), n=3000):
    """A dose that tells of the label alike everywhere, and a device that does not."""
    rng = np.random.default_rng(0)
    labels, sites = rng.integers(2, size=n), rng.integers(3, size=n)
    device = np.where(rng.random(n) < np.array(links)[sites], labels, 1 - labels) * 1.0
    dose = labels + rng.normal(size=n)
    chance = np.array(links)[sites]
    by_device = (2 * device - 1) * np.log(chance / (1 - chance))
    odds = by_device if sees_device else dose - 0.5
    scores = np.stack([-np.logaddexp(0, odds), -np.logaddexp(0, -odds)], axis=1)
    matches = match_scores(scores, labels, sites, n_nearest=5)
    z = (device + 0.1 * rng.normal(size=n) if sees_device else dose)[:, None]
    groups = Groups(labels, sites, ("healthy", "ill"), ("nord", "ost", "west"))
    return diagnose_balance(z, scores, matches, groups, features={"device": device, "dose": dose})


def test_a_varying_column_outside_z_is_named_and_nothing_is_called_removed():
    verdict = diagnose(sees_device=False).verdict
    assert verdict.level in ("reduced", "left")
    assert "device still differs" in verdict.headline
    assert "Between environments device tells" in str(verdict)
    assert any("latent_dim=2, now 1" in advice for advice in verdict.advice)
    assert not any("smaller latent size" in advice for advice in verdict.advice)


def test_what_is_evened_out_or_goes_with_the_label_alike_everywhere_raises_no_alarm():
    seen = diagnose(sees_device=True)
    assert "missed" not in seen.verdict.headline
    alike = diagnose(sees_device=False, links=(0.8, 0.8, 0.8))
    assert "missed" not in alike.verdict.headline
