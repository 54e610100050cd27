"""What the README shows works as it stands there."""

import re
from pathlib import Path

import torch

from tests.conftest import make_spurious

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_five_lines_run():
    data = make_spurious(n=300)
    names = {
        "X": data.source.x,
        "y": torch.from_numpy(data.labels),
        "environments": data.environments,
    }
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    exec(code, names)
    assert len(names["x_batch"]) == len(names["y_batch"]) == 2 * 32 * 2
    assert torch.bincount(names["y_batch"]).tolist() == [64, 64]


def test_every_link_to_a_file_leads_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_make_targets_it_names_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", README, flags=re.MULTILINE)) <= targets


def test_each_call_of_the_walk_is_in_its_file():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| \d+ \| (.*?) \| `(.*?)` \|", page, flags=re.MULTILINE)
    assert len(rows) == 10
    for calls, file in rows:
        source = (ROOT / "src" / "equipoise" / file).read_text()
        for name in re.findall(r"`(\w+)`", calls):
            assert re.search(rf"(def|class) {name}\b", source), f"{name} is not in {file}"


def test_the_readme_is_a_page_to_land_on():
    assert len(README.split()) < 700
