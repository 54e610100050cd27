"""Sections on examples and model: the gallery, what z carries, identifiability, settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.balance import POOLED
from equipoise.latent import LatentChoice
from equipoise.report.figures import (
    MOST_FEATURES,
    MOST_LABELS,
    plot_counterfactuals,
    plot_effects,
    plot_traversals,
)
from equipoise.report.html import (
    Html,
    Section,
    element,
    embed_json,
    frame_figure,
    join,
    list_numbers,
    show_facts,
    write_note,
)
from equipoise.report.pictures import (
    Brightness,
    encode_image,
    is_image,
    is_small,
    to_rgb,
    write_number,
    write_share,
)
from equipoise.report.run import RunStory
from equipoise.report.study import (
    ShownAnchor,
    Study,
    choose_anchors,
    decode_counterfactuals,
    find_farthest,
    measure_effects,
    show_anchors,
    traverse_latent,
)
from equipoise.report.svg import name_cell, render_heat, render_images, render_table, scroll

Ints = NDArray[np.int64]

N_ANCHORS, N_FARTHEST = 32, 8
N_ROWS, N_FARTHEST_ROWS = 18, 6  # of a table or of texts, which say less at a glance
MOST_SMALL, MOST_LARGE = 1800, 800  # images; keeps a page within a few megabytes
N_FEATURES, N_EXAMPLES, N_SAMPLED = 8, 8, 1000
LONGEST_TEXT = 400
MOST_PAIRS = 24  # labels in the table of pairs
# Parameters of the VAE; they say nothing where none was fitted.
OF_VAE = (
    *("prior", "latent_dim", "reading", "hidden", "feature_noise"),
    *("max_steps", "batch_size", "lr", "device"),
)


# --- the gallery -------------------------------------------------------------------------------


def make_gallery(study: Study, seed: int) -> Section | None:
    """Anchors drawn at random from all labels and environments, and those matched worst."""
    if study.matches is None or (study.source is None and study.texts is None):
        return None
    matches, pictured = study.matches, _shows_images(study)
    generator = np.random.default_rng([seed, 0x6A11])
    n_drawn, n_farthest = (N_ANCHORS, N_FARTHEST) if pictured else (N_ROWS, N_FARTHEST_ROWS)
    n_labels = 12 if pictured else 6
    shown = min(n_labels, len(study.label_names) - 1) * (n_drawn + n_farthest)
    most = MOST_SMALL if is_small(study.input_shape) else MOST_LARGE
    per_label = 3 if 3 * shown <= most else 1
    drawn = choose_anchors(study.labels, study.environments, n_drawn, generator)
    groups = [
        (title, show_anchors(matches, rows, n_labels=n_labels, per_label=per_label))
        for title, rows in (
            ("Drawn at random", drawn),
            ("Matched worst", find_farthest(matches, n_farthest)),
        )
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
        settings = {"class_": f"anchors{layout}", "role": "group", "aria_label": title}
        buttons += [element("h3", title), element("div", join(row), **settings)]
    live = {"id": "gallery-detail", "aria_live": "polite", "aria_label": "Matches"}
    detail = element("div", class_="detail", **live)
    gallery = element("div", element("div", join(buttons)), detail, class_=f"gallery{layout}")
    data = embed_json("gallery-data", content)
    lead = _introduce_gallery(study, n_labels, pictured)
    return Section("gallery", "Anchors and their matches", lead, join([gallery, data]))


def _shows_images(study: Study) -> bool:
    return study.texts is None and is_image(study.input_shape)


def _introduce_gallery(study: Study, n_labels: int, pictured: bool) -> str:
    text = (
        "Choose an anchor, by mouse or arrow keys, to see which examples of other labels a "
        "balanced batch may put beside it. A good match has another label but the same spurious "
        f"covariate. Numbers are distances between scores ({study.diagnostics.metric})."
    )
    if len(study.label_names) - 1 > n_labels:
        text += f" The {n_labels} nearest of the {len(study.label_names) - 1} labels are shown."
    if not pictured and study.texts is None and len(study.feature_names) > N_FEATURES:
        text += f" Of {len(study.feature_names)} features, the {N_FEATURES} that differ most "
        text += "between labels are shown."
    return text


def _describe_examples(
    study: Study, anchors: list[ShownAnchor], generator: np.random.Generator
) -> dict[str, Any]:
    """All that the page's script needs, each example once."""
    members = {anchor.example for anchor in anchors}
    members |= {match.example for anchor in anchors for match in anchor.matches}
    rows = np.array(sorted(members), dtype=np.int64)
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
        "pixel": is_small(study.input_shape),
        "anchors": [
            {
                "i": anchor.example,
                "m": [[m.example, m.label, float(f"{m.distance:.4g}")] for m in anchor.matches],
                "n": anchor.n_near,
            }
            for anchor in anchors
        ],
    }
    if study.texts is not None:
        for row in rows.tolist():
            examples[str(row)]["t"] = _cut(str(study.texts[row]), LONGEST_TEXT)
    elif _shows_images(study):
        x = study.examples.fetch(rows)
        for row, image in zip(rows.tolist(), to_rgb(x, Brightness.of(x)), strict=True):
            examples[str(row)]["p"] = encode_image(image)
    else:
        shown = _choose_features(study, generator)
        content["features"] = [study.feature_names[i] for i in shown]
        values = study.examples.fetch(rows).flatten(1).double().numpy()[:, shown]
        for row, line in zip(rows.tolist(), values, strict=True):
            examples[str(row)]["v"] = [float(f"{value:.4g}") for value in line]
    return content


