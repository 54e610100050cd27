"""A fitted balancer reads further data by their names, never by the codes of another file."""

import numpy as np
import pandas as pd
import pytest

from equipoise import CausalBalancer
from equipoise.data import open_dataset, save_dataset
from equipoise.files import load_state, save_state
from equipoise.report import open_target
from tests.integration.planted_table import make_planted_table

COLUMNS = {"label": "ill", "environment": "hospital"}


@pytest.fixture(scope="module")
def table():
    return make_planted_table().head(900)


@pytest.fixture(scope="module")
def open_table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")

    def write(frame, name):
        frame.to_csv(folder / f"{name}.csv", index=False)
        return open_dataset(folder / f"{name}.csv", **COLUMNS)

    return write


@pytest.fixture(scope="module")
def whole(table, open_table):
    return open_table(table, "whole")


@pytest.fixture(scope="module")
def file(whole, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "balancer.safetensors"
    CausalBalancer().fit(whole).save(path)
    return path


@pytest.fixture
def balancer(file):
    return CausalBalancer.load(file)


def test_names_are_kept_in_the_file(balancer):
    assert balancer.classes_.tolist() == [0, 1]
    assert balancer.names_.labels == ("no", "yes")
    assert balancer.names_.environments == ("north", "south", "west")
    assert "scanner = old" in balancer.names_.features


def test_a_file_of_one_environment_is_read_by_its_name(table, open_table, balancer, whole):
    alone = open_table(table[table["hospital"] == "south"], "south")
    assert set(alone.environments.tolist()) == {0}  # the code that "north" has in the whole
    part = whole.subset(np.flatnonzero(whole.environments == 1))
    np.testing.assert_array_equal(balancer.score_examples(alone), balancer.score_examples(part))
    np.testing.assert_array_equal(balancer.balanced_weights(alone), balancer.balanced_weights(part))
    found = balancer.balance_table(alone)
    assert set(found["environment"]) == {"south", "(pooled)"}


@pytest.mark.parametrize(
    ("column", "old", "new", "message"),
    [
        ("hospital", "west", "east", "environment 'east' was not seen when fitting"),
        ("ill", "yes", "maybe", "label 'maybe' was not seen when fitting; known: 'no', 'yes'"),
        ("scanner", "old", "aged", "without 'scanner = old' and with 'scanner = new'"),
    ],
)
def test_unknown_names_are_refused_by_name(table, open_table, balancer, column, old, new, message):
    changed = table.assign(**{column: table[column].replace(old, new)})
    with pytest.raises(ValueError, match=message):
        balancer.balanced_weights(open_table(changed, f"{column}-{new}"))


def test_columns_in_another_order_are_put_right(table, open_table, balancer, whole):
    turned = open_table(table[table.columns[::-1]], "turned")
    assert turned.feature_names != whole.feature_names
    expected = balancer.balanced_weights(whole)
    np.testing.assert_array_equal(balancer.balanced_weights(turned), expected)
    examined = balancer.examine(turned)
    assert examined.feature_names == whole.feature_names
    rows = np.arange(5)
    assert examined.source.fetch(rows).tolist() == whole.fetch(rows).tolist()
    assert examined.source.identify(rows) == whole.identify(rows)


def test_a_packed_table_keeps_the_names_of_its_columns(
    table, open_table, balancer, whole, tmp_path
):
    packed = save_dataset(open_table(table[table.columns[::-1]], "packed"), tmp_path / "packed")
    np.testing.assert_array_equal(
        balancer.balanced_weights(packed), balancer.balanced_weights(whole)
    )


def test_a_report_on_other_data_goes_by_names(table, open_table, file):
    alone = open_table(table[table["hospital"] != "north"], "two").subset(np.arange(50))
    target = open_target(file, dataset=alone)
    assert set(target.environments) <= {"south", "west"}
    assert len(target.examples) == 50


def test_arrays_may_hold_codes_or_names(table, balancer, whole):
    x = whole.fetch(np.arange(len(whole)))
    expected = balancer.balanced_weights(whole)
    by_code = balancer.balanced_weights(x, whole.labels, whole.environments)
    by_name = balancer.balanced_weights(x, table["ill"], table["hospital"])
    np.testing.assert_array_equal(by_code, expected)
    np.testing.assert_array_equal(by_name, expected)
    with pytest.raises(ValueError, match="environment 'east' was not seen"):
        balancer.balanced_weights(x, table["ill"], ["east"] * len(table))


def test_a_fit_on_arrays_of_names_reads_datasets_by_name(table, open_table):
    frame = table[["contrast", "marker"]].astype(np.float32)  # as datasets keep them
    balancer = CausalBalancer().fit(frame, table["ill"], table["hospital"])
    assert balancer.classes_.tolist() == ["no", "yes"]
    south = table["hospital"] == "south"
    columns = ["marker", "contrast", "ill", "hospital"]
    alone = open_table(table.loc[south, columns], "south-short")
    expected = balancer.score_examples(
        frame[south][["marker", "contrast"]], table["ill"][south], table["hospital"][south]
    )
    np.testing.assert_allclose(balancer.score_examples(alone), expected, atol=1e-4)
    bare = pd.DataFrame(frame[south].to_numpy())  # columns 0 and 1 say nothing
    given = balancer.score_examples(bare, table["ill"][south], table["hospital"][south])
    np.testing.assert_array_equal(given, expected)


def test_errors_speak_in_names(table, open_table):
    healthy = open_table(table.assign(ill="no"), "healthy")
    with pytest.raises(ValueError, match="every example has the label 'no'"):
        CausalBalancer().fit(healthy)
    alone = open_table(table[table["hospital"] == "south"], "alone")
    with pytest.raises(ValueError, match="every example is of the environment 'south'"):
        CausalBalancer("all").fit(alone)


def test_one_environment_is_balanced_in_labels_with_a_warning(table, open_table):
    alone = open_table(table[table["hospital"] == "south"], "lone")
    with pytest.warns(UserWarning, match="one environment only, so no link can be seen to vary"):
        balancer = CausalBalancer().fit(alone)
    assert balancer.n_varying_ == 0
    totals = np.bincount(alone.labels, weights=balancer.weights_)
    assert totals[0] == pytest.approx(totals[1])


def test_a_file_without_names_is_refused_in_a_sentence(file, tmp_path):
    tensors, facts = load_state(file)
    del facts["names"]
    save_state(tmp_path / "old.safetensors", tensors, facts)
    with pytest.raises(ValueError, match=r"missing: 'names'\): fit and save it again"):
        CausalBalancer.load(tmp_path / "old.safetensors")
    del facts["format"]
    save_state(tmp_path / "old.safetensors", tensors, facts)
    with pytest.raises(ValueError, match="not hold a CausalBalancer of this version: fit and save"):
        CausalBalancer.load(tmp_path / "old.safetensors")
