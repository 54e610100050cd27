"""What exhibits say in words follows from the numbers, whichever way these turn out."""

import pytest

from equipoise.benchmark import Record
from equipoise.benchmark.selection import FinishedRun
from equipoise.benchmark.tables import Cell, Row
from equipoise.exhibits.comparisons import measure_shortfalls
from equipoise.exhibits.figures import tell_degree, tell_matches, tell_slope


def row(*means, name="balanced"):
    return Row((name,), tuple(Cell(float(mean), None, 3) for mean in means))


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ((20, 50, 70), "Confirmed: the more is balanced"),
        ((20, 70, 60), "Confirmed in the main"),
        ((70, 50, 20), "Not confirmed"),
    ],
)
def test_balancing_helps_or_it_does_not(means, verdict):
    assert tell_degree(row(*means), ("0", "0.5", "1")).startswith(verdict)


@pytest.mark.parametrize(
    ("means", "verdict"),
    [
        ((60, 72, 70), "Confirmed: accuracy first rises with a and then falls"),
        ((60, 71.8, 72), "Confirmed that accuracy first rises with a; it does not fall"),
        ((72, 71, 70), "Not confirmed"),
    ],
)
def test_more_matches_help_or_they_do_not(means, verdict):
    assert tell_matches(row(*means), ("1", "4", "9")).startswith(verdict)


@pytest.mark.parametrize(
    ("name", "means", "verdict"),
    [
        ("random", (87, 50, 22), "Confirmed: with random batches accuracy falls"),
        ("random", (72, 72, 72), "Not confirmed"),
        ("balanced", (72, 72.2, 72.1), "Confirmed: with balanced batches accuracy stays"),
        ("balanced", (80, 70, 60), "Not confirmed"),
    ],
)
def test_accuracy_falls_with_the_test_environment_or_stays(name, means, verdict):
    assert tell_slope(row(*means, name=name)).startswith(verdict)


def run(sampling, checkpoints):
    """Checkpoints as (validation, balanced validation, out of domain)."""
    return FinishedRun(
        dataset="d",
        algorithm="ERM",
        sampling=sampling,
        test_environment="t",
        validation_environment=None,
        seed=0,
        hyperparameters={},
        records=tuple(
            Record(step, 1.0, {}, {}, {}, plain, balanced, ood, ood)
            for step, (plain, balanced, ood) in enumerate(checkpoints)
        ),
    )


def test_the_shortfall_is_what_the_choice_lacks_to_the_best_checkpoint():
    runs = [
        run("random", [(0.8, 0.2, 0.25), (0.9, 0.3, 0.2)]),
        run("balanced", [(0.7, 0.7, 0.72), (0.71, 0.6, 0.6)]),
    ]
    found = {
        (each.sampling, each.selection): round(each.shortfall, 6)
        for each in measure_shortfalls(runs).itertuples()
    }
    assert found == {
        ("random", "balanced"): 5.0,
        ("random", "train-domain"): 5.0,
        ("balanced", "balanced"): 0.0,
        ("balanced", "train-domain"): 12.0,
        ("either", "balanced"): 0.0,
        ("either", "train-domain"): 52.0,
    }


def test_a_fall_within_the_error_over_seeds_is_none():
    def curve(spread):
        return Row(("balanced",), tuple(Cell(mean, spread, 3) for mean in (60.0, 72.0, 71.0)))

    columns = ("1", "4", "9")
    assert "then falls a little" in tell_matches(curve(0.3), columns)
    noisy = tell_matches(curve(1.2), columns)
    assert "does not fall at large a" in noisy
    assert "standard error of the difference 1.0" in noisy
