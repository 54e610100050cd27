"""Tables and arrays on disk become environments, or the row at fault is named."""

import io
import os
import re
import zipfile

import numpy as np
import pandas as pd
import pytest

from equipoise.data import as_environments, open_dataset, save_dataset

PATIENTS = pd.DataFrame(
    {
        "age": [40, 50, 60, 70],
        "weight": [70.5, 80.0, 60.0, 90.5],
        "smokes": [True, False, True, False],
        "ill": ["yes", "no", "no", "yes"],
        "hospital": ["north", "north", "south", "south"],
    }
)
COLUMNS = {"label": "ill", "environment": "hospital"}


def write(table, path):
    table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_gives_its_rows_with_labels_and_environments(tmp_path, suffix):
    data = open_dataset(write(PATIENTS, tmp_path / f"p{suffix}"), **COLUMNS)
    assert data.feature_names == ("age", "weight", "smokes")
    assert data.fetch(np.arange(2)).tolist() == [[40, 70.5, 1], [50, 80, 0]]
    assert [data.label_names[y] for y in data.labels] == PATIENTS.ill.tolist()
    assert [data.environment_names[e] for e in data.environments] == PATIENTS.hospital.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,label,environment,x\n1,0,0,2\n", r"p\.csv has two columns called 'x'"),
        ("NA;label;environment;NA\n1;0;0;2\n", r"p\.csv has two columns called 'NA'"),
        ("x,label,environment\n7,1,0,0\n", r"p\.csv .*more cells than its first row has names"),
    ],
)
def test_names_that_do_not_tell_the_columns_apart_are_refused(tmp_path, text, message):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_dataset(tmp_path / "p.csv")


def test_a_comma_at_the_end_of_each_row_shifts_no_column(tmp_path):
    (tmp_path / "p.csv").write_text("x,label,environment\n1,a,s,\n2,b,t,\n")
    data = open_dataset(tmp_path / "p.csv")
    assert data.fetch(np.arange(2)).tolist() == [[1], [2]]
    assert data.label_names == ("a", "b")


def test_chosen_columns_alone_become_features(tmp_path):
    path = write(PATIENTS.assign(name=list("abcd")), tmp_path / "p.csv")
    assert open_dataset(path, features=["weight"], **COLUMNS).input_shape == (1,)
    assert open_dataset(path, features="age", **COLUMNS).feature_names == ("age",)


def test_the_usual_names_need_not_be_said(tmp_path):
    renamed = PATIENTS.rename(columns={"ill": "label", "hospital": "environment"})
    path = write(renamed, tmp_path / "p.csv")
    assert open_dataset(path).label_names == ("no", "yes")
    assert as_environments(str(path)).n_environments == 2


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {}, "has no 'label'; say which of age, weight"),
        ({}, {"label": "ill"}, "has no 'environment'"),
        ({}, {**COLUMNS, "label": "il"}, "Did you mean 'ill'"),
        ({}, {**COLUMNS, "features": ["agee"]}, "Did you mean 'age'"),
        ({}, {**COLUMNS, "features": ["age", "ill"]}, "'ill' cannot be a feature"),
        ({}, {**COLUMNS, "image_size": 32}, "image_size says nothing about"),
        ({}, {**COLUMNS, "on_broken": "skip"}, "on_broken says nothing about"),
        (
            {},
            {"label": "weight", "environment": "hospital"},
            "'weight' .* looks continuous: .* fractions such as 70.5. Bin it",
        ),
        (
            {},
            {"label": "ill", "environment": "weight"},
            "environment 'weight' .* fractions such as 70.5. Bin it, or choose another environment",
        ),
        ({"age": [40, "old", 60, "young"]}, COLUMNS, r"row 2 holds 'old' \(2 rows like it\)"),
        (
            {"age": [40, None, None, 70], "weight": [1, 2, 3, None]},
            COLUMNS,
            r"3 missing cells: 'age' \(2 rows, first in row 2 \(index 1\)\), 'weight' \(1 row, ",
        ),
        ({"age": ["1,000", "20", "30", "40"]}, COLUMNS, "'age' .* first '1,000' in row 1"),
        ({"age": ["5", "20%", "30 %", "40"]}, COLUMNS, "'age' .* first '20%' in row 2"),
        ({"age": [40, np.inf, 60, 70]}, COLUMNS, "row 2 holds inf"),
        (
            {"ill": ["yes", None, "no", "no"]},
            COLUMNS,
            r"column 'ill' .* missing values, first in row 2 \(index 1\): remove",
        ),
        ({"hospital": ["n", "s", None, "s"]}, COLUMNS, "column 'hospital' .* missing values"),
    ],
)
def test_what_is_wrong_in_a_table_is_named(tmp_path, change, options, message):
    path = write(PATIENTS.assign(**change), tmp_path / "p.csv")
    with pytest.raises(ValueError, match=message):
        open_dataset(path, **options)


