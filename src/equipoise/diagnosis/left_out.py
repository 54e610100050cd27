"""What balanced batches never show: examples without a match, and environments that are gone."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from equipoise.balance.groups import POOLED


@dataclass(frozen=True)
class LeftOut:
    """How many examples never appear, of how many, and where nothing, or too little, is left.

    `gone` and `few` are the rows of `tabulate_information` on z of those environments: trimming
    that deletes the data must not pass for balance.
    """

    examples: int
    of: int
    gone: pd.DataFrame
    few: pd.DataFrame

    @property
    def share(self) -> float:
        return self.examples / self.of

    @property
    def is_much(self) -> bool:
        """Half of all examples, or all of an environment."""
        return self.share >= 0.5 or len(self.gone) > 0


def find_left_out(information: pd.DataFrame) -> LeftOut:
    """Read from the rows on z who is left out.

    >>> row = {"kind": "z", "before": 0.5, "label_entropy": 0.7, "examples": 600}
    >>> places = [{"environment": "rome", "left": 0}, {"environment": "oslo", "left": 600}]
    >>> found = find_left_out(pd.DataFrame([row | {"after": 0.1} | place for place in places]))
    >>> found.examples, found.share, found.gone["environment"].tolist(), found.is_much
    (600, 0.5, ['rome'], True)
    """
    rows = information[(information["kind"] == "z") & (information["environment"] != POOLED)]
    total, left = int(rows["examples"].sum()), int(rows["left"].sum())
    few = rows[(rows["left"] > 0) & rows["after"].isna() & rows["before"].notna()]
    return LeftOut(total - left, total, rows[rows["left"] == 0], few)
