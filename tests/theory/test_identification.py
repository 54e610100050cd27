"""The fit of the identifiability experiment, small: more environments, more recovered."""

from dataclasses import replace

import numpy as np
import pytest

from equipoise.theory.identification import (
    IdentificationCase,
    list_cases,
    make_scm,
    measure_recovery,
)
from equipoise.theory.run_identifiability import describe_recovery, tabulate_recovery

SMALL = {"n_latents": 2, "n_train": 4000, "n_test": 1500, "steps": 400}


def test_enough_environments_recover_z_its_twin_and_its_score():
    found = measure_recovery(IdentificationCase("enough", "enough", 2, 2, 6, **SMALL))
    assert found["condition_holds"]
    assert found["r2"] > 0.85
    assert found["r2_twin"] == pytest.approx(found["r2"], abs=0.05)
    assert found["mcc"] > 0.93
    assert found["score_distance"] < 0.5 * found["score_distance_constant"]


def test_one_environment_recovers_the_truth_or_its_twin_but_not_both():
    found = measure_recovery(IdentificationCase("pairs", "pairs", 1, 3, 1, **SMALL))
    assert found["condition_holds"]  # as the paper counts: three pairs for n·k = 2
    assert min(found["r2"], found["r2_twin"]) < 0.6


def test_networks_of_their_own_leave_the_labels_unaligned():
    case = IdentificationCase("own", "pairs", 1, 2, 4, "per-label", "per-label", **SMALL)
    found = measure_recovery(replace(case, seed=1))
    assert found["r2"] > 0.85
    assert found["r2_one_map"] < found["r2"] - 0.1


def test_a_plain_vae_has_no_score():
    found = measure_recovery(
        IdentificationCase("vae", "control", 2, 2, 6, networks="plain", **SMALL)
    )
    assert found["score_distance"] is None


def test_the_cases_are_what_their_names_say():
    cases = list_cases(range(2))
    assert len({case.name for case in cases}) * 2 == len(cases)
    for case in cases[:12]:
        needed = case.n_latents * case.statistics + 1
        pairs = case.n_labels * case.n_environments
        holds = make_scm(case).identifiability().holds
        if case.role == "enough":
            assert case.n_environments >= needed
            assert holds
        elif case.role == "pairs":
            assert pairs >= needed
            assert holds
        else:
            assert not holds or case.networks == "plain"


def make_records(r2, twin, score):
    roles = ("enough", "control", "pairs")
    return [
        {
            "case": {"name": f"6 {role}", "role": role, "statistics": 1, "seed": 0},
            "pairs": 6,
            "condition_holds": True,
            "r2": r2[i],
            "r2_twin": twin[i],
            "r2_one_map": r2[i],
            "r2_of_x": 0.5,
            "mcc": 0.7,
            "score_distance_twin": 0.3,
            "score_distance_constant": 0.3,
            "score_distance": score[i],
            "match_loss": 0.1,
        }
        for i, role in enumerate(roles)
    ]


def test_the_verdict_follows_the_numbers():
    good = make_records((0.95, 0.9, 0.93), (0.95, 0.4, 0.5), (0.05, 0.2, 0.2))
    holds, words = describe_recovery(tabulate_recovery(good))
    assert holds
    assert "does not suffice" in words
    assert "0.400" in words
    for bad in (
        make_records((0.8, 0.5, 0.9), (0.8, 0.4, 0.5), (0.05, 0.2, 0.2)),
        make_records((0.95, 0.5, 0.9), (0.95, 0.4, 0.5), (0.2, 0.2, 0.2)),
        make_records((0.95, 0.97, 0.9), (0.95, 0.96, 0.5), (0.05, 0.2, 0.2)),
    ):
        holds, words = describe_recovery(tabulate_recovery(bad))
        assert not holds
        assert words.startswith("Not as promised")
    unsure = make_records((0.95, 0.5, 0.95), (0.95, 0.4, 0.94), (0.05, 0.2, 0.2))
    assert "does not suffice" not in describe_recovery(tabulate_recovery(unsure))[1]


def test_medians_are_taken_over_seeds():
    records = [
        record
        for r2 in (0.9, 0.95, 0.5)
        for record in make_records((r2, 0.5, 0.9), (r2, 0.4, 0.5), (0.05, 0.2, 0.2))
    ]
    table = tabulate_recovery(records)
    assert table["R²"].iloc[0] == pytest.approx(0.9)
    assert len(table) == 3
    assert np.isnan(table["MCC"].astype(float)).all()
