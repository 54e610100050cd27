"""A wrong parameter is named, with what was seen and what was expected."""

import math

import numpy as np
import pytest
import torch

from equipoise import checks
from equipoise.checks import (
    check_choice,
    check_count,
    check_device,
    check_flag,
    check_memory,
    check_number,
    check_seed,
    check_text,
    check_type,
    show,
)


def test_known_names_pass_and_unknown_ones_are_answered():
    assert check_choice("metric", "kl", ["kl", "l1"]) == "kl"
    with pytest.raises(ValueError, match=r"unknown metric 'KL'. Did you mean 'kl'\? Known: kl, l1"):
        check_choice("metric", "KL", ["kl", "l1"])
    with pytest.raises(ValueError, match=r"unknown metric 'zzzz'\. Known: kl"):
        check_choice("metric", "zzzz", ["kl"])


@pytest.mark.parametrize("value", [None, 3, ["kl"], np.array(["kl", "l1"]), b"kl", "x" * 10**6])
def test_a_choice_that_is_no_name_is_a_short_sentence(value):
    with pytest.raises(ValueError, match="unknown metric") as caught:
        check_choice("metric", value, ["kl", "l1"])
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [1, 7, np.int64(7), np.uint8(7), 10**9])
def test_whole_numbers_within_bounds_are_counts(value):
    found = check_count("n_nearest", value)
    assert found == value
    assert type(found) is int


@pytest.mark.parametrize("value", [1.0, True, "3", None, [1], np.array([1, 2]), math.nan])
def test_what_is_no_whole_number_is_a_type_error_that_names_the_parameter(value):
    with pytest.raises(TypeError, match=r"^n_nearest must be a whole number, got "):
        check_count("n_nearest", value)


@pytest.mark.parametrize(
    "value", [0, -1, 10**9 + 1, 10**20, 1 << 20000], ids=lambda v: str(v.bit_length())
)
def test_counts_out_of_bounds_are_a_value_error_that_names_the_parameter(value):
    with pytest.raises(ValueError, match=r"^n_nearest must be at (least 1|most 1,000,000,000)"):
        check_count("n_nearest", value)


def test_numbers_are_finite_and_within_bounds():
    assert check_number("caliper", 1) == 1.0
    assert check_number("caliper", np.float32(0.5), least=0, most=1) == 0.5
    for value in (math.inf, -math.inf, math.nan, 10**400):
        with pytest.raises(ValueError, match=r"^caliper must be finite"):
            check_number("caliper", value)
    for value in ("1", None, True, [1.0], 1j):
        with pytest.raises(TypeError, match=r"^caliper must be a number"):
            check_number("caliper", value)
    with pytest.raises(ValueError, match=r"^caliper must be above 0, got 0"):
        check_number("caliper", 0, above=0)
    with pytest.raises(ValueError, match=r"^caliper must be at most 1, got 2"):
        check_number("caliper", 2, most=1)
    with pytest.raises(ValueError, match=r"^caliper must be at least 0, got -1"):
        check_number("caliper", -1, least=0)


def test_seeds_flags_texts_and_types():
    assert check_seed("seed", np.int32(3)) == 3
    with pytest.raises(TypeError, match=r"^seed must be a whole number, got 1\.5"):
        check_seed("seed", 1.5)
    with pytest.raises(ValueError, match=r"^seed must be at most"):
        check_seed("seed", 2**32)
    assert check_flag("replace", np.bool_(True)) is True
    with pytest.raises(TypeError, match=r"^replace must be True or False, got 1"):
        check_flag("replace", 1)
    assert check_text("label", "ill") == "ill"
    with pytest.raises(ValueError, match=r"^label must not be empty"):
        check_text("label", "")
    with pytest.raises(TypeError, match=r"^label must be text, got 0"):
        check_text("label", 0)
    generator = torch.Generator()
    assert check_type("generator", generator, (torch.Generator, type(None))) is generator
    with pytest.raises(TypeError, match=r"^generator must be a torch\.Generator or None, got 0"):
        check_type("generator", 0, (torch.Generator, type(None)))


def test_a_device_is_one_of_this_machine():
    assert check_device("device", "cpu") == torch.device("cpu")
    for value in ("abc", "cpu:-3", "cuda:99", ""):
        with pytest.raises(ValueError, match=r"^device must be a device of this machine"):
            check_device("device", value)
    for value in (0, None, 1.5):
        with pytest.raises(TypeError, match=r"^device must be the name of a device"):
            check_device("device", value)


def test_memory_is_refused_with_the_estimate(monkeypatch):
    monkeypatch.setattr(checks, "measure_free_memory", lambda: 4e9)
    check_memory("the scores", 3e9)
    with pytest.raises(
        ValueError, match=r"scores would take about 86\.0 GB .* 4\.0 GB are free: x"
    ):
        check_memory("the scores", 86e9, hint="x")


def test_any_value_can_be_shown():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    assert show(Rude()) == "a Rude"
    assert len(show(np.zeros((100, 100)))) <= 80
    assert show(10**5000) == "a number of 16610 bits"
