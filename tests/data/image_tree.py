"""A folder tree of small pictures, drawn here: the class is a glyph, the background is planted.

In every environment but the last the background colour goes with the class; in the last it
mostly does not. So a model that reads the background fails there.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from colorsys import hsv_to_rgb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PACS_ENVIRONMENTS = ("art_painting", "cartoon", "photo", "sketch")
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
CELLS = 8  # a glyph is drawn on a board of 8 × 8


def write_image_tree(
    root: str | Path,
    environments: Sequence[str] = PACS_ENVIRONMENTS,
    classes: Sequence[str] = PACS_CLASSES,
    per_class: int = 10,
    seed: int = 0,
    *,
    size: int = 32,
    strengths: Sequence[float] | None = None,
    suffix: str = ".jpg",
) -> dict[str, int]:
    """Write `root/<environment>/<class>/<number>.jpg` and say which background each picture has.

    The result has a file's path relative to `root` (with slashes) and the position of its
    background among `len(classes)` colours. `strengths` is the share of pictures whose
    background is that of their class: by default 0.9, 0.8, … and 0.1 in the last environment.
    """
    if strengths is None:
        strengths = [max(0.9 - 0.1 * place, 0.5) for place in range(len(environments) - 1)] + [0.1]
    rng = np.random.default_rng([seed, 0x7EE])
    backgrounds = {}
    for environment, strength in zip(environments, strengths, strict=True):
        for label, name in enumerate(classes):
            folder = Path(root) / environment / name
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(per_class):
                background = label
                if len(classes) > 1 and rng.random() >= strength:
                    background = (label + int(rng.integers(1, len(classes)))) % len(classes)
                picture = draw_picture(label, background, len(classes), size, rng)
                path = folder / f"{number:04d}{suffix}"
                Image.fromarray(picture).save(path, **({"quality": 95} if suffix == ".jpg" else {}))
                backgrounds[path.relative_to(root).as_posix()] = background
    return backgrounds


def draw_picture(
    label: int, background: int, n_colors: int, size: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """One picture [size, size, 3]: the label's glyph in grey, some cells wrong, on a colour."""
    glyph = np.random.default_rng([label, 0x617]).random((CELLS, CELLS)) < 0.4
    glyph ^= rng.random((CELLS, CELLS)) < 0.08
    places = np.arange(size) * CELLS // size
    mask = glyph[np.ix_(places, places)]
    color = np.array(hsv_to_rgb(background / n_colors, 0.8, rng.uniform(0.75, 0.95)))
    grey = np.full(3, rng.uniform(0.0, 0.2))
    pixels = np.where(mask[..., None], grey, color) * 255 + rng.normal(0, 6, size=(size, size, 3))
    return pixels.clip(0, 255).round().astype(np.uint8)


def write_broken_images(folder: Path) -> tuple[str, ...]:
    """Put a JPEG that was cut off, a text called an image and an empty file into a folder."""
    whole = io.BytesIO()
    Image.effect_noise((64, 64), 50).convert("RGB").save(whole, "JPEG")
    content = whole.getvalue()
    (folder / "cut.jpg").write_bytes(content[: 3 * len(content) // 4])
    (folder / "text.jpg").write_text("not a picture at all")
    (folder / "empty.png").write_bytes(b"")
    return "cut.jpg", "text.jpg", "empty.png"
