"""The worlds of the battery: what is planted, in which data, in how many environments."""

from __future__ import annotations

from dataclasses import dataclass

STRONG = (0.9, 0.8, 0.7)
WEAK = (0.75, 0.65, 0.55)
PAIR = (0.95, 0.85)


@dataclass(frozen=True)
class Planted:
    """A covariate: how x shows it, and how often it agrees with the label in each environment.

    `values` counts its values, by default the labels; for `shown="continuous"` a link is the
    distance of the labels' means from 0 in standard deviations.
    """

    shown: str
    links: tuple[float, ...]
    values: int | None = None
    strength: float = 1.0


@dataclass(frozen=True)
class WorldSpec:
    """A world with known truth; `kind` is planted, nothing, equal link or content varies.

    Parameters
    ----------
    content : str
        Where the label's own content comes from: a bundled table, "made", or "images".
    columns : int or None
        Content columns used; None takes all of them.
    shares : tuple of float or None
        Sizes of the environments relative to each other; equal by default.
    flip : float
        Share of labels replaced by another one, which bounds the accuracy.
    site : str
        What else differs between environments: shift, frequencies, strength, gain.
    missing : tuple of (label, environment)
        Cells without any example.
    features : int
        If not 0, x is seen through a random ReLU layer of this width.
    """

    name: str
    kind: str
    content: str
    rows: int
    labels: int = 2
    columns: int | None = None
    planted: tuple[Planted, ...] = ()
    n_environments: int = 3
    shares: tuple[float, ...] | None = None
    flip: float = 0.2
    site: str = ""
    missing: tuple[tuple[int, int], ...] = ()
    features: int = 0


def _plant(
    name: str,
    content: str,
    rows: int,
    *planted: Planted,
    labels: int = 2,
    columns: int | None = None,
    shares: tuple[float, ...] | None = None,
    flip: float = 0.2,
    site: str = "",
    missing: tuple[tuple[int, int], ...] = (),
    features: int = 0,
) -> WorldSpec:
    """A world whose covariates vary, unless their links are equal in all environments."""
    kind = "planted" if any(len(set(one.links)) > 1 for one in planted) else "equal link"
    n = len(planted[0].links)
    return WorldSpec(
        name,
        kind,
        content,
        rows,
        labels,
        columns,
        planted,
        n,
        shares,
        flip,
        site,
        missing,
        features,
    )


_EIGHT = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6)

_TABLES = (
    _plant("column", "cancer", 5000, Planted("column", STRONG), columns=6),
    _plant("column, weak link", "cancer", 5000, Planted("column", WEAK), columns=6),
    _plant("column, 2 columns", "cancer", 2000, Planted("column", PAIR), columns=2),
    _plant("column, 30 columns", "cancer", 5000, Planted("column", (0.95, 0.85, 0.75))),
    _plant("column, 300 rows", "cancer", 300, Planted("column", (0.95, 0.75)), columns=10),
    _plant("column, 50,000 rows", "cancer", 50_000, Planted("column", (0.8, 0.7, 0.6)), columns=15),
    _plant(
        "column, 85:10:5", "cancer", 5000, Planted("column", STRONG), columns=6, shares=(85, 10, 5)
    ),
    _plant("column, .9/.7", "cancer", 5000, Planted("column", (0.9, 0.7)), columns=6),
    _plant("column, 8 environments", "made", 8000, Planted("column", _EIGHT), columns=20),
    _plant("column, weak pair", "made", 20_000, Planted("column", (0.7, 0.55)), columns=10),
    _plant("column, diabetes", "diabetes", 4000, Planted("column", PAIR), flip=0.1),
    _plant("column, diabetes, weak link", "diabetes", 8000, Planted("column", WEAK), flip=0.1),
    _plant("column, 200 columns", "made", 3000, Planted("column", (0.95, 0.85, 0.75)), columns=200),
    _plant(
        "column, label frequencies differ",
        "cancer",
        5000,
        Planted("column", STRONG),
        columns=6,
        site="frequencies",
    ),
    _plant(
        "column, sites shifted", "cancer", 5000, Planted("column", STRONG), columns=6, site="shift"
    ),
    _plant("column, content noise", "noisy copies", 5000, Planted("column", STRONG), columns=6),
    _plant("three labels", "wine", 5000, Planted("one-hot", STRONG), labels=3),
    _plant("three labels, weak link", "wine", 6000, Planted("one-hot", WEAK), labels=3),
    _plant("three labels, one column", "iris", 3000, Planted("column", PAIR), labels=3),
    _plant("five labels", "digits", 5000, Planted("one-hot", STRONG), labels=5),
    _plant(
        "seven labels, 60 columns",
        "made",
        6000,
        Planted("mixed", PAIR, strength=3.0),
        labels=7,
        columns=60,
    ),
    _plant(
        "seven labels, 200 columns",
        "made",
        10_000,
        Planted("mixed", PAIR, strength=3.0),
        labels=7,
        columns=200,
    ),
    _plant("ten labels, 64 columns", "digits", 6000, Planted("one-hot", PAIR), labels=10),
    _plant("ten labels, 8 environments", "digits", 3000, Planted("one-hot", _EIGHT), labels=10),
)

