"""How a verdict writes points, shares, p-values and names."""

from __future__ import annotations

import math
from collections.abc import Sequence


def write_about(points: float) -> str:
    """Points in a sentence.

    >>> write_about(0.5), write_about(36.4)
    ('about 1 point', 'about 36 points')
    """
    rounded = math.floor(points + 0.5)
    return f"about {rounded} point{'' if rounded == 1 else 's'}"


def write_points(value: float, error: float) -> str:
    """Points with their standard error.

    >>> write_points(-0.31, 0.52)
    '−0.3 ± 0.5 points'
    """
    return f"{round(value, 1) + 0.0:.1f} ± {error:.1f} points".replace("-", "−")


def write_p(p_value: float) -> str:
    """A p-value, with its sign of comparison.

    >>> write_p(0.0312), write_p(0.0004)
    ('= 0.031', '< 0.001')
    """
    return f"= {p_value:.3f}" if p_value >= 0.001 else "< 0.001"


def list_names(names: Sequence[str], at_most: int = 4) -> str:
    """Names in a sentence.

    >>> list_names(["age", "dose", "device"])
    'age, dose and device'
    """
    shown = [str(name) for name in names[:at_most]]
    if len(names) > at_most:
        shown.append(f"{len(names) - at_most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def count_found(named: Sequence[str]) -> str:
    """What was found, counted.

    >>> count_found(["feature", "direction", "direction"])
    '1 feature and 2 directions'
    """
    kinds = list(dict.fromkeys(named))
    counts = [(list(named).count(kind), kind) for kind in kinds]
    return list_names([f"{n} {kind}{'' if n == 1 else 's'}" for n, kind in counts])


def write_share(share: float) -> str:
    """A share as people write it.

    >>> write_share(0.047)
    '4.7\\xa0%'
    """
    if math.isnan(share):
        return "an unknown share"
    hundredths = 100 * max(0.0, share)  # a no-break space: a line must not begin with the sign
    digits = 0 if hundredths >= 10 or hundredths == 0 else 1
    return f"{hundredths:.{digits}f}\u00a0%"
