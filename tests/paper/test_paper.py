"""The numbers are the paper's: checked against its own sums and a few that were read by eye."""

import pytest

from equipoise.algorithms import list_algorithms
from equipoise.benchmark.settings import RunSettings
from equipoise.paper import (
    ALL_DATASETS,
    AVERAGE,
    find_accuracy,
    list_accuracies,
    list_paper_datasets,
    paper_settings,
)


@pytest.mark.parametrize("table", range(5, 12))
def test_the_averages_of_the_detailed_tables_are_averages(table):
    rows = {}
    for each in list_accuracies():
        if each.table == table:
            cells = rows.setdefault((each.algorithm, each.sampling), {})
            cells[each.test_environment] = each.accuracy
    assert len(rows) == 8
    for cells in rows.values():
        mean = cells.pop(AVERAGE)
        # Means of unrounded numbers, printed with one digit.
        assert sum(cells.values()) / len(cells) == pytest.approx(mean, abs=0.11)


def test_the_averages_of_table_2_are_those_of_the_detailed_tables():
    details = {
        (each.dataset, each.algorithm, each.sampling): each.accuracy
        for each in list_accuracies()
        if each.table > 4 and each.test_environment == AVERAGE
    }
    compared = 0
    for each in list_accuracies():
        key = (each.dataset, each.algorithm, each.sampling)
        if each.table == 2 and key in details:
            assert each.accuracy == details[key], key
            compared += 1
    assert compared == 56


def test_table_2_averages_over_datasets():
    rows = {}
    for each in list_accuracies():
        if each.table == 2:
            rows.setdefault((each.algorithm, each.sampling), {})[each.dataset] = each.accuracy
    assert len(rows) == 25
    for cells in rows.values():
        mean = cells.pop(ALL_DATASETS)
        assert sum(cells.values()) / len(cells) == pytest.approx(mean, abs=0.11)


@pytest.mark.parametrize(
    ("dataset", "numbers"),
    [
        ("ColoredMNIST10", (69.8, 63.8, 69.3, 70.1, 69.6)),
        ("ColoredMNIST", (37.6, 31.1, 17.0, 57.2, 43.7)),
    ],
)
def test_the_balanced_cells_of_table_1(dataset, numbers):
    for algorithm, number in zip(
        ("ERM", "IRM", "GroupDRO", "CORAL", "CausIRL_CORAL"), numbers, strict=True
    ):
        found = find_accuracy(
            dataset=dataset, algorithm=algorithm, sampling="balanced", test_environment="0.9"
        )
        assert found.accuracy == number


def test_beside_a_rule_the_paper_does_not_know_stands_its_train_domain_number():
    cell = {
        "dataset": "ColoredMNIST",
        "algorithm": "ERM",
        "sampling": "balanced",
        "test_environment": "0.9",
    }
    assert find_accuracy(**cell, selection="balanced").accuracy == 37.6
    assert find_accuracy(**cell, selection="test-domain").accuracy == 38.4
    assert find_accuracy(**{**cell, "algorithm": "nobody"}) is None


def test_every_algorithm_of_the_paper_is_known_here():
    assert {each.algorithm for each in list_accuracies()} <= set(list_algorithms())


LABELS_AND_ENVIRONMENTS = {
    "ColoredMNIST10": (10, 2),
    "ColoredMNIST": (2, 2),
    "RotatedMNIST": (10, 5),
    "VLCS": (5, 3),
    "PACS": (7, 3),
    "OfficeHome": (65, 3),
    "TerraIncognita": (10, 3),
    "DomainNet": (345, 5),
}


@pytest.mark.parametrize("dataset", list_paper_datasets())
def test_the_papers_settings_are_valid_and_satisfy_theorem_3_3(dataset):
    settings = RunSettings(dataset=dataset, algorithm="ERM", **paper_settings(dataset))
    n_labels, n_environments = LABELS_AND_ENVIRONMENTS[dataset]
    k = {"gaussian-fixed-variance": 1, "gaussian": 2}[settings.balancer["prior"]]
    assert n_labels * n_environments > settings.balancer["latent_dim"] * k
    assert 1 <= settings.n_matches < n_labels


def test_settings_of_an_unknown_dataset_are_refused():
    with pytest.raises(ValueError, match="no settings for 'MNIST'"):
        paper_settings("MNIST")
