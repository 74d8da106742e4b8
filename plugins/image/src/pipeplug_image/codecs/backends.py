"""The decoders for JPEG that nvImageCodec has: the JPEG engine of a GPU, and CUDA kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeplug import Batch, CudaContext
from pipeplug_image.codecs.images import ImageShelf, Loan
from pipeplug_image.codecs.jobs import Job
from pipeplug_image.codecs.nvimgcodec import load
from pipeplug_image.kernels.opencv import Array

_ENOUGH = 32
"""How many pictures a decoder may refuse before it has decoded one: then the GPU has no such engine."""


class Backend:
    """One of the decoders, which is made when it is first used.

    Args:
        name: for statistics.
        kinds: names of nvImageCodec's `BackendKind`.
        ordinal: of the device.

    Attributes:
        works: whether it is worth asking.
    """

    def __init__(self, name: str, kinds: Sequence[str], ordinal: int) -> None:
        self.name = name
        self.works = True
        self._kinds = kinds
        self._ordinal = ordinal
        self._decoder: Any = None
        self._shelf = ImageShelf()
        self._refused = 0
        self._has_decoded = False

    def decode(self, jobs: Sequence[Job], gray: bool, context: CudaContext) -> tuple[Batch | None, Array]:
        """Decodes what it can: a batch of (height, width, channels), and the places in `jobs` of its samples."""
        shapes = np.array([(job.height, job.width, 1 if gray else 3) for job in jobs], np.int64)
        order = np.argsort(shapes.prod(axis=1), kind="stable")
        shapes = shapes[order]
        sizes = shapes.prod(axis=1)
        images = self._shelf.take(context, sizes)
        try:
            streams = [jobs[place].stream for place in order.tolist()]
            results = images.decode(self._opened(), streams, sizes, _parameters(gray))
            addresses = _addresses(results, shapes)
        except BaseException:
            self._shelf.put_back(images, None)
            raise
        done = np.flatnonzero(addresses)
        self._judge(len(jobs), len(done))
        if not len(done):
            self._shelf.put_back(images, None)
            return None, done
        context.stream.wait(images.stream)
        batch: Batch = context.adopt(
            addresses[done],
            shapes[done],
            "uint8",
            "HWC",
            nbytes=images.nbytes,
            owner=images,
            give_back=Loan(images, self._shelf),
        )
        context.count(self.name, len(done))
        return batch, order[done]

    def _opened(self) -> Any:
        if self._decoder is None:
            library = load()
            backends = [library.Backend(getattr(library.BackendKind, kind)) for kind in self._kinds]
            self._decoder = library.Decoder(device_id=self._ordinal, backends=backends)
        return self._decoder

    def _judge(self, asked: int, done: int) -> None:
        self._has_decoded |= done > 0
        if not self._has_decoded:
            self._refused += asked
            self.works = self._refused < _ENOUGH

    def close(self) -> None:
        """Gives the decoder's memory back, and that of the images that nobody uses. Calling it again does nothing."""
        self._shelf.close()
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            decoder.__exit__(None, None, None)


def _parameters(gray: bool) -> Any:
    library = load()
    colors = library.ColorSpec.GRAY if gray else library.ColorSpec.SRGB
    return library.DecodeParams(apply_exif_orientation=False, color_spec=colors)


def _addresses(results: Sequence[Any], shapes: Array) -> Array:
    """Where pictures lie; 0 for what was refused, or is not packed pixels of the shape that it should have."""
    addresses = []
    for image, shape in zip(results, shapes.tolist(), strict=True):
        array = {} if image is None else image.__cuda_array_interface__
        is_there = image is not None and array.get("strides") is None and [*array["shape"]] == shape
        addresses.append(array["data"][0] if is_there else 0)
    return np.array(addresses, np.uint64)
