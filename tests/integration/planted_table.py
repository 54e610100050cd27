"""A table with a planted confounder: three hospitals, two scanners, one illness."""

from __future__ import annotations

import numpy as np
import pandas as pd

HOSPITALS = ("north", "south", "west")


def make_planted_table(
    n: int = 3000, *, strengths: tuple[float, ...] = (0.9, 0.8, 0.7), seed: int = 0
) -> pd.DataFrame:
    """Patients, whose scanner goes with the illness, in each hospital to another degree.

    The scanner writes itself into three of its readings; the illness shows faintly in two others.
    `scanner` is the truth and no column to learn from.
    """
    rng = np.random.default_rng(seed)
    hospital = rng.integers(len(strengths), size=n)
    ill = rng.integers(2, size=n)
    as_usual = rng.random(n) < np.asarray(strengths)[hospital]
    scanner = np.where(as_usual, ill, 1 - ill)
    noise = rng.normal(size=(5, n))
    return pd.DataFrame(
        {
            "contrast": 40 + 8 * scanner + 1.0 * noise[0],
            "brightness": 0.3 - 0.1 * scanner + 0.015 * noise[1],
            "sharpness": 2 + 1.0 * scanner + 0.15 * noise[2],
            "marker": 1.2 * ill + noise[3],
            "fever": 37 + 0.9 * ill + noise[4],
            "ill": np.array(["no", "yes"])[ill],
            "hospital": np.array(HOSPITALS)[hospital],
            "scanner": np.array(["old", "new"])[scanner],
        }
    )
