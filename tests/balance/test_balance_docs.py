"""The pages on matching, known covariates and inferred environments: their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "name", "length"),
    [
        ("matching.md", "matches", 2_000),
        ("howto/given-covariates.md", "entropy", 2_000),
        ("howto/infer-environments.md", "made", 4_000),
    ],
)
def test_the_examples_of_the_pages_run(page, name, length, capsys):
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert len(names[name]) == length
