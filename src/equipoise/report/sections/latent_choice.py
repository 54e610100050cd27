"""How n, k and the prior were chosen, where the balancer was asked to choose them."""

from __future__ import annotations

from equipoise.latent.choice import LatentCandidate, LatentChoice
from equipoise.report.charts.frame import write_number
from equipoise.report.html import Html, element
from equipoise.report.sections.section import frame_figure, list_numbers

COLUMNS = (
    "prior",
    "",
    "n",
    "k",
    "held-out −ELBO",
    "pairs tell it apart",
    "every label does",
    "condition",
)


def draw_choice(choice: LatentChoice | None) -> Html | None:
    """The reason in a sentence and a row for each candidate, the best explanation first."""
    if choice is None:
        return None
    ordered = sorted(choice.candidates, key=lambda candidate: candidate.negative_elbo)
    rows = [_write_row(candidate, choice) for candidate in ordered]
    return frame_figure(
        element("p", choice.sentence),
        list_numbers(COLUMNS, rows, n_text=2),
        element(
            "p",
            "n: latent size · k: statistics of a dimension · less −ELBO explains held-out examples "
            "better, in nats an example · condition: of the worst label's own L",
            class_="note",
        ),
        title="How its size was chosen",
    )


def _write_row(candidate: LatentCandidate, choice: LatentChoice) -> list[str]:
    chosen = (candidate.prior, candidate.latent_dim) == (choice.prior, choice.latent_dim)
    return [
        candidate.prior,
        "chosen" if chosen else "",
        str(candidate.latent_dim),
        str(candidate.statistics),
        f"{candidate.negative_elbo:.2f}",
        "yes" if candidate.pairs_hold else "no",
        "yes" if candidate.labels_hold else "no",
        write_number(candidate.condition),
    ]
