import re
from pathlib import Path

from equipoise.benchmark import RECIPES, RULES, SELECTIONS
from equipoise.benchmark.settings import SAMPLINGS
from equipoise.benchmark.sweep_file import KEYS, parse_sweep
from equipoise.exhibits import EXHIBITS

RUNS = Path(__file__).parents[2] / "docs" / "runs.md"
BENCHMARK = Path(__file__).parents[2] / "docs" / "benchmark.md"


def test_the_page_names_every_sampling_rule_and_profile():
    text = RUNS.read_text()
    assert all(f"`{name}`" in text for name in (*SAMPLINGS, *SELECTIONS, *RECIPES))


def test_the_sweep_on_the_page_is_one_and_names_every_key():
    (text,) = re.findall(r"```yaml\n(.*?)```", BENCHMARK.read_text(), flags=re.DOTALL)
    spec = parse_sweep(text)
    assert spec.seeds == (0, 1, 2)
    assert spec.settings["hyperparameters"] == {"weight_decay": 0.01}
    assert all(re.search(rf"^{key}:", text, flags=re.MULTILINE) for key in KEYS)


def test_the_page_names_every_rule_and_exhibit():
    text = BENCHMARK.read_text()
    assert all(f"`{name}`" in text for name in (*RULES, *EXHIBITS))