@pytest.mark.filterwarnings("ignore:.* as an identifier")
def test_all_that_is_wrong_in_a_table_is_named_at_once(tmp_path):
    many = pd.concat([PATIENTS] * 20, ignore_index=True)
    odd = {
        "day": pd.date_range("2020", periods=80),
        "key": [None, *(f"p{i}" for i in range(79))],
        "age": [None, *range(79)],
        "price": [*range(79), "unknown"],
        "share": ["20%", *map(str, range(79))],
    }
    path = write(many.assign(**odd).astype({"price": str}), tmp_path / "p.parquet")
    with pytest.raises(ValueError, match="has 5 problems") as error:
        open_dataset(path, **COLUMNS)
    lines = str(error.value).splitlines()[1:]
    for words in (
        "'day' .* holds dates",
        "'key' .* holds 79 different names",
        "'price' .* row 80 holds 'unknown'",
        "'share' .* numbers with signs",
        "has 2 missing cells: .*'age'.*'key'",
    ):
        assert sum(bool(re.search(words, line)) for line in lines) == 1, words


def test_an_npz_without_examples_says_which_arrays_it_holds_and_what_is_expected(tmp_path):
    np.savez(tmp_path / "a.npz", emb=np.zeros((2, 1)), y=[0, 1], environment=[0, 1])
    said = "no array 'x' or 'X' or 'features'; it holds emb, y, environment: say .* features=…"
    with pytest.raises(ValueError, match=said):
        open_dataset(tmp_path / "a.npz")


def test_odd_cells_of_parquet_are_named_with_their_column(tmp_path):
    odd = {
        "lists": [[1], [2], [3], [4]],
        "dates": pd.date_range("2020", periods=4),
        "missing": pd.array([1, None, 3, 4], dtype="Int64"),
        "raw": [b"a", b"b", b"c", b"d"],
    }
    messages = {"lists": "holds ndarray", "dates": "holds dates", "missing": "1 missing cell"}
    for name, values in odd.items():
        path = write(PATIENTS.assign(**{name: values}), tmp_path / "p.parquet")
        with pytest.raises(ValueError, match=f"{name}.*" if name == "raw" else messages[name]):
            open_dataset(path, **COLUMNS)


def test_semicolons_and_tabs_part_cells_as_well(tmp_path):
    for mark in ";\t":
        PATIENTS.to_csv(tmp_path / "p.csv", sep=mark, index=False)
        data = open_dataset(tmp_path / "p.csv", **COLUMNS)
        assert data.feature_names == ("age", "weight", "smokes")


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([["a"], ["b"]]), "'x' of .* not a table of numbers"),
        (np.array([["2020-01-01"], ["2021-01-01"]], dtype="M8[D]"), "not a table of numbers"),
        (np.zeros((2, 1), dtype=[("a", "f4")]), "not a table of numbers"),
        (np.zeros((2, 0)), r"0 feature\(s\)"),
        (np.zeros(2), r"must be \[N, features\]"),
        (np.full((2, 1), np.nan), "NaN or infinite"),
        (np.zeros((2, 1), dtype=complex), "not a table of numbers|real numbers"),
    ],
)
def test_arrays_that_are_no_numbers_are_named(tmp_path, x, message):
    np.savez(tmp_path / "a.npz", x=x, y=[0, 1], environment=[0, 1])
    with pytest.raises(ValueError, match=message):
        open_dataset(tmp_path / "a.npz")


def test_long_doubles_are_numbers(tmp_path):
    x = np.arange(2, dtype=np.longdouble)[:, None]
    np.savez(tmp_path / "a.npz", x=x, y=[0, 1], environment=x[:, 0])
    assert open_dataset(tmp_path / "a.npz").fetch(np.arange(2)).tolist() == [[0.0], [1.0]]


def test_an_array_renamed_or_with_a_forged_shape_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 1)))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="a single array, give it the ending"):
        open_dataset(tmp_path / "a.npz")
    forged = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**12, 4)}
    np.lib.format.write_array_header_1_0(forged, header)
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        archive.writestr("x.npy", forged.getvalue() + bytes(64))
        for name in ("y", "environment"):
            content = io.BytesIO()
            np.save(content, np.arange(2))
            archive.writestr(f"{name}.npy", content.getvalue())
    with pytest.raises(ValueError, match="more than it holds"):
        open_dataset(tmp_path / "b.npz")


