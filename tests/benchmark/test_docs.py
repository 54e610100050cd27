import re
from pathlib import Path

from equipoise.benchmark import RECIPES, SAMPLINGS, SELECTIONS

PAGE = Path(__file__).parents[2] / "docs" / "runs.md"


def test_every_example_of_the_page_runs_in_the_order_of_the_page():
    names = {"__name__": "docs"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["probabilities"].shape == (900, 2)
    assert [record.step for record in names["records"]] == [10, 20]


def test_the_page_names_every_sampling_rule_and_profile():
    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in (*SAMPLINGS, *SELECTIONS, *RECIPES))
