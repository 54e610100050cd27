"""What pip installs: few dependencies, extras by name, nothing imported before it is needed."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from equipoise.checks import require

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]

BLOCK = """
import sys
OPTIONAL = {"matplotlib", "rich", "typer", "yaml", "PIL", "pyarrow", "lightning", "polars", "faiss"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_at_most_seven_packages_are_needed():
    assert len(PROJECT["dependencies"]) <= 7


def test_the_version_stands_in_one_place():
    assert "version" in PROJECT["dynamic"]
    assert "version:" not in (ROOT / "CITATION.cff").read_text().replace("cff-version:", "")


def test_on_the_package_index_every_link_of_the_readme_is_absolute():
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    (rule,) = hook["substitutions"]
    text = re.sub(rule["pattern"], rule["replacement"], (ROOT / "README.md").read_text())
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert all(link.startswith(PROJECT["urls"]["Source"] + "/") for link in links)


def test_the_address_of_the_project_stands_in_one_file():
    address = PROJECT["urls"]["Source"]
    for name in ("README.md", "CITATION.cff", "mkdocs.yml"):
        assert address not in (ROOT / name).read_text()


def test_the_package_itself_imports_nothing():
    code = "import equipoise, sys; assert not {'torch', 'numpy', 'pandas'} & set(sys.modules)"
    assert run(code) == (0, "")


#: Slow to import and needed by few: loaded where they are used.
LATE = {
    "matplotlib",
    "rich",
    "PIL",
    "yaml",
    "sklearn.linear_model",
    "sklearn.tree",
    "sklearn.ensemble",
    "sklearn.decomposition",
    "sklearn.neighbors",
    "equipoise.diagnosis",
    "equipoise.report",
}


def test_importing_the_balancer_imports_the_base_of_scikit_learn_and_not_torch():
    code = "from equipoise import CausalBalancer; import sys; print(*sys.modules)"
    status, said = run(code)
    assert status == 0
    loaded = set(said.split())
    assert "sklearn.base" in loaded
    assert not loaded & (LATE | {"torch", "safetensors"})
    assert {name for name in loaded if name.startswith("equipoise.")} == {"equipoise.balancer"}


def test_what_fits_and_saves_imports_torch_and_nothing_slow_beside():
    parts = ("examining", "balancer_checks", "balancer_files")
    imports = "".join(f"import equipoise.{part}\n" for part in parts)
    status, said = run(f"{imports}import sys; print(*sys.modules)")
    assert status == 0
    assert "torch" in said.split()
    assert not LATE & set(said.split())


FIT = """
import numpy as np
from equipoise import CausalBalancer
rng = np.random.default_rng(0)
y, site = rng.integers(2, size=120), rng.integers(2, size=120)
X = rng.normal(size=(120, 3)) + y[:, None]
balancer = CausalBalancer(random_state=0).fit(X, y, site)
assert len(next(iter(balancer.batch_sampler(8)))) == 32
balancer.diagnose()
"""


@pytest.mark.slow
def test_fit_batches_and_diagnosis_need_no_extra():
    assert run(BLOCK + FIT) == (0, "")


NEEDED = {
    "equipoise.report": "report",
    "equipoise.theory": "report",
    "equipoise.exhibits": "report",
    "equipoise.benchmark": "cli",
    "equipoise.cli": "cli",
    "equipoise.lightning": "lightning",
}


@pytest.mark.parametrize("room", NEEDED)
def test_a_room_without_its_packages_names_the_extra(room):
    code, said = run(f"{BLOCK}import {room}")
    assert code == 1
    assert f"pip install 'equipoise[{NEEDED[room]}]'" in said
    assert NEEDED[room] in PROJECT["optional-dependencies"]


OPENED = {
    "photos": "images",
    "photos.csv": "images",
    "patients.parquet": "tables",
}


@pytest.mark.parametrize("name", OPENED)
def test_a_file_that_needs_an_extra_names_it(tmp_path, name):
    picture = tmp_path / "photos" / "rome" / "cat" / "1.png"
    picture.parent.mkdir(parents=True)
    picture.touch()
    (tmp_path / "photos.csv").write_text(f"file,label,environment\n{picture},cat,rome\n")
    (tmp_path / "patients.parquet").touch()
    path = ", path='file'" if name == "photos.csv" else ""
    opened = f"open_dataset({str(tmp_path / name)!r}{path})"
    code, said = run(f"{BLOCK}from equipoise.data import open_dataset\n{opened}")
    assert code == 1
    assert f"pip install 'equipoise[{OPENED[name]}]'" in said


def test_the_command_without_its_packages_ends_in_a_sentence():
    code, said = run(f"{BLOCK}from equipoise.__main__ import main; main()")
    assert code == 2
    assert said == (
        "error: this needs typer, which is not installed: pip install 'equipoise[cli]'\n"
    )


def test_require_gives_the_module_or_names_the_extra():
    assert require("json", extra="tables").loads("1") == 1
    with pytest.raises(ImportError, match=r"needs nowhere, .* pip install 'equipoise\[tables\]'"):
        require("nowhere.at.all", extra="tables")
