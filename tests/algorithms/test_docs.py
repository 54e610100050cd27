import re
from pathlib import Path

import pytest

from equipoise.algorithms import get_algorithm, list_algorithms

DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"


@pytest.mark.parametrize("name", list_algorithms())
def test_the_table_has_every_algorithm_with_all_its_own_hyperparameters(name):
    (row,) = re.findall(rf"^\| `{name}` \|.*\|$", DOCS.read_text().split("## Where")[0], flags=re.M)
    algorithm = get_algorithm(name)
    assert ("2 environments" in row) == (algorithm.min_environments == 2)
    if name != "CDANN":
        own = set(algorithm.hyperparameters) - set(get_algorithm("ERM").hyperparameters)
        assert all(f"`{hyperparameter}`" in row for hyperparameter in own), own
