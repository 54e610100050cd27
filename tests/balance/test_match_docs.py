"""The page on matching says what is true: its examples run."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "matching.md"


def test_the_examples_of_the_page_run():
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["matches"].indices.shape == (2_000, 5, 3)
