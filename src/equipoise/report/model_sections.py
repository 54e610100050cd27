"""Sections on examples and model: the gallery, what z carries, identifiability, settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise import __version__
from equipoise.balance import POOLED
from equipoise.latent import LatentChoice, LatentCovariateModel
from equipoise.report import pictures as pic
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
from equipoise.report.run import RunStory
from equipoise.report.study import (
    Ints,
    ShownAnchor,
    Study,
    choose_anchors,
    decode_counterfactuals,
    find_farthest,
    measure_effects,
    show_anchors,
    traverse_latent,
)
from equipoise.report.svg import render_heat, render_images, render_table, scroll

# Anchors drawn at random, those matched worst, and labels beside each; of images there are more
# than of rows and texts, which say less at a glance.
SIZES = {True: (32, 8, 12), False: (18, 6, 6)}
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
    if study.matches is None or (study.found.source is None and study.texts is None):
        return None
    matches, pictured = study.matches, study.texts is None and pic.is_image(study.input_shape)
    generator = np.random.default_rng([seed, 0x6A11])
    n_drawn, n_farthest, n_labels = SIZES[pictured]
    n_others = len(study.label_names) - 1
    shown = min(n_labels, n_others) * (n_drawn + n_farthest)
    most = MOST_SMALL if pic.is_small(study.input_shape) else MOST_LARGE
    per_label = 3 if 3 * shown <= most else 1
    drawn = choose_anchors(study.found.labels, study.found.environments, n_drawn, generator)
    farthest = find_farthest(matches, n_farthest)
    anchors = show_anchors(
        matches, np.append(drawn, farthest), n_labels=n_labels, per_label=per_label
    )
    content = _describe_examples(study, anchors, pictured, generator)
    lead = (
        "Choose an anchor, by mouse or arrow keys, to see which examples of other labels a "
        "balanced batch may put beside it. A good match has another label but the same spurious "
        f"covariate. Numbers are distances between scores ({study.diagnostics.metric})."
    )
    if n_others > n_labels:
        lead += f" The {n_labels} nearest of the {n_others} labels are shown."
    if content["features"] and len(study.feature_names) > N_FEATURES:
        lead += f" Of {len(study.feature_names)} features, the {N_FEATURES} that differ most "
        lead += "between labels are shown."
    buttons = [_draw_button(study, content, anchor, i) for i, anchor in enumerate(anchors)]
    layout, parts = "" if pictured else " rows", []
    for title, row in (
        ("Drawn at random", buttons[: len(drawn)]),
        ("Matched worst", buttons[len(drawn) :]),
    ):
        if row:
            settings = {"class_": f"anchors{layout}", "role": "group", "aria_label": title}
            parts += [element("h3", title), element("div", *row, **settings)]
    live = {"id": "gallery-detail", "aria_live": "polite", "aria_label": "Matches"}
    detail = element("div", class_="detail", **live)
    gallery = element("div", element("div", *parts), detail, class_=f"gallery{layout}")
    body = join([gallery, embed_json("gallery-data", content)])
    return Section("gallery", "Anchors and their matches", lead, body)


def _describe_examples(
    study: Study, anchors: Sequence[ShownAnchor], pictured: bool, generator: np.random.Generator
) -> dict[str, Any]:
    """All that the page's script needs, each example once."""
    members = {anchor.example for anchor in anchors}
    members |= {match.example for anchor in anchors for match in anchor.matches}
    rows = np.array(sorted(members), dtype=np.int64)
    features = None
    shown: Iterable[Any]
    if study.texts is not None:
        kind, shown = "t", (_cut(str(study.texts[row]), LONGEST_TEXT) for row in rows)
    elif pictured:
        x = study.found.source.fetch(rows)
        kind, shown = "p", map(pic.encode_image, pic.to_rgb(x, pic.find_brightness(x)))
    else:
        places = _choose_features(study, generator)
        features = [study.feature_names[i] for i in places]
        values = study.found.source.fetch(rows).flatten(1).double().numpy()[:, places]
        kind, shown = "v", ([float(f"{value:.4g}") for value in line] for line in values)
    scores = np.exp(study.found.log_scores[rows])
    return {
        "labels": list(study.label_names),
        "environments": list(study.environment_names),
        "examples": {
            str(row): {
                "y": int(study.found.labels[row]),
                "e": int(study.found.environments[row]),
                "s": [float(f"{p:.3g}") for p in score],
                kind: what,
            }
            for row, score, what in zip(rows.tolist(), scores, shown, strict=True)
        },
        "features": features,
        "pixel": pic.is_small(study.input_shape),
        "anchors": [
            {
                "i": anchor.example,
                "m": [[m.example, m.label, float(f"{m.distance:.4g}")] for m in anchor.matches],
                "n": anchor.n_near,
            }
            for anchor in anchors
        ],
    }


