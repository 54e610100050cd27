"""Anchors to click, each with its matches, their scores and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.report.anchors import ShownAnchor, choose_anchors, find_farthest, show_anchors
from equipoise.report.html import Html, element, embed_json, join
from equipoise.report.pictures import (
    Brightness,
    encode_picture,
    is_picture,
    is_small_picture,
    make_pictures,
)
from equipoise.report.sections.section import Section
from equipoise.report.study import Study

Ints = NDArray[np.int64]

N_ANCHORS, N_FARTHEST = 32, 8
N_ROWS, N_FARTHEST_ROWS = 18, 6  # of a table, whose rows say less at a glance
MOST_SMALL, MOST_LARGE = 1800, 800  # pictures; keeps a page within a few megabytes
N_FEATURES = 8


def make_gallery(study: Study, seed: int) -> Section:
    """Anchors drawn at random from all labels and environments, and those matched worst."""
    matches, pictured = study.matches, is_picture(study.input_shape)
    generator = np.random.default_rng([seed, 0x6A11])
    n_drawn, n_farthest = (N_ANCHORS, N_FARTHEST) if pictured else (N_ROWS, N_FARTHEST_ROWS)
    drawn = choose_anchors(study.labels, study.environments, n_drawn, generator)
    farthest = find_farthest(matches, n_farthest)
    n_labels = 12 if pictured else 6
    shown = min(n_labels, len(study.label_names) - 1) * (n_drawn + n_farthest)
    most = MOST_SMALL if is_small_picture(study.input_shape) else MOST_LARGE
    per_label = 3 if 3 * shown <= most else 1
    groups = [
        (title, show_anchors(matches, rows, n_labels=n_labels, per_label=per_label))
        for title, rows in (("Drawn at random", drawn), ("Matched worst", farthest))
    ]
    anchors = [anchor for _, group in groups for anchor in group]
    content = _describe_examples(study, anchors, generator)
    buttons, place = [], 0
    layout = "" if pictured else " rows"
    for title, group in groups:
        if not group:
            continue
        row = [_draw_button(study, content, anchor, place + i) for i, anchor in enumerate(group)]
        place += len(group)
        kind = f"anchors{layout}"
        buttons.append(element("h3", title))
        buttons.append(element("div", join(row), class_=kind, role="group", aria_label=title))
    detail = element(
        "div", class_="detail", id="gallery-detail", aria_live="polite", aria_label="Matches"
    )
    gallery = element("div", element("div", join(buttons)), detail, class_=f"gallery{layout}")
    return Section(
        "gallery",
        "Anchors and their matches",
        _lead(study, n_labels, pictured),
        join([gallery, embed_json("gallery-data", content)]),
    )


def _lead(study: Study, n_labels: int, pictured: bool) -> str:
    text = (
        "Choose an anchor, by mouse or arrow keys, and see which examples of other labels a "
        "balanced batch may put beside it. Numbers are distances between scores "
        f"({study.matches.metric}); a good match differs from its anchor in the label "
        "and not in what was spurious."
    )
    if len(study.label_names) - 1 > n_labels:
        text += f" The {n_labels} nearest of the {len(study.label_names) - 1} labels are shown."
    if not pictured and len(study.feature_names) > N_FEATURES:
        text += f" Of {len(study.feature_names)} features the {N_FEATURES} that differ most "
        text += "between labels are shown."
    return text


def _describe_examples(
    study: Study, anchors: list[ShownAnchor], generator: np.random.Generator
) -> dict[str, Any]:
    """All that the page's script needs, each example once."""
    members = {anchor.example for anchor in anchors}
    members |= {match.example for anchor in anchors for match in anchor.matches}
    rows = np.array(sorted(members), dtype=np.int64)
    x = study.examples.fetch(rows)
    scores = np.exp(study.log_scores[rows])
    examples: dict[str, Any] = {}
    for i, row in enumerate(rows.tolist()):
        examples[str(row)] = {
            "y": int(study.labels[row]),
            "e": int(study.environments[row]),
            "s": [float(f"{p:.3g}") for p in scores[i]],
        }
    content: dict[str, Any] = {
        "labels": list(study.label_names),
        "environments": list(study.environment_names),
        "examples": examples,
        "features": None,
        "pixel": is_small_picture(study.input_shape),
        "anchors": [
            {
                "i": anchor.example,
                "m": [[m.example, m.label, float(f"{m.distance:.4g}")] for m in anchor.matches],
                "n": anchor.n_near,
            }
            for anchor in anchors
        ],
    }
    if is_picture(study.input_shape):
        pictures = make_pictures(x, Brightness.of(x))
        for row, picture in zip(rows.tolist(), pictures, strict=True):
            examples[str(row)]["p"] = encode_picture(picture)
    else:
        shown = _choose_features(study, generator)
        content["features"] = [study.feature_names[i] for i in shown]
        values = x.flatten(1).double().numpy()[:, shown]
        for row, line in zip(rows.tolist(), values, strict=True):
            examples[str(row)]["v"] = [float(f"{value:.4g}") for value in line]
    return content


def _choose_features(study: Study, generator: np.random.Generator) -> list[int]:
    """The features whose label means lie farthest apart, in the order of the table."""
    n_features = len(study.feature_names)
    if n_features <= N_FEATURES:
        return list(range(n_features))
    rows = study.draw_rows(2000, generator)
    x = study.examples.fetch(rows).flatten(1).double().numpy()
    present = np.unique(study.labels[rows])
    means = np.stack([x[study.labels[rows] == label].mean(axis=0) for label in present])
    spread = means.std(axis=0) / np.maximum(x.std(axis=0), 1e-12)
    return sorted(np.argsort(-spread, kind="stable")[:N_FEATURES].tolist())


def _draw_button(study: Study, content: dict[str, Any], anchor: ShownAnchor, place: int) -> Html:
    example = content["examples"][str(anchor.example)]
    label = study.label_names[example["y"]]
    environment = study.environment_names[example["e"]]
    if "p" in example:
        kind = "pixel" if content["pixel"] else None
        inside = [element("img", src=example["p"], alt="", class_=kind), element("span", label)]
    else:
        inside = [element("b", label), element("span", f"row {anchor.example}, {environment}")]
    return element(
        "button",
        *inside,
        type="button",
        class_="anchor",
        data_anchor=place,
        aria_pressed="false",
        aria_label=f"Anchor {anchor.example}: {label}, environment {environment}",
    )