_SHAPES = (
    _plant("log-normal column", "cancer", 5000, Planted("log-normal", STRONG), columns=6),
    _plant("heavy tails", "cancer", 5000, Planted("heavy tails", STRONG), columns=6),
    _plant("variance", "cancer", 6000, Planted("variance", PAIR), columns=6),
    _plant("product", "cancer", 6000, Planted("product", PAIR), columns=6),
    _plant("continuous", "cancer", 5000, Planted("continuous", (1.5, 1.0, 0.5)), columns=6),
    _plant("six weak columns", "cancer", 5000, Planted("weak columns", STRONG)),
    _plant("six weak columns, 430 rows", "cancer", 430, Planted("weak columns", STRONG)),
    _plant("mixed into content", "cancer", 5000, Planted("mixed", STRONG, strength=2.5),
           columns=15),
    _plant("four values, one-hot", "cancer", 5000, Planted("one-hot", STRONG, 4), columns=6),
    _plant("four values, coded", "cancer", 5000, Planted("coded", STRONG, 4), columns=6),
    _plant("six values, coded, three labels", "wine", 6000, Planted("coded", PAIR, 6), labels=3),
    _plant("two covariates", "cancer", 5000, Planted("column", STRONG),
           Planted("column", (0.6, 0.75, 0.9)), columns=6),
    _plant("two covariates, three labels", "wine", 8000, Planted("one-hot", STRONG),
           Planted("mixed", (0.6, 0.75, 0.9), strength=2.5), labels=3),
    _plant("missing cells", "made", 6000, Planted("one-hot", STRONG), labels=4, columns=12,
           missing=((0, 1), (3, 2))),
    _plant("column, content varies too", "cancer", 5000, Planted("column", STRONG), columns=6,
           site="strength"),
    _plant("random features", "cancer", 5000, Planted("column", PAIR), columns=10, features=64),
)  # fmt: skip

_IMAGES = (
    _plant("colour", "images", 4000, Planted("colour", PAIR)),
    _plant("colour, ten labels", "images", 6000, Planted("colour", PAIR), labels=10),
    _plant("background", "images", 4000, Planted("background", PAIR)),
    _plant("position", "images", 4000, Planted("position", PAIR)),
    _plant("stroke width", "images", 4000, Planted("stroke", PAIR)),
    _plant("rotation", "images", 4000, Planted("rotation", PAIR)),
    _plant("colour and position", "images", 5000, Planted("colour", STRONG),
           Planted("position", (0.6, 0.75, 0.9))),
    _plant("features of coloured digits", "images", 4000, Planted("colour", PAIR), features=128),
    _plant("features of thick digits", "images", 5000, Planted("stroke", PAIR), features=128),
)  # fmt: skip


def _none(name: str, content: str, rows: int, **changes: object) -> WorldSpec:
    return WorldSpec(name, "nothing", content, rows, **changes)  # type: ignore[arg-type]


_NOTHING = (
    _none("nothing", "cancer", 5000, columns=6),
    _none("nothing, 60 columns", "made", 4000, labels=7, columns=60),
    _none("nothing, 300 rows", "cancer", 300, columns=30, n_environments=2),
    _none("nothing, heavy tails", "heavy", 3000, columns=8, n_environments=4),
    _none("nothing, 80 cells", "digits", 2000, labels=10, n_environments=8),
    _none("nothing, sites shifted", "cancer", 5000, columns=15, site="shift"),
    _none("nothing, label frequencies differ", "wine", 4000, labels=3, site="frequencies"),
    _none("nothing, content noise", "noisy copies", 5000, columns=6, n_environments=4),
    _none("nothing, images", "images", 3000, labels=10, n_environments=2),
    _plant("equal link", "cancer", 5000, Planted("column", (0.8,) * 3), columns=6),
    _plant("equal link, three labels", "wine", 5000, Planted("one-hot", (0.8,) * 3), labels=3),
    WorldSpec("content varies", "content varies", "cancer", 5000, columns=6, site="strength"),
    WorldSpec("content varies, three labels", "content varies", "wine", 5000, labels=3,
              n_environments=4, site="strength"),
    WorldSpec("content varies, gain", "content varies", "diabetes", 5000, site="gain", flip=0.1),
)  # fmt: skip

WORLDS = {spec.name: spec for spec in (*_TABLES, *_SHAPES, *_IMAGES, *_NOTHING)}
