"""Whether the data can pin Z down: Theorem 3.3."""

from __future__ import annotations

from equipoise.diagnosis.diagnostics import BalanceDiagnostics
from equipoise.report.charts.frame import write_number, write_share
from equipoise.report.html import Html, element, join
from equipoise.report.sections.latent_choice import draw_choice
from equipoise.report.sections.section import Section, frame_figure, list_numbers
from equipoise.report.study import Study

MOST_LABELS = 24


def make_identifiability(study: Study, diagnostics: BalanceDiagnostics) -> Section:
    """Pairs available against needed, rank and condition of L, and what speaks for this Z."""
    found = study.balancer.latent_model_.identifiability()
    needed = found.pairs_needed - 1
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
        _tell_labels(study),
    ]
    cards = [
        element("div", element("dt", name), element("dd", value, note and element("small", note)))
        for name, value, note in facts
    ]
    return Section(
        "identifiability",
        "Can Z be told apart?",
        "Z is found by how its link with the label changes between environments. For that, the "
        "prior's parameters over (label, environment) pairs must span as many directions as Z "
        "has: the matrix L of their differences must have full rank. Pairs of other labels help "
        "only as far as all labels share one network; without that, every label's own "
        "environments must span all directions.",
        join(
            [
                element("dl", join(cards), class_="figures"),
                draw_choice(study.balancer.latent_choice_),
                element(
                    "div", _list_strengths(diagnostics), _draw_pairs(study), class_="columns spaced"
                ),
            ]
        ),
    )


def _tell_labels(study: Study) -> tuple[str, str, str]:
    """For how many labels their own environments suffice; a card."""
    within = study.balancer.latent_model_.identifiability_within_labels()
    told = sum(found.holds for found in within)
    best = max(found.pairs_available for found in within)
    note = f"of {len(within)}; {within[0].pairs_needed} environments needed, at most {best} seen"
    return "labels told by their own environments", f"{told}", note


def _list_strengths(diagnostics: BalanceDiagnostics) -> Html | None:
    """What z tells in each environment: where it is the same in all, nothing tells Z apart."""
    strength = diagnostics.strength
    if strength.empty:
        return None
    rows = [
        (row.environment, write_share(max(row.told, 0.0)), f"± {100 * row.error:.1f}")
        for row in strength.itertuples()
    ]
    return frame_figure(
        list_numbers(["environment", "Z tells of the label", "points"], rows),
        element(
            "p",
            "From as many examples of each environment, all labels counting the same. What is "
            "spurious changes between environments; the label's own content does not.",
            class_="note",
        ),
        title="How strongly Z goes with the label",
    )


def _draw_pairs(study: Study) -> Html:
    model = study.balancer.latent_model_
    pairs = model.identifiability().pairs
    reference, spanning = pairs[0], set(pairs[1:])
    counts = model.label_counts.T.cpu().numpy()  # [m, E]
    head = [element("th", "", scope="col")]
    head += [
        element("th", element("span", name), scope="col", title=name)
        for name in study.environment_names
    ]
    rows = []
    for label, name in list(enumerate(study.label_names))[:MOST_LABELS]:
        cells = [element("th", element("span", name), scope="row", title=name)]
        for environment in range(len(study.environment_names)):
            seen = int(counts[label, environment])
            told = f"{seen:,} examples"
            if (label, environment) == reference:
                cells.append(element("td", "◆", class_="base", title=told + ", the reference"))
            elif (label, environment) in spanning:
                cells.append(element("td", "●", class_="span", title=told + ", spans L"))
            else:
                cells.append(element("td", "○" if seen else "", class_="seen", title=told))
        rows.append(element("tr", join(cells)))
    table = element(
        "table",
        element("thead", element("tr", join(head))),
        element("tbody", join(rows)),
        class_="pairs",
    )
    note = "◆ the reference pair · ● pairs whose differences from it span L · ○ pairs to spare"
    if len(study.label_names) > MOST_LABELS:
        note += f" · the first {MOST_LABELS} of {len(study.label_names)} labels"
    return frame_figure(
        element(
            "div", table, class_="scroll", tabindex="0", role="region", aria_label="Pairs behind L"
        ),
        element("p", note, class_="note"),
        title="The pairs behind L",
    )
