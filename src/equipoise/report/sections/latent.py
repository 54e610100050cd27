"""What the model says label and z do: counterfactuals, traversals, effects on features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from equipoise.report.anchors import choose_anchors
from equipoise.report.charts.frame import write_number
from equipoise.report.charts.heat import draw_heat
from equipoise.report.html import Html, element, join
from equipoise.report.latent_views import (
    Counterfactuals,
    FeatureEffects,
    Traversals,
    decode_counterfactuals,
    measure_effects,
    traverse_latent,
    write_offset,
)
from equipoise.report.pictures import (
    Brightness,
    encode_picture,
    is_picture,
    is_small_picture,
    make_pictures,
)
from equipoise.report.sections.section import Section, frame_figure
from equipoise.report.study import Study

N_EXAMPLES, N_LABELS, N_FEATURES, N_SAMPLED = 8, 12, 14, 1000


def make_latent(study: Study, seed: int) -> Section:
    """Pictures for images, tables of effects for feature vectors."""
    generator = np.random.default_rng([seed, 0x1A7E])
    sampled = study.draw_rows(N_SAMPLED, generator)
    if is_picture(study.input_shape):
        return _show_pictures(study, sampled, generator)
    return _show_effects(study, sampled)


def _show_pictures(
    study: Study, sampled: NDArray[np.int64], generator: np.random.Generator
) -> Section:
    model = study.balancer.latent_model_
    examples = choose_anchors(study.labels, study.environments, N_EXAMPLES, generator)
    counterfactuals = decode_counterfactuals(model, *study.take(examples))
    traversals = traverse_latent(model, *study.take(sampled))
    brightness = Brightness.of(counterfactuals.originals)
    return Section(
        "latent",
        "What z carries",
        "Each example is encoded, then decoded with its z kept and its label changed. What stays "
        "the same along a row is carried by z, what changes is carried by the label.",
        join(
            [
                frame_figure(
                    _draw_counterfactuals(study, counterfactuals, brightness),
                    title="z kept, y changed",
                ),
                frame_figure(
                    _draw_traversals(study, traversals, brightness), title="One z moved at a time"
                ),
            ]
        ),
    )


def _draw_counterfactuals(study: Study, found: Counterfactuals, brightness: Brightness) -> Html:
    labels = list(range(len(study.label_names)))[:N_LABELS]
    head = [element("th"), element("th", "example", scope="col")]
    head += [_name(study.label_names[label], "col") for label in labels]
    rows = []
    for i, example in enumerate(found.examples.tolist()):
        own = int(study.labels[example])
        cells = [_name(study.label_names[own], "row")]
        cells.append(_draw_cell(found.originals[i], brightness, "first"))
        cells += [
            _draw_cell(found.decoded[i, label], brightness, "own" if label == own else None)
            for label in labels
        ]
        rows.append(element("tr", join(cells)))
    note = "The framed picture is the plain reconstruction, under the example's own label."
    if len(labels) < len(study.label_names):
        note += f" The first {N_LABELS} of {len(study.label_names)} labels are shown."
    return join([_draw_table(head, rows, "Counterfactuals"), element("p", note, class_="note")])


def _draw_traversals(study: Study, found: Traversals, brightness: Brightness) -> Html:
    head = [element("th")]
    head += [element("th", write_offset(offset), scope="col") for offset in found.offsets]
    rows = []
    for i, dimension in enumerate(found.dimensions):
        cells = [_name(f"z{dimension + 1}", "row")]
        cells += [_draw_cell(picture, brightness, None) for picture in found.decoded[i]]
        rows.append(element("tr", join(cells)))
    note = (
        f"From the mean z, in standard deviations, decoded as {study.label_names[found.label]}; "
        "the z that change most come first."
    )
    n_all = study.balancer.latent_model_.settings.latent_dim
    if len(found.dimensions) < n_all:
        note += f" {len(found.dimensions)} of {n_all} are shown."
    return join([_draw_table(head, rows, "Traversals"), element("p", note, class_="note")])


def _draw_cell(picture: Tensor, brightness: Brightness, kind: str | None) -> Html:
    pixels = make_pictures(picture[None], brightness)[0]
    sharp = "pixel" if is_small_picture(pixels.shape[:2]) else None
    return element(
        "td", element("img", src=encode_picture(pixels), alt="", class_=sharp), class_=kind
    )


def _draw_table(head: list[Html], rows: list[Html], what: str) -> Html:
    table = element(
        "table",
        element("thead", element("tr", join(head))),
        element("tbody", join(rows)),
        class_="pictures",
    )
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=what)


def _name(name: str, scope: str) -> Html:
    return element("th", element("span", name), scope=scope, title=name)


def _show_effects(study: Study, sampled: NDArray[np.int64]) -> Section:
    effects = measure_effects(study.balancer.latent_model_, *study.take(sampled))
    shown = choose_features(effects)
    names = [study.feature_names[i] for i in shown]
    lead = (
        "The model writes every feature as something that label and z decide. With z kept, the "
        "label moves the features on the left; with the label kept, each z moves those on the "
        "right. In standard deviations of the feature, at the mean z."
    )
    if len(shown) < len(study.feature_names):
        lead += (
            f" The {len(shown)} of {len(study.feature_names)} features that move most are shown."
        )
    by_label = draw_heat(
        effects.by_label[shown][:, :N_LABELS],
        names,
        study.label_names[:N_LABELS],
        caption="z kept, y changed",
        write=_write_effect,
        full=2.0,
    )
    by_z = draw_heat(
        effects.by_z[shown],
        names,
        [f"z{i + 1}" for i in range(effects.by_z.shape[1])],
        caption="y kept, one z from −1 to +1 standard deviation",
        write=_write_effect,
        full=2.0,
    )
    columns = element("div", frame_figure(by_label), frame_figure(by_z), class_="columns")
    return Section("latent", "What z carries", lead, columns)


def choose_features(effects: FeatureEffects) -> NDArray[np.int64]:
    """The features that label or z move most, in the order of the table."""
    strength = np.abs(effects.by_label).max(axis=1) + np.abs(effects.by_z).max(axis=1)
    return np.sort(np.argsort(-strength, kind="stable")[:N_FEATURES])


def _write_effect(value: float) -> str:
    return write_number(round(value, 2)) if abs(value) >= 0.005 else "0"
