import pytest

from equipoise.benchmark import SELECTIONS, Record
from equipoise.benchmark.trials import FinishedRun, Trial


def record(step, validation, balanced, ood=0.0):
    return Record(step, 1.0, {}, {}, {}, validation, balanced, ood, ood)


RECORDS = [record(10, 0.6, 0.5), record(20, 0.8, 0.4), record(30, 0.8, 0.7), record(40, 0.7, 0.1)]


@pytest.mark.parametrize(
    ("rule", "step"), [("train-domain", 20), ("balanced", 30), ("test-domain", 40)]
)
def test_each_rule_chooses_the_first_of_its_best(rule, step):
    assert SELECTIONS[rule]().select(RECORDS).step == step


@pytest.mark.parametrize("rule", ["train-domain", "balanced"])
def test_no_rule_but_the_oracle_looks_at_the_test_environment(rule):
    changed = [
        record(r.step, r.validation_accuracy, r.balanced_validation_accuracy, 0.9) for r in RECORDS
    ]
    assert SELECTIONS[rule]().select(changed).step == SELECTIONS[rule]().select(RECORDS).step


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_a_balanced_accuracy_that_is_not_known_is_never_chosen(missing):
    some = [record(10, 0.6, missing), *RECORDS[1:]]
    assert SELECTIONS["balanced"]().select(some).step == 30
    none = [record(r.step, r.validation_accuracy, missing) for r in RECORDS]
    with pytest.raises(ValueError, match="no record has a balanced validation accuracy"):
        SELECTIONS["balanced"]().select(none)
    run = FinishedRun(
        dataset="tiny",
        algorithm="ERM",
        sampling="random",
        test_environment="south",
        validation_environment=None,
        seed=0,
        hyperparameters={},
        records=tuple(none),
    )
    assert SELECTIONS["balanced"]().judge(Trial(run)) is None
    assert SELECTIONS["train-domain"]().judge(Trial(run)).score == 0.8


def test_every_rule_says_in_a_line_what_it_is():
    assert all(
        (rule.__doc__ or "").count("\n") == 0 and rule.__doc__ for rule in SELECTIONS.values()
    )
