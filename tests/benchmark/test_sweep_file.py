import pytest

from equipoise.benchmark import plan_sweep
from equipoise.benchmark.sweep_file import parse_sweep, read_sweep

GOOD = """\
datasets: [ColoredMNIST, ColoredMNIST10]
algorithms: [ERM, IRM]
samplings: [random, balanced]
test_environments: {ColoredMNIST: [0.9], ColoredMNIST10: [2]}
seeds: 3
draws: 2
profile: quick
settings:
  steps: 100
  balancer: {max_steps: 50}
hyperparameters:
  lr: 1e-3
adjust:
  - only: {algorithm: IRM}
    hyperparameters: {irm_lambda: 10}
    settings: {steps: 200}
leave_one_domain_out: true
"""


def test_a_sweep_file_says_all_that_a_sweep_has():
    spec = parse_sweep(GOOD)
    assert spec.datasets == ("ColoredMNIST", "ColoredMNIST10")
    assert spec.test_environments == {"ColoredMNIST": (0.9,), "ColoredMNIST10": (2,)}
    assert spec.seeds == (0, 1, 2)
    assert spec.settings["hyperparameters"] == {"lr": 0.001}  # a number, as nobody doubts
    assert spec.adjustments[0].settings == {"steps": 200, "hyperparameters": {"irm_lambda": 10}}
    assert spec.leave_one_domain_out


BAD = {
    "a key": ("seeds: 3", "seed: 3", 5, "unknown key 'seed'. Did you mean 'seeds'?"),
    "a dataset": ("[ColoredMNIST, Col", "[ColourMNIST, Col", 1, "Did you mean 'ColoredMNIST'?"),
    "an algorithm": ("[ERM, IRM]", "[ERM, IRN]", 2, "Did you mean 'IRM'?"),
    "a sampling": ("[random, bal", "[radnom, bal", 3, "Did you mean 'random'?"),
    "a profile": ("quick", "quikc", 7, "Did you mean 'quick'?"),
    "a setting": ("  steps: 100", "  setps: 100", 9, "Did you mean 'steps'?"),
    "a hyperparameter": ("  lr:", "  learning_rat:", 12, "unknown hyperparameter"),
    "a condition": ("{algorithm: IRM}", "{algorithn: IRM}", 14, "Did you mean 'algorithm'?"),
    "a key of adjust": ("- only:", "- olny:", 14, "Did you mean 'only'?"),
    "an adjusted hyperparameter": ("irm_lambda", "irm_lamda", 15, "Did you mean 'irm_lambda'?"),
    "a dataset of environments": (
        *("ColoredMNIST10: [2]", "RotatedMNIST: [2]", 4),
        "unknown dataset of this sweep 'RotatedMNIST'",
    ),
    "a setting's value": ("  steps: 100", "  steps: -1", 9, "steps must be at least 1"),
    "a hyperparameter's value": ("lr: 1e-3", "lr: fast", 12, "lr of ERM must be a number"),
    "a hyperparameter of some": ("  lr: 1e-3", "  irm_lambda: 1", 12, "hyperparameter of ERM"),
    "the type of a number": ("draws: 2", "draws: two", 6, "draws must be a whole number"),
    "a negative number of seeds": ("seeds: 3", "seeds: -1", 5, "at least 1"),
    "a key given twice": ("draws: 2", "seeds: 2", 6, "seeds stands here a second time"),
    "broken YAML": ("[ERM, IRM]", "[ERM, IRM", 3, "not readable as YAML"),
}


@pytest.mark.parametrize(("right", "wrong", "line", "message"), BAD.values(), ids=BAD.keys())
def test_a_mistake_is_told_with_its_line(right, wrong, line, message):
    with pytest.raises(ValueError, match=f"^sweep, line {line}: ") as told:
        parse_sweep(GOOD.replace(right, wrong, 1))
    assert message in str(told.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("algorithms: ERM", "datasets is missing"),
        ("[ERM]", "a sweep file is a mapping"),
        ("datasets: ColoredMNIST\nalgorithms: []", "line 2: algorithms is empty"),
    ],
)
def test_what_is_missing_is_told(text, message):
    with pytest.raises(ValueError, match=message):
        parse_sweep(text)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="no sweep file"):
        read_sweep(tmp_path / "no.yaml")


def test_algorithms_of_ones_own_are_known_once_imported(tmp_path):
    (tmp_path / "own_rules.py").write_text(
        "from equipoise.algorithms import ERM\n\n\nclass OwnRuleOfThisTest(ERM):\n"
        '    """ERM by another name."""\n'
    )
    file = tmp_path / "own.yaml"
    file.write_text(
        "datasets: ColoredMNIST\nalgorithms: OwnRuleOfThisTest\nimports: own_rules.py\n"
    )
    assert read_sweep(file).algorithms == ("OwnRuleOfThisTest",)
    file.write_text("datasets: ColoredMNIST\nalgorithms: ERM\nimports: gone.py\n")
    with pytest.raises(ValueError, match=r"line 3: .*no such file"):
        read_sweep(file)


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "an unknown tag": ("seeds: !!python/object/apply:os.system [true]", "line 3"),
    "another unknown tag": ("seeds: !secret 3", "line 3: could not determine"),
    "a control character": ("seeds: \x07", "not readable as YAML"),
    "an anchor in itself": ("settings: &me [*me]", "too many for a sweep file"),
    "deep nesting": ("settings: " + "[" * 5000 + "]" * 5000, "nested too deeply|too many"),
    "an alias bomb": (BOMB, "too many for a sweep file|line 3: unknown key"),
    "seeds without end": ("seeds: 1000000000", "line 3: seeds must be at most 100,000"),
    "draws without end": ("draws: 100000000", "line 3: draws must be at most 100,000"),
    "no seeds": ("seeds: -1", "line 3: seeds must be at least 1"),
    "a date that is none": ("seeds: 2020-99-99", "line 3"),
    "a list as a key": ("? [a, b]\n: 1", "a key must be a name"),
    "a number of many digits": ("seeds: " + "9" * 5000, "line 3"),
}


@pytest.mark.parametrize(("entry", "message"), HOSTILE.values(), ids=HOSTILE.keys())
def test_what_cannot_be_unfolded_is_refused_before_it_is(entry, message):
    with pytest.raises(ValueError, match=message):
        parse_sweep(f"datasets: ColoredMNIST\nalgorithms: ERM\n{entry}")


def test_a_sweep_of_too_many_runs_is_refused_before_it_is_planned():
    spec = parse_sweep("datasets: ColoredMNIST\nalgorithms: ERM\nseeds: 90000\ndraws: 90000")
    with pytest.raises(ValueError, match=r"16,200,000,000 runs .* fewer seeds"):
        plan_sweep(spec)


def test_imports_are_not_executed_on_a_dry_run(tmp_path):
    (tmp_path / "own.py").write_text("raise SystemExit('executed')")
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text("datasets: ColoredMNIST\nalgorithms: ERM\nimports: own.py")
    assert read_sweep(sweep, execute=False).imports == ()


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a" * (2**20 + 1)])
def test_a_file_that_is_no_sweep_is_told(tmp_path, content):
    (tmp_path / "s.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=r"s\.yaml is (not readable as text|larger than)"):
        read_sweep(tmp_path / "s.yaml")
