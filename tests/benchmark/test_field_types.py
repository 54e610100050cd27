import pytest

from equipoise.benchmark.field_types import check_type

INTS = tuple[int, ...]


@pytest.mark.parametrize(
    ("value", "declared"),
    [(3, int), (3, float), (0.5, float), (None, int | None), ([1, 2], INTS | None), (False, bool)],
)
def test_a_value_of_the_declared_type_passes(value, declared):
    check_type("it", value, declared)


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (True, int, "a whole number"),
        (True, float, "a number"),
        (3.0, int | None, "a whole number or none"),
        (float("inf"), float, "a number"),
        ([1, 2.5], INTS, "a list, each entry a whole number"),
        (1, bool, "true or false"),
        (None, str, "a text"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words(value, declared, expected):
    with pytest.raises(ValueError, match=f"^it must be {expected}, got"):
        check_type("it", value, declared)
