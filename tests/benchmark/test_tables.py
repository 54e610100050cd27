import csv
import io
import re
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from equipoise.benchmark.selection import SelectedRun
from equipoise.benchmark.tables import (
    FORMATS,
    Cell,
    ResultTable,
    Row,
    make_tables,
    mark_best,
    summarise,
    write_tables,
)

SHARES = st.lists(st.floats(0, 1), min_size=2, max_size=9)


@given(SHARES)
def test_mean_and_spread_are_those_of_the_textbook(shares):
    percent = [100 * share for share in shares]
    deviation = summarise(shares)
    error = summarise(shares, spread="error")
    assert deviation.mean == pytest.approx(statistics.mean(percent))
    assert deviation.spread == pytest.approx(statistics.stdev(percent), abs=1e-9)
    assert error.spread == pytest.approx(deviation.spread / len(shares) ** 0.5, abs=1e-9)


def test_a_single_seed_has_no_spread():
    assert summarise([0.7]).spread is None


TABLE = ResultTable(
    "a|b",
    ("batches",),
    ("ERM", "A_B"),
    mark_best(
        [
            Row(("ran|dom",), (Cell(10.0, 0.5, 3, 14.25), None)),
            Row(("100% & more_",), (Cell(72.34, 0.25, 3, 69.8), Cell(72.31, None, 1))),
        ],
        together=0,
        by_column=False,
    ),
    ("a note",),
)


def test_markdown_has_bold_spread_the_papers_number_and_the_difference():
    text = TABLE.to_markdown()
    assert r"| ran\|dom | 10.0 ± 0.5 (14.25, −4.2) | – |" in text
    assert "**72.3** ± 0.2 (69.8, +2.5) | **72.3** |" in text
    assert text.endswith("a note\n")


def test_latex_is_escaped():
    text = TABLE.to_latex()
    assert r"100\% \& more\_ & \textbf{72.3} $\pm$ 0.2 (69.8, +2.5) & \textbf{72.3} \\" in text
    assert r"A\_B" in text
    assert "--" in text
    assert "−" not in text


def test_csv_has_the_numbers_unrounded_and_reads_back():
    rows = list(csv.DictReader(io.StringIO(FORMATS["csv"]([TABLE, TABLE]))))
    assert len(rows) == 6  # one header for both tables
    assert rows[0]["batches"] == "ran|dom"
    assert float(rows[1]["mean"]) == 72.34
    assert float(rows[1]["difference"]) == pytest.approx(2.54)
    assert rows[2]["spread"] == ""


def test_the_terminal_shows_the_same_numbers():
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(TABLE.to_rich())
    text = console.export_text()
    assert "72.3 ± 0.2 (69.8, +2.5)" in text
    assert "ran|dom" in text


def test_the_best_is_marked_in_each_column_among_rows_of_the_same_kind():
    rows = [
        Row(("x", "1"), (Cell(1.0, None, 1), Cell(5.0, None, 1))),
        Row(("x", "2"), (Cell(2.0, None, 1), Cell(4.0, None, 1))),
        Row(("y", "1"), (Cell(0.5, None, 1), None)),
    ]
    marked = mark_best(rows, together=1, by_column=True)
    assert [[cell.best for cell in row.cells if cell] for row in marked] == [
        [False, True],
        [True, False],
        [True],
    ]


def selected(environment, seed, accuracy, **changes):
    given = {"dataset": "ColoredMNIST", "algorithm": "ERM", "sampling": "random"}
    return SelectedRun(
        **{**given, **changes},
        test_environment=environment,
        seed=seed,
        selection="train-domain",
        ood_accuracy=accuracy,
        step=10,
    )


def test_the_average_is_over_environments_first_and_then_over_seeds():
    runs = [
        *(selected(e, 0, a) for e, a in (("0.1", 0.7), ("0.2", 0.8), ("0.9", 0.0))),
        *(selected(e, 1, a) for e, a in (("0.1", 0.9), ("0.2", 0.9), ("0.9", 0.3))),
        selected("0.1", 2, 0.2),  # lacks two environments: in no average
    ]
    (table,) = make_tables(runs)
    assert table.columns == ("0.1", "0.2", "0.9", "average")
    average = table.rows[0].cells[-1]
    assert average.mean == pytest.approx((50 + 70) / 2)
    assert average.spread == pytest.approx(statistics.stdev([50, 70]))
    assert average.paper == 51.5  # of Table 2
    assert table.rows[0].cells[2].paper == 10.0  # of Table 1
    assert "standard deviation" in table.notes[0]
    assert "standard error" in make_tables(runs, spread="error")[0].notes[0]


def test_several_datasets_get_a_table_of_averages():
    runs = [
        selected(e, 0, 0.5, dataset=dataset) for dataset in ("a", "b") for e in ("1", "2", "10")
    ]
    tables = make_tables(runs)
    assert [table.title for table in tables] == ["a", "b", "averages over test environments"]
    assert tables[0].columns == ("1", "2", "10", "average")
    assert tables[-1].columns == ("a", "b")


def test_a_file_is_written_as_its_ending_says(tmp_path):
    write_tables([TABLE], tmp_path / "t.tex", sentences=["so it is"])
    assert "% so it is" in (tmp_path / "t.tex").read_text()
    with pytest.raises(ValueError, match="unknown ending"):
        write_tables([TABLE], tmp_path / "t.docx")


RUDE = ResultTable(
    "title [/red]\n|x|",
    ("label\n|",),
    (r"\input{/etc/passwd}", "a|b", "x[/red]", "50%_~^{}"),
    (Row(("<script>\n| [/red] \\input x",), (None, None, None, None)),),
    ("a note\n\\end{x}",),
)


def test_names_cannot_leave_their_cell_in_markdown():
    lines = RUDE.to_markdown().splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 3
    for line in (table[0], table[2]):
        assert len(re.findall(r"(?<!\\)\|", line)) == 6
    assert "<script" not in "".join(lines)


def test_names_are_no_commands_in_latex():
    text = RUDE.to_latex()
    commands = set(re.findall(r"\\[a-z]+", text.replace("% ", "%", 2)))
    rows = [line for line in text.splitlines() if not line.startswith("%")]
    assert commands <= {
        *(r"\begin", r"\end", r"\toprule", r"\midrule", r"\bottomrule"),
        *(r"\textbackslash", r"\textasciitilde", r"\textasciicircum"),
    }
    assert len(rows) == 7
    assert r"\textbackslash{}input\{/etc/passwd\}" in text


def test_names_are_no_markup_in_the_terminal():
    console = Console(file=io.StringIO(), width=300)
    console.print(RUDE.to_rich())
    assert "x[/red]" in console.file.getvalue()
