"""The label's own content (bundled tables, made columns, digits), and how x shows a covariate."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import affine_transform, grey_dilation, zoom
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rng = np.random.Generator
DrawContent = Callable[[Ints, Rng], Floats]
Show = Callable[[Floats, Ints, Rng], Floats]

JITTER = 0.3  # deviation of the noise added to a resampled row, in deviations of its column
SIDE = 16  # pixels of a side of the digit images


def make_content(content: str, labels: int, columns: int | None, rng: Rng) -> DrawContent:
    """A function from clean labels to standardised content columns, the same at every call."""
    if content == "made":
        return _made(labels, columns or 10, rng)
    if content == "heavy":
        inner = _made(labels, columns or 10, rng)
        return lambda y, rng: np.sinh(inner(y, rng))
    if content == "noisy copies":
        sizes = rng.uniform(0.4, 1.0, columns or 6)
        return lambda y, rng: np.outer(2.0 * y - 1, sizes) + rng.normal(size=(len(y), len(sizes)))
    x, own = _load_table(content, labels)
    x = x[:, rng.permutation(x.shape[1])[:columns]]
    return _resampled((x - x.mean(axis=0)) / x.std(axis=0), own)


def _made(labels: int, columns: int, rng: Rng) -> DrawContent:
    """Correlated columns of which about a third differ between labels, after a random mixing."""
    informative = max(2, min(columns // 3, 8))
    means = rng.normal(size=(labels, informative))
    means *= 1.6 / np.sqrt(means.var(axis=0).sum())
    shared = rng.normal(size=(min(5, columns), columns)) / 1.5
    mixing = np.linalg.qr(rng.normal(size=(columns, columns)))[0][:informative]

    def draw(y: Ints, rng: Rng) -> Floats:
        inner = means[y] + 0.6 * rng.normal(size=(len(y), informative))
        common = rng.normal(size=(len(y), len(shared))) @ shared
        return 2 * inner @ mixing + 0.6 * common + 0.5 * rng.normal(size=(len(y), columns))

    return draw


def _resampled(x: Floats, own: Ints) -> DrawContent:
    """Rows of a table with noise: a population as large as is wanted."""
    rows_of = [np.flatnonzero(own == label) for label in range(own.max() + 1)]

    def draw(y: Ints, rng: Rng) -> Floats:
        found = np.empty((len(y), x.shape[1]))
        for label, rows in enumerate(rows_of):
            chosen = np.flatnonzero(y == label)
            found[chosen] = x[rng.choice(rows, len(chosen))]
        return found + JITTER * rng.normal(size=found.shape)

    return draw


@cache
def _load_table(content: str, labels: int) -> tuple[Floats, Ints]:
    if content == "diabetes":
        x, target = load_diabetes(return_X_y=True)
        return x, (target > np.median(target)).astype(np.int64)
    load = {
        "cancer": load_breast_cancer,
        "wine": load_wine,
        "iris": load_iris,
        "digits": load_digits,
    }[content]
    x, y = load(return_X_y=True)
    x, y = x[y < labels], y[y < labels].astype(np.int64)
    return x[:, x.std(axis=0) > 0.1 * x.std()] if content == "digits" else x, y


def make_show(shown: str, columns: int, values: int, strength: float, rng: Rng) -> Show:
    """A function that adds a covariate of some values to the content columns."""
    codes = rng.permutation(values).astype(float)
    chosen = rng.permutation(columns)[:6]
    signs = rng.choice([-0.5, 0.5], len(chosen))
    offsets = rng.normal(size=(values, columns))
    offsets *= strength / np.linalg.norm(offsets - offsets.mean(axis=0), axis=1, keepdims=True)

    def show(x: Floats, z: Ints, rng: Rng) -> Floats:
        def noise(width: int = 1) -> Floats:
            return rng.normal(size=(len(x), width))

        code = codes[z][:, None] if shown != "continuous" else z[:, None]
        if shown == "weak columns":
            x = x.copy()
            x[:, chosen] += 2.0 * strength * (code - 0.5) * signs
            return x
        if shown == "mixed":
            return x + offsets[z]
        if shown == "column":
            new = code + 0.2 * noise()
        elif shown == "log-normal":
            new = np.exp(0.5 * noise() + 1.5 * code)
        elif shown == "heavy tails":
            new = 6 * code + rng.standard_t(1.5, size=(len(x), 1))
        elif shown == "variance":
            new = noise(2) * (1 + 5 * code)
        elif shown == "product":
            side = rng.choice([-1.0, 1.0], size=(len(x), 1))
            new = np.concatenate([side, side * (2 * code - 1)], axis=1) * (1 + 0.25 * noise(2))
        elif shown == "one-hot":
            new = np.eye(values)[z]
        else:  # coded, continuous
            new = code
        return np.concatenate([x, new], axis=1)

    return show


@cache
def _upright(labels: int) -> tuple[Floats, Ints]:
    """Bundled digits as [images, 16, 16] with values in 0 to 1; two labels: 0 to 2 or 3 to 5."""
    pixels, digits = load_digits(return_X_y=True)
    small = zoom(pixels.reshape(-1, 8, 8) / 16.0, (1, 1.375, 1.375), order=1)
    room = SIDE - small.shape[1]
    low, high = room // 2, room - room // 2
    large = np.pad(small, ((0, 0), (low, high), (low, high)))
    digits = digits.astype(np.int64)
    if labels == 2:
        return large[digits < 6], (digits[digits < 6] >= 3).astype(np.int64)
    return large[digits < labels], digits[digits < labels]


@cache
def _variants(labels: int, shown: str) -> Floats:
    """[values, images, 16, 16]: every digit under both values of a covariate of its shape."""
    images = _upright(labels)[0]
    if shown == "rotation":
        return np.stack([_rotate(images, angle) for angle in (-25, 25)])
    if shown == "stroke":
        return np.stack([images, grey_dilation(images, size=(1, 2, 2))])
    if shown == "position":
        return np.stack([np.roll(images, shift, axis=2) for shift in (-2, 2)])
    return images[None]


def _rotate(images: Floats, degrees: float) -> Floats:
    angle = np.deg2rad(degrees)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = np.eye(3)
    matrix[1:, 1:] = turn
    centre = np.array([0, (SIDE - 1) / 2, (SIDE - 1) / 2])
    return affine_transform(images, matrix, offset=centre - matrix @ centre, order=1)


_COLOURS = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1],
     [0, 1, 1], [1, 0.5, 0], [0.5, 0, 1], [0.3, 0.8, 0.5], [1, 1, 1]]
)  # fmt: skip


def draw_images(y: Ints, shown: dict[str, Ints], labels: int, rng: Rng) -> Floats:
    """Digits [N, channels, 16, 16] that show the covariates; channels are 3 if one is colour."""
    own = _upright(labels)[1]
    picked = np.empty(len(y), dtype=np.int64)
    for label in range(labels):
        rows = np.flatnonzero(y == label)
        picked[rows] = rng.choice(np.flatnonzero(own == label), len(rows))
    shape = next((name for name in shown if name in ("rotation", "stroke", "position")), "")
    variants = _variants(labels, shape)
    images = variants[shown[shape] if shape else 0, picked]
    rows = np.arange(SIDE) + rng.integers(-1, 2, size=(len(y), 1))  # moved by up to one pixel
    columns = np.arange(SIDE) + rng.integers(-1, 2, size=(len(y), 1))
    at = (np.arange(len(y))[:, None, None], rows[:, :, None] % SIDE, columns[:, None, :] % SIDE)
    images = images[at]
    if "background" in shown:
        images = np.maximum(images, 0.35 * shown["background"][:, None, None])
    images = images[:, None]
    if "colour" in shown:
        images = images * _COLOURS[shown["colour"]][:, :, None, None]
    return np.clip(images + 0.05 * rng.normal(size=images.shape), 0, 1)
