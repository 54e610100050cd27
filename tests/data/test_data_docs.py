"""Every example of docs/data.md runs as it stands there."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from equipoise.cli import app
from equipoise.data.published import list_image_benchmarks
from tests.data.image_tree import write_image_tree

PAGE = Path(__file__).parents[2] / "docs" / "data.md"


@pytest.fixture
def _user(tmp_path, monkeypatch):
    """A directory with the files that the page talks of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    write_image_tree("photos", per_class=4)
    rng = np.random.default_rng(0)
    patients = pd.DataFrame({"age": rng.integers(20, 90, 200), "weight": rng.normal(70, 9, 200)})
    patients["ill"] = np.where(rng.random(200) < 0.5, "yes", "no")
    patients["hospital"] = np.array(["north", "south", "west", "east"])[np.arange(200) % 4]
    patients.to_csv("patients.csv", index=False)


def read_blocks(language):
    blocks = [part.split("\n", 1) for part in PAGE.read_text().split("```")[1::2]]
    return [code for written_in, code in blocks if written_in == language]


@pytest.mark.usefixtures("_user")
def test_the_commands_of_the_page_run():
    (backbone,) = [block for block in read_blocks("python") if block.startswith("# backbone.py")]
    Path("backbone.py").write_text(backbone)
    commands = " ".join(read_blocks("")).replace("\\\n", " ").split("equipoise ")[1:]
    # DIR is a user's own; and a dataset must be packed before a run can take it.
    commands = [shlex.split(command) for command in commands if "DIR" not in command]
    for words in sorted(commands, key=lambda words: words[0] == "train"):
        if words[0] == "train":
            words += ["--quiet", "--set", "balancer.max_steps=20"]
        ended = CliRunner().invoke(app, words)
        assert ended.exit_code == 0, (words, ended.output)
    assert {words[0] for words in commands} == {"train", "data"}
    assert len(commands) == 6


def test_the_table_of_published_sets_is_that_of_the_data_file():
    text = PAGE.read_text()
    for name, facts in list_image_benchmarks().items():
        total = sum(facts.counts[0].values())
        row = (
            f"| `{name}` | `{facts.folders[0]}` | {', '.join(facts.environment_names)} | "
            f"{len(facts.classes)} | {total:,} |"
        )
        assert row in text
    assert "24,330" in text
    assert sum(list_image_benchmarks()["TerraIncognita"].counts[1].values()) == 24_330
