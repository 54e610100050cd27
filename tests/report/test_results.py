"""Pictures of result tables show their numbers, and the paper's beside them."""

import pytest

from equipoise.benchmark import Cell, ResultTable, Row
from equipoise.report import ValidationPoint, draw_categories, draw_curves, draw_validation


def make_table(columns):
    cells = [Cell(60.0, 2.0, 3, paper=65.0), None, Cell(40.0, None, 1)]
    return ResultTable("A table", ("batches",), columns, (Row(("balanced",), tuple(cells)),), ())


def texts_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_have_a_point_for_each_known_cell_and_the_ceiling():
    figure = draw_curves(make_table(("0", "0.5", "1")), axis="degree", ceiling=75.0)
    (axes,) = figure.axes
    line = axes.lines[0]
    assert line.get_xdata().tolist() == [0.0, 0.5, 1.0]
    assert line.get_ydata()[[0, 2]].tolist() == [60.0, 40.0]
    assert texts_of(figure) == ["balanced", "ceiling 75"]


def test_categories_stand_beside_the_papers_numbers():
    (axes,) = draw_categories(make_table(("a", "b", "c"))).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["a", "b", "c"]
    drawn = [line.get_ydata().tolist() for line in axes.lines]
    assert [60.0, 40.0] in drawn
    assert [65.0] in drawn


@pytest.mark.parametrize("n_datasets", [0, 2])
def test_validation_has_a_panel_for_each_dataset(n_datasets):
    points = [
        ValidationPoint(f"data {i}", "balanced", "ERM", 0, 10, "balanced", 0.7, 0.6)
        for i in range(n_datasets)
    ]
    shown = [axes for axes in draw_validation(points).axes if axes.get_title()]
    assert [axes.get_title() for axes in shown] == [f"data {i}" for i in range(n_datasets)]
    for axes in shown:
        assert [70.0] in [line.get_xdata().tolist() for line in axes.lines]