@pytest.mark.parametrize("name", ["p.csv", "p.parquet", "p.npz"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match="expected a regular file"):
        open_dataset(tmp_path / name)


def test_labels_that_mix_numbers_and_text_are_text_and_said(tmp_path):
    path = write(PATIENTS.assign(ill=[1, 2, "two", 1]), tmp_path / "p.csv")
    with pytest.warns(UserWarning, match="mixes numbers and text, first 'two' in row 3"):
        assert open_dataset(path, **COLUMNS).label_names == ("1", "2", "two")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.csv", b"", "cannot be read as a table"),
        ("p.csv", b"label,environment\n", "has no rows"),
        ("p.csv", b"label,environment\n0,0\n", "features are missing"),
        ("p.parquet", b"damaged", "cannot be read as a table"),
        ("p.npz", b"damaged", "cannot be read"),
        ("p.xlsx", b"", "unknown kind of data '.xlsx'"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        open_dataset(tmp_path / name)


def test_arrays_of_an_npz_are_examples_labels_and_environments(tmp_path):
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    odd = np.array([None, 1], dtype=object)  # pickled: nobody asked for it
    np.savez(tmp_path / "a.npz", x=x, y=["cat", "dog"], environment=[3, 4], other=[1], odd=odd)
    data = open_dataset(tmp_path / "a.npz")
    assert data.input_shape == (3, 2, 2)
    assert float(data.fetch(np.array([1])).max()) == np.float32(23 / 255)
    assert data.environment_names == ("3", "4")
    with pytest.raises(ValueError, match="aligned"):
        open_dataset(tmp_path / "a.npz", label="other")
    with pytest.raises(ValueError, match="features names"):
        open_dataset(tmp_path / "a.npz", features=["x", "y"])
    assert open_dataset(tmp_path / "a.npz", features="x", environment="y").n_environments == 2


def test_a_path_that_is_not_there_is_told(tmp_path):
    with pytest.raises(ValueError, match="there is no data at"):
        open_dataset(tmp_path / "nothing.csv")


def test_a_path_takes_names_of_columns_only(tmp_path):
    path = write(PATIENTS, tmp_path / "p.csv")
    assert len(as_environments(path, "ill", "hospital")) == 4
    with pytest.raises(ValueError, match="names of its columns, got list"):
        as_environments(path, [0, 1, 0, 1], "hospital")


class TestSaved:
    """A dataset saved as a directory is the same dataset."""

    @pytest.fixture
    def table(self, tmp_path):
        # Text that looks like nothing, or like numbers.
        named = PATIENTS.assign(
            ill=["NA", "null", "null", "NA"], hospital=["007", "007", "08", "08"]
        )
        return open_dataset(write(named, tmp_path / "p.parquet"), **COLUMNS)

    def test_names_numbers_and_origin_come_back(self, table, tmp_path):
        saved = save_dataset(table, tmp_path / "saved", made_from={"data": "p.parquet"})
        for data in (saved, open_dataset(tmp_path / "saved")):
            assert data.label_names == table.label_names == ("NA", "null")
            assert data.environment_names == table.environment_names == ("007", "08")
            assert data.labels.tolist() == table.labels.tolist()
            assert data.environments.tolist() == table.environments.tolist()
            assert data.fetch(np.arange(4)).tolist() == table.fetch(np.arange(4)).tolist()
            assert data.made_from == {"data": "p.parquet"}

    def test_the_same_again_stays_and_another_is_refused(self, table, tmp_path):
        save_dataset(table, tmp_path / "saved")
        before = (tmp_path / "saved" / "x.npy").stat().st_mtime_ns
        save_dataset(table, tmp_path / "saved")
        assert (tmp_path / "saved" / "x.npy").stat().st_mtime_ns == before
        with pytest.raises(ValueError, match="holds another dataset"):
            save_dataset(table.subset([0, 1]), tmp_path / "saved")

    def test_one_that_was_interrupted_is_no_dataset_and_is_written_again(self, table, tmp_path):
        save_dataset(table, tmp_path / "saved")
        (tmp_path / "saved" / "dataset.json").unlink()
        assert len(save_dataset(table.subset([0, 1]), tmp_path / "saved")) == 2

    def test_a_directory_or_file_of_something_else_is_left_alone(self, table, tmp_path):
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("years of work")
        with pytest.raises(ValueError, match="not empty and holds no dataset"):
            save_dataset(table, tmp_path / "mine")
        with pytest.raises(ValueError, match="is a file"):
            save_dataset(table, tmp_path / "mine" / "thesis.tex")

    @pytest.mark.parametrize(
        ("file", "content", "message"),
        [
            ("dataset.json", "{", "dataset.json is damaged .* make it again"),
            ("dataset.json", '{"format": "other"}', "no dataset of equipoise"),
            ("dataset.json", '{"format": "equipoise dataset", "version": 9}', "its version is 9"),
            ("examples.csv", "example,label,environment\n0,bird,007\n", "fit its checksum"),
            ("x.npy", "damaged", "x.npy cannot be read"),
        ],
    )
    def test_what_is_damaged_is_named(self, table, tmp_path, file, content, message):
        save_dataset(table, tmp_path / "saved")
        (tmp_path / "saved" / file).write_text(content)
        with pytest.raises(ValueError, match=message):
            open_dataset(tmp_path / "saved")

    def test_it_takes_no_columns(self, table, tmp_path):
        save_dataset(table, tmp_path / "saved")
        with pytest.raises(ValueError, match=r"label says nothing about .* a saved dataset"):
            open_dataset(tmp_path / "saved", label="ill")

    def test_the_true_covariate_comes_along(self, spurious, tmp_path):
        saved = save_dataset(spurious, tmp_path / "saved")
        assert saved.covariate.tolist() == spurious.covariate.tolist()
