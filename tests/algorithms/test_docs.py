import re
from pathlib import Path

import pytest

from equipoise.algorithms import get_algorithm, list_algorithms, registry

DOCS = Path(__file__).parents[2] / "docs" / "algorithms.md"


def test_every_example_of_the_page_runs_in_the_order_of_the_page(monkeypatch):
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    assert len(blocks) == 3
    names = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), names)
    assert names["last"] < names["first"]
    assert names["averaged_logits"].shape == (16, 10)
    ended, resumed = names["model"].training_state(), names["resumed"].training_state()
    assert ended.values == resumed.values


@pytest.mark.parametrize("name", list_algorithms())
def test_the_table_has_every_algorithm_with_all_its_own_hyperparameters(name):
    (row,) = re.findall(rf"^\| `{name}` \|.*\|$", DOCS.read_text().split("## Where")[0], flags=re.M)
    algorithm = get_algorithm(name)
    assert ("2 environments" in row) == (algorithm.min_environments == 2)
    if name != "CDANN":
        own = set(algorithm.hyperparameters) - set(get_algorithm("ERM").hyperparameters)
        assert all(f"`{hyperparameter}`" in row for hyperparameter in own), own