def _cut(text: str, n_at_most: int) -> str:
    return text if len(text) <= n_at_most else text[: n_at_most - 1] + "…"


def _choose_features(study: Study, generator: np.random.Generator) -> list[int]:
    """The features whose label means lie farthest apart, in the order of the table."""
    n_features = len(study.feature_names)
    if n_features <= N_FEATURES:
        return list(range(n_features))
    rows = study.draw_rows(2000, generator)
    x, labels = study.found.source.fetch(rows).flatten(1).double().numpy(), study.found.labels[rows]
    means = np.stack([x[labels == label].mean(axis=0) for label in np.unique(labels)])
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
    told = f"Anchor {anchor.example}: {label}, environment {environment}"
    settings = {"data_anchor": place, "aria_pressed": "false", "aria_label": told}
    return element("button", *inside, type="button", class_="anchor", **settings)


# --- what z carries ----------------------------------------------------------------------------


def make_latent(study: Study, seed: int) -> Section | None:
    """Images decoded with z kept or moved; of a table, what label and z do to its features."""
    if study.model is None or study.found.source is None:
        return None
    generator = np.random.default_rng([seed, 0x1A7E])
    sampled = study.draw_rows(N_SAMPLED, generator)
    if pic.is_image(study.input_shape):
        lead = (
            "Each example is encoded, then decoded with its z kept and its label changed. What "
            "stays the same along a row is carried by z; what changes is carried by the label."
        )
        rows = choose_anchors(study.found.labels, study.found.environments, N_EXAMPLES, generator)
        body = join(_draw_images(study, study.model, rows, sampled))
        return Section("latent", "What z carries", lead, body)
    lead = (
        "In the model, label and z decide every feature. With z kept, the label moves the "
        "features on the left; with the label kept, each z moves those on the right. Numbers are "
        "standard deviations of the feature, at the mean z."
    )
    if len(study.feature_names) > MOST_FEATURES:
        lead += f" The {MOST_FEATURES} of {len(study.feature_names)} features that move most are "
        lead += "shown."
    effects = measure_effects(study.model, study.take(sampled))
    heats = [frame_figure(render_heat(heat)) for heat in plot_effects(effects, study)]
    return Section("latent", "What z carries", lead, element("div", *heats, class_="columns"))


def _draw_images(
    study: Study, model: LatentCovariateModel, rows: Ints, sampled: Ints
) -> Iterator[Html]:
    counterfactuals = decode_counterfactuals(model, *study.take(rows))
    kept = plot_counterfactuals(counterfactuals, study.found.labels[rows], study.label_names)
    note = "The framed image is the plain reconstruction, under the example's own label."
    if len(study.label_names) > MOST_LABELS:
        note += f" The first {MOST_LABELS} of {len(study.label_names)} labels are shown."
    yield frame_figure(render_images(kept), write_note(note), title="z kept, y changed")
    traversals = traverse_latent(model, study.take(sampled))
    moved = plot_traversals(traversals, counterfactuals.originals)
    note = (
        "From the mean z, in standard deviations, decoded as "
        f"{study.label_names[traversals.label]}; the z that change most come first."
    )
    n_shown, n_all = len(traversals.dimensions), model.settings.latent_dim
    note += f" {n_shown} of {n_all} are shown." if n_shown < n_all else ""
    yield frame_figure(render_images(moved), write_note(note), title="One z moved at a time")


