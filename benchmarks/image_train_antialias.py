"""`image_train` with antialiasing: a reduced image is made of all pixels of the part that it shows.

OpenCV's antialiasing is `INTER_AREA`; the others stretch the linear kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.image_train import image_training
from benchmarks.measure import Conditions, Measurement


def measurements(conditions: Conditions) -> Sequence[Measurement]:
    """The benchmark `image_train_antialias`."""
    return [image_training("image_train_antialias", conditions, antialias=True)]