def _cut(text: str, n_at_most: int) -> str:
    return text if len(text) <= n_at_most else text[: n_at_most - 1] + "…"


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
        below = _cut(example["t"], 60) if "t" in example else f"row {anchor.example}, {environment}"
        inside = [element("b", label), element("span", below)]
    return element(
        "button",
        *inside,
        type="button",
        class_="anchor",
        data_anchor=place,
        aria_pressed="false",
        aria_label=f"Anchor {anchor.example}: {label}, environment {environment}",
    )


# --- what z carries ----------------------------------------------------------------------------


def make_latent(study: Study, seed: int) -> Section | None:
    """Images decoded with z kept or moved; of a table, what label and z do to its features."""
    if study.model is None or study.source is None:
        return None
    generator = np.random.default_rng([seed, 0x1A7E])
    sampled = study.draw_rows(N_SAMPLED, generator)
    if is_image(study.input_shape):
        lead = (
            "Each example is encoded, then decoded with its z kept and its label changed. What "
            "stays the same along a row is carried by z; what changes is carried by the label."
        )
        return Section("latent", "What z carries", lead, _draw_images(study, sampled, generator))
    effects = measure_effects(study.model, *study.take(sampled))
    lead = (
        "In the model, label and z decide every feature. With z kept, the label moves the "
        "features on the left; with the label kept, each z moves those on the right. Numbers are "
        "standard deviations of the feature, at the mean z."
    )
    n_features = len(study.feature_names)
    if n_features > MOST_FEATURES:
        lead += f" The {MOST_FEATURES} of {n_features} features that move most are shown."
    heats = [frame_figure(render_heat(heat)) for heat in plot_effects(effects, study)]
    body = element("div", *heats, class_="columns")
    return Section("latent", "What z carries", lead, body)


def _draw_images(study: Study, sampled: Ints, generator: np.random.Generator) -> Html:
    assert study.model is not None
    rows = choose_anchors(study.labels, study.environments, N_EXAMPLES, generator)
    counterfactuals = decode_counterfactuals(study.model, *study.take(rows))
    traversals = traverse_latent(study.model, *study.take(sampled))
    kept = plot_counterfactuals(counterfactuals, study.labels[rows], study.label_names)
    moved = plot_traversals(traversals, counterfactuals.originals)
    note = "The framed image is the plain reconstruction, under the example's own label."
    if len(study.label_names) > MOST_LABELS:
        note += f" The first {MOST_LABELS} of {len(study.label_names)} labels are shown."
    below = (
        "From the mean z, in standard deviations, decoded as "
        f"{study.label_names[traversals.label]}; the z that change most come first."
    )
    n_all = study.model.settings.latent_dim
    if len(traversals.dimensions) < n_all:
        below += f" {len(traversals.dimensions)} of {n_all} are shown."
    return join(
        [
            frame_figure(render_images(kept), write_note(note), title="z kept, y changed"),
            frame_figure(render_images(moved), write_note(below), title="One z moved at a time"),
        ]
    )


# --- identifiability ---------------------------------------------------------------------------


def make_identifiability(study: Study) -> Section | None:
    """Pairs available against needed, rank and condition of L, and what speaks for this Z."""
    if study.model is None:
        return None
    found = study.model.identifiability()
    within = study.model.identifiability_within_labels()
    needed = found.pairs_needed - 1
    best = max(each.pairs_available for each in within)
    facts = [
        (
            "(label, environment) pairs",
            f"{found.pairs_available}",
            f"{found.pairs_needed} needed for n·k = {needed}",
        ),
        ("rank of L", f"{found.rank}", f"of {needed}"),
        ("condition of L", write_number(found.condition), "1 is best; above 1,000 is fragile"),
        (
            "condition (3) of Theorem 3.3",
            "holds" if found.holds else "does not hold",
            "counting pairs, as the paper does",
        ),
        (
            "labels identified by their own environments",
            f"{sum(each.holds for each in within)}",
            f"of {len(within)}; {within[0].pairs_needed} environments needed, at most {best} seen",
        ),
    ]
    columns = element("div", _list_strengths(study), _draw_pairs(study), class_="columns spaced")
    return Section(
        "identifiability",
        "Is Z identified?",
        "Z is found by how its link with the label changes between environments. For that, the "
        "matrix L of Theorem 3.3 must have full rank: as many independent changes as Z has "
        "dimensions. Pairs of other labels help only as far as all labels share one network.",
        join([show_facts(facts), _list_candidates(study.balancer.latent_choice_), columns]),
    )


