"""A contact sheet: each photograph, and beside it what a model gets to see of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont, ImageOps

TILE, GAP, MARGIN, TITLE = 168, 10, 48, 104
PAPER, INK, PALE, FRAME = (250, 248, 244), (38, 38, 42), (138, 134, 128), (255, 255, 255)

Row = tuple[Path, Sequence[np.ndarray]]


def contact_sheet(rows: Sequence[Row]) -> Image.Image:
    """A sheet with a row for each photograph: the photograph, then its views, (height, width, 3) uint8 each."""
    columns = 1 + max(len(views) for _, views in rows)
    width = 2 * MARGIN + columns * TILE + (columns - 1) * GAP + 2 * GAP
    height = TITLE + len(rows) * (TILE + GAP + 16) + MARGIN
    sheet = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN, 34), "pipeplug", INK, ImageFont.load_default(30))
    heading = "decode, random resized crop, flip, colour jitter, normalise"
    draw.text((MARGIN + 150, 46), heading, PALE, ImageFont.load_default(16))
    for number, (path, views) in enumerate(rows):
        _row(sheet, draw, TITLE + number * (TILE + GAP + 16), path, views)
    return sheet


def _row(sheet: Image.Image, draw: ImageDraw.ImageDraw, top: int, path: Path, views: Sequence[np.ndarray]) -> None:
    with Image.open(path) as photograph:
        original = ImageOps.fit(photograph.convert("RGB"), (TILE, TILE), Image.Resampling.LANCZOS)
    sheet.paste(original, (MARGIN, top))
    draw.text((MARGIN, top + TILE + 4), path.stem.replace("_", " "), PALE, ImageFont.load_default(12))
    for column, view in enumerate(views):
        left = MARGIN + TILE + 3 * GAP + column * (TILE + GAP)
        _framed(sheet, Image.fromarray(view), left, top)


def _framed(sheet: Image.Image, view: Image.Image, left: int, top: int) -> None:
    border = 6
    framed = Image.new("RGB", (TILE, TILE), FRAME)
    inner = view.resize((TILE - 2 * border, TILE - 2 * border), Image.Resampling.LANCZOS)
    framed.paste(inner, (border, border))
    sheet.paste((228, 224, 216), (left + 2, top + 3, left + TILE + 2, top + TILE + 3))
    sheet.paste(framed, (left, top))