# --- identifiability ---------------------------------------------------------------------------


def make_identifiability(study: Study) -> Section | None:
    """Pairs available against needed, rank and condition of L, and what speaks for this Z."""
    if study.model is None:
        return None
    found = study.model.identifiability()
    within = study.model.identifiability_within_labels()
    needed = found.pairs_needed - 1
    own = f"{within[0].pairs_needed} environments needed, "
    own += f"at most {max(each.pairs_available for each in within)} seen"
    facts = [
        (
            "(label, environment) pairs",
            f"{found.pairs_available}",
            f"{found.pairs_needed} needed for n·k = {needed}",
        ),
        ("rank of L", f"{found.rank}", f"of {needed}"),
        ("condition of L", pic.write_number(found.condition), "1 is best; above 1,000 is fragile"),
        (
            "condition (3) of Theorem 3.3",
            "holds" if found.holds else "does not hold",
            "counting pairs, as the paper does",
        ),
        (
            "labels identified by their own environments",
            f"{sum(each.holds for each in within)}",
            f"of {len(within)}; {own}",
        ),
    ]
    pairs = _draw_pairs(study, found.pairs, study.model.label_counts.T.long().cpu().numpy())
    columns = element("div", _list_strengths(study), pairs, class_="columns spaced")
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
    table = study.diagnostics.information
    table = table[(table["kind"] == "z") & (table["environment"] != POOLED)]
    table = table[table["before"].notna()]
    if table.empty:
        return None
    shares = table["before"] / table["label_entropy"].clip(lower=1e-12)
    rows = zip(table["environment"], map(pic.write_share, shares), strict=True)
    listed = list_numbers(["environment", "label entropy predicted"], rows)
    note = "A spurious link changes between environments; the label's own content does not."
    return frame_figure(listed, write_note(note), title="How well Z predicts the label")


def _draw_pairs(study: Study, pairs: Sequence[tuple[int, int]], counts: Ints) -> Html:
    """Which pairs L is made of; counts are of examples [m, E]."""
    marks = dict.fromkeys(pairs, ("●", "span", ", spans L"))
    marks[pairs[0]] = "◆", "base", ", the reference"
    body = []
    for label, own in enumerate(counts[:MOST_PAIRS].tolist()):
        row = []
        for environment, seen in enumerate(own):
            plain = "○" if seen else "", "seen", ""
            sign, kind, role = marks.get((label, environment), plain)
            row.append(element("td", sign, class_=kind, title=f"{seen:,} examples{role}"))
        body.append(row)
    note = "◆ the reference pair · ● pairs whose differences from it span L · ○ further pairs"
    if len(study.label_names) > MOST_PAIRS:
        note += f" · the first {MOST_PAIRS} of {len(study.label_names)} labels"
    names = study.environment_names, study.label_names[:MOST_PAIRS]
    table = render_table(element("th", "", scope="col"), *names, body, class_="pairs")
    shown = scroll(table, label="Pairs behind L")
    return frame_figure(shown, write_note(note), title="The pairs behind L")


def _list_candidates(choice: LatentChoice | None) -> Html | None:
    """How n, k and the prior were chosen: the reason, and a row for each candidate."""
    if choice is None:
        return None
    rows = [
        [
            each.prior,
            "chosen" if (each.prior, each.latent_dim) == (choice.prior, choice.latent_dim) else "",
            str(each.latent_dim),
            str(each.statistics),
            f"{each.negative_elbo:.2f}",
            "yes" if each.pairs_hold else "no",
            "yes" if each.labels_hold else "no",
            pic.write_number(each.condition),
        ]
        for each in sorted(choice.candidates, key=lambda each: each.negative_elbo)
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
        chosen |= {n: getattr(study.model.settings, n) for n in ("latent_dim", "hidden", "prior")}
    rows = []
    for name, value in given.items():
        told = " (chosen, as none was given)" if value is None else f" (chosen by {value!r})"
        used = chosen.get(name, value)
        rows.append([name, _write(used) + (told if used != value else "")])
    return rows


def _write(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list | tuple):
        return ", ".join(str(each) for each in value)
    return str(value)