def _list_strengths(study: Study) -> Html | None:
    """How far z predicts the label in each environment."""
    information = study.diagnostics.information
    strength = information[(information["kind"] == "z") & (information["environment"] != POOLED)]
    strength = strength[strength["before"].notna()]
    if strength.empty:
        return None
    rows = [
        (row.environment, write_share(row.before / max(row.label_entropy, 1e-12)))
        for row in strength.itertuples()
    ]
    note = "A spurious link changes between environments; the label's own content does not."
    table = list_numbers(["environment", "label entropy predicted"], rows)
    return frame_figure(table, write_note(note), title="How well Z predicts the label")


def _draw_pairs(study: Study) -> Html:
    assert study.model is not None
    reference, *spanning = study.model.identifiability().pairs
    counts = study.model.label_counts.T.cpu().numpy()  # [m, E]
    head = [element("th", "", scope="col")]
    head += [name_cell(name, "col") for name in study.environment_names]
    body = []
    for label, name in list(enumerate(study.label_names))[:MOST_PAIRS]:
        row = [name_cell(name, "row")]
        for environment in range(len(study.environment_names)):
            seen = int(counts[label, environment])
            told = f"{seen:,} examples"
            if (label, environment) == reference:
                row.append(element("td", "◆", class_="base", title=told + ", the reference"))
            elif (label, environment) in spanning:
                row.append(element("td", "●", class_="span", title=told + ", spans L"))
            else:
                row.append(element("td", "○" if seen else "", class_="seen", title=told))
        body.append(row)
    note = "◆ the reference pair · ● pairs whose differences from it span L · ○ further pairs"
    if len(study.label_names) > MOST_PAIRS:
        note += f" · the first {MOST_PAIRS} of {len(study.label_names)} labels"
    table = scroll(render_table(head, body, class_="pairs"), label="Pairs behind L")
    return frame_figure(table, write_note(note), title="The pairs behind L")


def _list_candidates(choice: LatentChoice | None) -> Html | None:
    """How n, k and the prior were chosen: the reason, and a row for each candidate."""
    if choice is None:
        return None
    rows = [
        [
            candidate.prior,
            "chosen"
            if (candidate.prior, candidate.latent_dim) == (choice.prior, choice.latent_dim)
            else "",
            str(candidate.latent_dim),
            str(candidate.statistics),
            f"{candidate.negative_elbo:.2f}",
            "yes" if candidate.pairs_hold else "no",
            "yes" if candidate.labels_hold else "no",
            write_number(candidate.condition),
        ]
        for candidate in sorted(choice.candidates, key=lambda each: each.negative_elbo)
    ]
    columns = ["prior", "", "n", "k", "held-out −ELBO", "pairs identify it", "every label does"]
    note = (
        "n: latent size · k: statistics of a dimension · less −ELBO explains held-out examples "
        "better, in nats an example · condition: of the worst label's own L"
    )
    table = list_numbers([*columns, "condition"], rows, n_text=2)
    title = "How its size was chosen"
    return frame_figure(element("p", choice.sentence), table, write_note(note), title=title)


# --- settings ----------------------------------------------------------------------------------


def make_settings_section(study: Study | None, story: RunStory | None) -> Section:
    """The run's settings and command, the balancer's parameters and call."""
    parts = []
    if story is not None:
        settings: list[list[str]] = []
        for name, value in story.settings.to_json().items():
            inner = value.items() if isinstance(value, Mapping) else [("", value)]
            settings += [[f"{name}.{key}".rstrip("."), _write(each)] for key, each in inner]
        table = list_numbers(["setting", "value"], settings, n_text=2)
        parts += [element("h3", "The command"), element("pre", story.command)]
        parts.append(frame_figure(table, title="The run"))
    if study is not None:
        call = f"{study.balancer!r}.fit(X, y, environments)"
        parts += [element("h3", "The balancer"), element("pre", call)]
        table = list_numbers(["parameter", "value"], _list_parameters(study), n_text=2)
        parts.append(frame_figure(table, title="Its parameters"))
    lead = (
        "The same settings, seeds and data give the same result, bit for bit, on the same "
        f"machine. Made by equipoise {__version__}."
    )
    return Section("settings", "How it was made", lead, join(parts))


def _list_parameters(study: Study) -> list[list[str]]:
    balancer = study.balancer
    given: dict[str, Any] = balancer.get_params()
    chosen: dict[str, Any] = {"n_matches": balancer.n_matches_}
    if balancer.score_.reading:
        chosen["reading"] = balancer.score_.reading
    if study.model is None:
        given = {name: value for name, value in given.items() if name not in OF_VAE}
    else:
        used = study.model.settings
        chosen |= {"latent_dim": used.latent_dim, "hidden": used.hidden, "prior": used.prior}
    rows = []
    for name, value in given.items():
        used = chosen.get(name, value)
        told = ""
        if used != value:
            told = " (chosen, as none was given)" if value is None else f" (chosen by {value!r})"
        rows.append([name, _write(used) + told])
    return rows


def _write(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return str(value)
