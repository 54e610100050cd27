"""The verdict and the tables behind it, with numbers, without some, and without any."""

import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd

from equipoise.report.balance_sections import draw_verdict, make_methods, make_varying
from equipoise.report.figures import plot_love, plot_situations
from equipoise.report.svg import render_panel

NAN = float("nan")


def make_diagnostics(**changes):
    numbers = {"price": 10.2, "price_error": 1.1, "protection": 48.6, "protection_error": 2.3}
    words = {"headline": "It costs 10 and saves 49.", "findings": ("Seen.",), "advice": ("Do.",)}
    verdict = {"recommendation": "trade-off", **words, **numbers, **changes.pop("verdict", {})}
    rows = {"plain": [84.0, 55.0, 21.0], "plain_error": [1.0, 1.0, 2.0]}
    rows |= {"balanced": [74.0, 71.0, 70.0], "balanced_error": [1.0, 1.5, 1.6]}
    situations = pd.DataFrame(rows, index=["as they are", "even", "reversed"])
    known = {
        "situations": situations,
        "varying": pd.DataFrame(),
        "weights": np.repeat([2.0, 0.0], 100),
    }
    known |= {"n_examples": 200, "use": pd.DataFrame(), **changes}
    return SimpleNamespace(verdict=SimpleNamespace(**verdict), **known)


def test_the_verdict_gives_price_and_protection_with_their_errors_and_the_picture():
    drawn = draw_verdict(make_diagnostics())
    order = ["<b>trade-off</b>", "It costs 10", "10.2 ± 1.1", "48.6 ± 2.3", "<svg", "Seen.", "Do."]
    places = [drawn.index(text) for text in order]
    assert places == sorted(places)
    assert "level-fair" in drawn
    assert "50\u202f%" in drawn  # of the 200 examples, half weigh nothing


def test_a_negative_price_is_a_gain_and_a_negative_protection_a_loss():
    drawn = draw_verdict(make_diagnostics(verdict={"price": -1.6, "protection": -2.4}))
    assert "1.6 ± 1.1 points of accuracy gained where the link stays as it is" in drawn
    assert "2.4 ± 2.3 points of accuracy lost where the link is reversed" in drawn
    assert "−" not in drawn.split("<svg")[0]


def test_what_was_not_measured_is_left_out():
    nothing = {"price": NAN, "price_error": NAN, "protection": NAN, "protection_error": NAN}
    diagnostics = make_diagnostics(verdict=nothing)
    diagnostics.situations[:] = NAN
    drawn = draw_verdict(diagnostics)
    assert "<svg" not in drawn
    assert "price" not in drawn
    assert not re.search(r"\bnan\b", drawn, flags=re.IGNORECASE)


def test_a_situation_without_a_number_keeps_its_row():
    situations = make_diagnostics().situations
    situations.loc["reversed"] = NAN
    drawn = render_panel(plot_situations(situations))
    assert "reversed" in drawn
    assert drawn.count('class="ring before" cx') == 2
    assert drawn.count('class="error before"') == 2


def test_without_a_test_there_is_no_table_of_it():
    assert make_varying(make_diagnostics(varying=pd.DataFrame())) is None


def test_every_step_of_the_search_has_a_row_and_its_tests_fold_out():
    steps = ["nothing varies", "nothing varies", "besides 1 dimension"]
    numbers = {"statistic": [300.0, 9.0, 1.0], "p_value": [0.0005, 0.4, NAN]}
    joint = {"joint_p_value": [0.0005, 0.0005, 0.9]}
    table = pd.DataFrame({"hypothesis": steps, "test": ["a<b", "b", "a"], **numbers, **joint})
    shown, folded = make_varying(make_diagnostics(varying=table)).render().split("<details>")
    assert re.findall(r"<td>([^<]*)</td>", shown) == ["nothing varies", "besides 1 dimension"]
    assert re.findall(r'<td class="number">([^<]*)<', shown) == ["&lt; 0.001", "0.9"]
    assert folded.count("<tr>") == 4
    assert "<td>nothing varies</td><td>a&lt;b</td>" in folded
    last = folded.split("<tr>")[-1]
    assert re.findall(r'<td class="number">([^<]*)<', last) == ["1", "–", "0.9"]


def make_worst(**kinds):
    columns = {"covariate": list(kinds), "kind": [kind for kind, _, _ in kinds.values()]}
    columns |= {"smd_before": [b for _, b, _ in kinds.values()]}
    return pd.DataFrame({**columns, "smd_after": [a for _, _, a in kinds.values()]})


def test_given_covariates_come_first():
    worst = make_worst(
        big=("feature", 3.0, 0.1), age=("given", 0.5, 0.0), sex=("given", 0.9, 0.0), z=("z", 2, 1)
    )
    assert plot_love(worst).rows == ("sex", "age", "big", "z")


def test_methods_are_compared_in_one_table_and_one_picture():
    table = pd.DataFrame(
        {
            "method": ["match", "over<lap"],
            "effective_sample_size": [412.0, NAN],
            "effective_share": [0.46, NAN],
            "largest_weight": [6.2, math.inf],
            "worst_smd_before": [1.3, 1.3],
            "worst_smd_after": [0.08, NAN],
            "mean_smd_after": [0.03, NAN],
            "information_before": [0.31, 0.31],
            "information_after": [0.004, NAN],
        }
    )
    drawn = make_methods(table).render()
    assert drawn.count("<svg") == 2
    assert "match: 1.3 before, 0.08 after" in drawn
    assert "over&lt;lap" in drawn
    row = drawn.split("<td>match</td>")[1].split("</tr>")[0]
    cells = ["412", "46\u202f%", "6.2", "1.3", "0.08", "0.03", "0.31", "0.004"]
    assert re.findall(r">([^<]+)</td>", row) == cells
    assert "nan" not in drawn.lower()
