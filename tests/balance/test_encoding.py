"""Given covariates become columns, and everything that is left out or pooled is counted."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.balance.encoding import MAX_CATEGORIES, Encoding, check_alignment, find_leaks

RNG = np.random.default_rng(0)


def test_numbers_are_standardised_and_missing_ones_get_an_indicator():
    table = pd.DataFrame({"age": [20.0, 40.0, np.nan, 60.0]})
    made = Encoding.learn(table)
    assert made.columns == ("age", "age missing")
    matrix = made.encode(table)
    assert matrix[:, 1].tolist() == [0, 0, 1, 0]
    assert matrix[2, 0] == 0.0
    assert "1 of 4 values are missing" in made.notes[0]


def test_a_missing_category_is_a_category_of_its_own():
    table = pd.DataFrame({"site": ["a", None, "b", "a"]})
    made = Encoding.learn(table)
    assert made.columns == ("site=a", "site=b", "site missing")
    assert made.encode(table).sum(axis=1).tolist() == [1, 1, 1, 1]


def test_a_covariate_with_one_value_is_left_out_and_said():
    table = pd.DataFrame({"age": RNG.normal(size=9), "planet": ["earth"] * 9})
    made = Encoding.learn(table)
    assert made.columns == ("age",)
    assert made.notes == ("planet: has one value only, left out",)
    with pytest.raises(ValueError, match="no covariate varies: 'planet'"):
        Encoding.learn(table[["planet"]])


def test_an_identifier_is_refused_and_a_number_with_a_value_per_row_is_not():
    names = [f"patient {i}" for i in range(40)]
    with pytest.raises(ValueError, match="'who' has a different value in each of its 40 rows"):
        Encoding.learn(pd.DataFrame({"who": names}))
    assert Encoding.learn(pd.DataFrame({"dose": np.arange(40)})).columns == ("dose",)


def test_ten_thousand_categories_are_pooled_and_counted():
    common = np.repeat([f"c{i}" for i in range(100)], 100)
    rare = np.array([f"r{i}" for i in range(9_900)])
    made = Encoding.learn(pd.DataFrame({"code": np.concatenate([common, rare])}))
    assert len(made.columns) == MAX_CATEGORIES + 1
    assert "9,936 of 10,000 categories are pooled as 'other'" in made.notes[0]
    further = made.encode(pd.DataFrame({"code": ["never seen"]}))
    assert further[0, made.columns.index("code=other")] == 1


def test_categories_that_are_all_rare_are_refused():
    with pytest.raises(ValueError, match="10,000 categories, none with 5 rows"):
        Encoding.learn(pd.DataFrame({"code": np.repeat([f"c{i}" for i in range(10_000)], 2)}))


def test_a_covariate_missing_throughout_an_environment_is_said():
    table = pd.DataFrame({"year": [2001.0, 2002.0, np.nan, np.nan]})
    made = Encoding.learn(table, np.array([0, 0, 7, 7]))
    assert any("missing throughout environment 7" in note for note in made.notes)


def test_rows_that_do_not_belong_together_are_refused():
    with pytest.raises(ValueError, match="covariates have 3 rows, labels 2"):
        check_alignment(np.zeros((3, 1)), [0, 1], 2)
    table = pd.DataFrame({"age": [1.0, 2.0]}, index=[5, 6])
    with pytest.raises(ValueError, match="different indexes"):
        check_alignment(table, pd.Series([0, 1], index=[6, 5]), 2)


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (pd.DataFrame({"age": [1.0, np.inf, 2.0]}), "'age' has 1 infinite values"),
        (np.zeros((2, 2, 2)), r"shape \[N, p\]"),
        (np.zeros((0, 2)), "covariates are empty"),
    ],
)
def test_what_cannot_be_encoded_is_refused(covariates, message):
    with pytest.raises(ValueError, match=message):
        Encoding.learn(covariates)


def test_further_examples_need_the_same_covariates():
    made = Encoding.learn(pd.DataFrame({"age": [1.0, 2.0]}))
    with pytest.raises(ValueError, match="covariate 'age' is missing"):
        made.encode(pd.DataFrame({"Age": [1.0]}))
    with pytest.raises(ValueError, match="'age' is a number, got 'old' in row 0"):
        made.encode(pd.DataFrame({"age": ["old"]}))


def test_the_state_survives_json():
    table = pd.DataFrame({"age": [20.0, None, 60.0], "sex": ["f", "m", None]})
    made = Encoding.learn(table)
    again = Encoding.from_state(json.loads(json.dumps(made.state())))
    assert again == made
    np.testing.assert_array_equal(again.encode(table), made.encode(table))


def test_a_covariate_that_follows_from_the_label_is_found():
    labels = RNG.integers(0, 3, 600)
    table = pd.DataFrame(
        {
            "group": np.where(labels == 2, "high", "low"),  # a function of the label, not 1:1
            "marker": labels + RNG.normal(scale=0.05, size=600),  # predicts it
            "age": RNG.normal(size=600),
        }
    )
    found = find_leaks(table, labels)
    assert found[0] == "'group' is a function of the label"
    assert found[1].startswith("'marker' predicts the label for")
    assert len(found) == 2
