"""docs/results.md and the README say what the committed records say."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from equipoise.benchmark import summarise

ROOT = Path(__file__).parents[2]
DATASETS = ("ColoredMNIST10", "ColoredMNIST")
ALGORITHMS = ("ERM", "IRM", "GroupDRO", "CORAL", "CausIRL_CORAL")
WORLDS = (*DATASETS, "two-valued covariate", "normal covariate")
RESULTS = ROOT / "results"
STYLES = ("art_painting", "cartoon", "photo", "sketch")


def read(name, rule="train-domain"):
    """The records of an exhibit under a validation rule, where it has rules."""
    written = json.loads((RESULTS / f"{name}.json").read_text())
    # Records of an earlier version are a mere list.
    records = pd.DataFrame(written if isinstance(written, list) else written["records"])
    return records[records.selection == rule] if "selection" in records else records


def read_rows(heading, page="docs/results.md"):
    """The first table at or below a line with these words, without markup."""
    lines = (ROOT / page).read_text().replace("*", "").splitlines()
    place = next(i for i, line in enumerate(lines) if heading in line)
    start = next(i for i in range(place, len(lines)) if lines[i].startswith("|"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:end]]
    return [rows[0], *rows[2:]]


def show(accuracies):
    cell = summarise(list(accuracies))
    return f"{cell.mean:.1f}" + ("" if cell.spread is None else f" ± {cell.spread:.1f}")


@pytest.mark.parametrize(
    ("heading", "page", "name"),
    [
        ("## Table 1", "docs/results.md", "table1-quick"),
        ("## Measured", "README.md", "table1-quick"),
        ("A second deal of the digits", "docs/results.md", "table1-quick-deal1"),
    ],
)
def test_table1_is_that_of_the_records(heading, page, name):
    cells = dict(list(read(name).groupby(["dataset", "sampling", "algorithm"]).ood_accuracy))
    samplings = ("random", "balanced")
    rows = [row[2:] for row in read_rows(heading, page) if row[1] in samplings]
    assert rows == [
        [show(cells[dataset, sampling, algorithm]) for algorithm in ALGORITHMS]
        for dataset in DATASETS
        for sampling in samplings
    ]


@pytest.mark.parametrize(
    ("name", "setting"), [("figure4a", "degree_of_balancing"), ("figure4b", "n_matches")]
)
def test_a_curve_of_figure_4_is_that_of_the_records(name, setting):
    head, row = read_rows(f"`{name}`")
    groups = list(read(f"{name}-quick").groupby(setting).ood_accuracy)
    assert head[1:] == [f"{point:g}" for point, _ in groups]
    assert row[1:] == [show(accuracies) for _, accuracies in groups]


def test_the_fall_of_figure_4b_is_that_of_the_records():
    head, *rows = read_rows("A fall appears in a plainer setting")
    for row in rows[:2]:
        rule = row[0].removeprefix("checkpoint by ").removesuffix(" validation")
        groups = list(read("figure4b-single-match-quick", rule).groupby("n_matches").ood_accuracy)
        assert head[1:] == [f"{point:g}" for point, _ in groups]
        assert row[1:] == [show(accuracies) for _, accuracies in groups]


def test_the_test_environments_of_figure_4c_are_those_of_the_records():
    head, *rows = read_rows("`figure4c`")
    means = read("figure4c-quick").groupby(["sampling", "test_environment"]).ood_accuracy.mean()
    for row in rows:
        sampling = row[0].split()[0]
        assert row[1:] == [f"{100 * means[sampling, point]:.1f}" for point in head[1:]]


def test_table2_is_that_of_the_records():
    varying, everything = read("table2-features-quick"), read("table2-features-all-quick")

    def average(records, sampling):
        own = records[records.sampling == sampling]
        means = 100 * own.groupby("test_environment").ood_accuracy.mean()[list(STYLES)]
        return np.array([means.mean(), *means])

    random = average(varying, "random")
    changes = {
        "random": [f"{value:.1f}" for value in random],
        **{
            f"balanced on {what}, against random": [
                f"{value:+.1f}".replace("-", "−") for value in average(records, "balanced") - random
            ]
            for what, records in (("all of Z", everything), ("what varies", varying))
        },
    }
    head, *rows = read_rows("## Table 2")
    assert head[2:] == list(STYLES)
    assert {row[0]: row[1:] for row in rows} == changes


@pytest.mark.parametrize(
    ("heading", "name"),
    [("## Rivals", "rivals-quick"), ("With plain cross-entropy", "rivals-cross-entropy-quick")],
)
def test_rivals_are_those_of_the_records(heading, name):
    measures = ["average_accuracy", "worst_group_accuracy"]
    means = 100 * read(name).groupby(["dataset", "method"])[measures].mean()
    head, *rows = read_rows(heading)
    first = 2 if head[1] == "told" else 1
    assert {row[0] for row in rows} == set(means.index.get_level_values("method"))
    for row in rows:
        for world, cell in zip(WORLDS, row[first : first + len(WORLDS)], strict=True):
            average, worst = means.loc[(world, row[0])]
            assert cell.split(" (")[0] == f"{average:.1f} / {worst:.1f}"


def test_records_of_exhibits_name_the_code_that_made_them():
    """All but two tables, which the page says are of an earlier version."""
    earlier = {"table1-all-quick", "rivals-cross-entropy-quick"}
    written = {path.stem: json.loads(path.read_text()) for path in RESULTS.glob("*-quick*.json")}
    assert {name for name, content in written.items() if "code" not in content} == earlier
