"""The main job on the sample photographs: decode, crop, mirror, change colours, normalise, batch.

Runs two shuffled epochs, prints what each operator took, and writes a contact sheet of what a model would see.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
from contact_sheet import contact_sheet
from rich.console import Console

from pipeplug import Outputs, Value, ops, pipeline
from pipeplug.cli.report import describe_rate, operator_table, show_progress

MEDIA = Path(__file__).parent / "media"
PHOTOS = tuple(sorted(path for path in MEDIA.iterdir() if path.suffix in (".png", ".jpg")))
OUT = Path("out/photos.png")
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)
COPIES, VIEWS = 32, 6


@pipeline(batch_size=64, seed=7)
def photos(copies: int = COPIES) -> dict[str, Value]:
    """Views of the sample photographs as a model is trained on them; each photograph comes `copies` times an epoch."""
    labels = tuple(range(len(PHOTOS)))
    encoded, label = ops.read.files(PHOTOS * copies, labels=labels * copies, shuffle=True)
    image = ops.image.decode(encoded)
    image = ops.image.random_resized_crop(image, size=(224, 224), scale=(0.15, 1.0))
    image = ops.image.flip(image, probability=0.5)
    image = ops.image.color_jitter(image, brightness=0.3, contrast=0.3, saturation=0.4, hue=0.06)
    image = ops.image.normalize(image, mean=MEAN, std=STD, layout="CHW")
    return {"image": image, "label": label}


def pixels(image: np.ndarray) -> np.ndarray:
    """A normalised image as pixels again."""
    restored = image.transpose(1, 2, 0) * np.array(STD) + np.array(MEAN)
    pixels_of: np.ndarray = restored.round().clip(0, 255).astype(np.uint8)
    return pixels_of


def collect(views: dict[int, list[np.ndarray]], batch: Outputs) -> None:
    """Keeps the first views of each photograph."""
    for image, label in zip(batch["image"].list(), batch["label"].list(), strict=True):
        if len(views[int(label)]) < VIEWS:
            views[int(label)].append(pixels(image))


def main() -> None:
    console = Console()
    views: dict[int, list[np.ndarray]] = {label: [] for label in range(len(PHOTOS))}
    started = perf_counter()
    with photos() as batches:
        for epoch in range(2):
            for batch in show_progress(batches, title=f"epoch {epoch + 1}"):
                collect(views, batch)
        seconds = perf_counter() - started
        statistics = batches.statistics()
    console.print(operator_table(statistics))
    console.print(describe_rate(statistics, seconds))
    OUT.parent.mkdir(exist_ok=True)
    contact_sheet([(path, views[label]) for label, path in enumerate(PHOTOS)]).save(OUT)
    console.print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
