import pytest

from equipoise.benchmark.recipes import parse_choices


def test_names_go_where_they_belong():
    assert parse_choices(
        ["lr=0.1", "optimizer=adamw", "schedule=cosine", "weight_average=null"]
    ) == {
        "hyperparameters": {"lr": 0.1, "optimizer": "adamw"},
        "balancer": {},
        "schedule": "cosine",
        "weight_average": None,
    }


@pytest.mark.parametrize("choice", ["lr", "=1", ""])
def test_what_is_no_choice_is_refused(choice):
    with pytest.raises(ValueError, match="expected name=value"):
        parse_choices([choice])


def test_what_has_an_option_is_not_set_twice():
    with pytest.raises(ValueError, match="seed cannot be set"):
        parse_choices(["seed=1"])
