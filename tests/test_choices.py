"""A misspelt name is answered with the nearest."""

import pytest

from equipoise.choices import check_choice


def test_known_names_pass_and_unknown_ones_are_answered():
    assert check_choice("metric", "kl", ["kl", "l1"]) == "kl"
    with pytest.raises(ValueError, match=r"unknown metric 'KL'. Did you mean 'kl'\? Known: kl, l1"):
        check_choice("metric", "KL", ["kl", "l1"])
    with pytest.raises(ValueError, match=r"unknown metric 'zzzz'\. Known: kl"):
        check_choice("metric", "zzzz", ["kl"])
