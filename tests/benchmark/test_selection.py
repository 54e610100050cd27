import pytest

from equipoise.benchmark import SELECTIONS, Record
from equipoise.benchmark.selection import RULES, FinishedRun, Trial, select_runs


def brief(step, validation, balanced, ood=0.0):
    return Record(step, 1.0, {}, {}, {}, validation, balanced, ood, ood)


RECORDS = [brief(10, 0.6, 0.5), brief(20, 0.8, 0.4), brief(30, 0.8, 0.7), brief(40, 0.7, 0.1)]


@pytest.mark.parametrize(
    ("rule", "step"), [("train-domain", 20), ("balanced", 30), ("test-domain", 40)]
)
def test_each_rule_chooses_the_first_of_its_best(rule, step):
    assert SELECTIONS[rule]().select(RECORDS).step == step


@pytest.mark.parametrize("rule", ["train-domain", "balanced"])
def test_no_rule_but_the_oracle_looks_at_the_test_environment(rule):
    changed = [
        brief(r.step, r.validation_accuracy, r.balanced_validation_accuracy, 0.9) for r in RECORDS
    ]
    assert SELECTIONS[rule]().select(changed).step == SELECTIONS[rule]().select(RECORDS).step


@pytest.mark.parametrize("missing", [float("nan"), None])
def test_a_balanced_accuracy_that_is_not_known_is_never_chosen(missing):
    some = [brief(10, 0.6, missing), *RECORDS[1:]]
    assert SELECTIONS["balanced"]().select(some).step == 30
    none = [brief(r.step, r.validation_accuracy, missing) for r in RECORDS]
    with pytest.raises(ValueError, match="no record has an accuracy for this rule"):
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


NAMES = ("north", "east", "south")


def record(step, *, train=None, validation=0.5, balanced=None, ood=0.0, held_out=0.0):
    accuracies = dict.fromkeys(NAMES, 0.5) | (train or {})
    return Record(step, 1.0, {}, accuracies, accuracies, validation, balanced, ood, held_out)


def run(records, **changes):
    given = {
        "dataset": "tiny",
        "algorithm": "ERM",
        "sampling": "random",
        "test_environment": "south",
        "validation_environment": None,
        "seed": 0,
        "hyperparameters": {"lr": 0.1},
        "settings": {"steps": 20},
    }
    return FinishedRun(records=tuple(records), **{**given, **changes})


FIRST = run([record(10, validation=0.8, balanced=0.3, ood=0.2, held_out=0.9), record(20, ood=0.1)])
SECOND = run(
    [
        record(10, validation=0.7, balanced=0.6, ood=0.5),
        record(20, validation=0.6, balanced=0.7, ood=0.6, held_out=0.2),
    ],
    hyperparameters={"lr": 0.2},
)


@pytest.mark.parametrize(
    ("rule", "accuracy", "rate"),
    [("train-domain", 0.2, 0.1), ("balanced", 0.6, 0.2), ("test-domain", 0.6, 0.2)],
)
def test_a_rule_chooses_hyperparameters_and_checkpoint_together(rule, accuracy, rate):
    (chosen,) = select_runs([FIRST, SECOND], [rule])
    assert (chosen.ood_accuracy, chosen.hyperparameters["lr"]) == (accuracy, rate)


def test_the_oracle_compares_runs_at_their_last_checkpoint_on_held_out_test_data():
    # At step 10 the first run is the better one, but the oracle may not look there.
    (chosen,) = select_runs([FIRST, SECOND], ["test-domain"])
    assert chosen.step == 20


def pair(other, first, second, **changes):
    """Without south and `other`: accuracy on `other` at the two checkpoints."""
    records = [record(10, train={other: first}), record(20, train={other: second})]
    return run(records, validation_environment=other, **changes)


def test_leave_one_domain_out_averages_over_the_environments_left_out_beside():
    single = run([record(10, ood=0.3), record(20, ood=0.4)])
    companions = [pair("north", 0.9, 0.8), pair("east", 0.1, 0.6)]
    (chosen,) = select_runs([single, *companions], ["leave-one-domain-out"])
    assert (chosen.step, chosen.ood_accuracy) == (20, 0.4)


def test_a_pair_serves_both_of_its_environments():
    south = run([record(10, ood=0.3)])
    north = run([record(10, ood=0.2)], test_environment="north")
    pairs = [
        pair("north", 0.9, 0.9),
        pair("east", 0.9, 0.9),
        pair("east", 0.9, 0.9, test_environment="north"),
    ]
    chosen = select_runs([south, north, *pairs], ["leave-one-domain-out"])
    assert {each.test_environment for each in chosen} == {"south", "north"}


def test_leave_one_domain_out_needs_every_pair_of_the_same_hyperparameters():
    single = run([record(10)])
    lacking = [pair("north", 0.9, 0.9), pair("east", 0.9, 0.9, hyperparameters={"lr": 9})]
    assert select_runs([single, *lacking], ["leave-one-domain-out"]) == []


def test_runs_with_two_environments_left_out_are_no_results_themselves():
    assert select_runs([pair("north", 0.9, 0.9)], list(RULES)) == []


def test_a_rule_without_its_data_gives_no_number():
    assert select_runs([run([record(10)])], ["balanced"]) == []


def test_runs_that_differ_in_more_than_hyperparameters_do_not_compare():
    longer = run([record(10)], settings={"steps": 30})
    with pytest.raises(ValueError, match=r"differ in steps \(20 and 30\)"):
        select_runs([FIRST, longer], ["train-domain"])
    told_apart = select_runs([FIRST, longer], ["train-domain"], by=["steps"])
    assert [each.by["steps"] for each in told_apart] == [20, 30]
    with pytest.raises(ValueError, match="Did you mean 'steps'"):
        select_runs([FIRST], ["train-domain"], by=["step"])


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="Did you mean 'balanced'"):
        select_runs([FIRST], ["balancd"])
