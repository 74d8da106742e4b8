"""Memory of a GPU that nvImageCodec decodes into, which is used again and again.

The library decodes into memory of its own: into images that it makes, or into those of an earlier call, whose memory it
makes larger where it must. To take new memory for each picture costs more than to decode it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipeplug import CudaContext, MemoryLimitError
from pipeplug_image.kernels.opencv import Array


class ImageSet:
    """Images for one batch, in the order of their capacities.

    The larger a picture of a batch is, the larger is the image that takes it. So an image has to grow only to the
    largest of those that come at its place in the order of sizes, not to the largest of all.

    Args:
        stream: on which the library takes memory and gives it back; it lives as long as the images.

    Attributes:
        capacities: bytes of the images, rising.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.capacities: Array = np.zeros(0, np.int64)
        self._images: list[Any] = []

    @property
    def nbytes(self) -> int:
        return int(self.capacities.sum())

    def grown(self, sizes: Array) -> Array:
        """The capacities when pictures of these sizes, in bytes and rising, have been decoded."""
        new, old = self._places(len(sizes))
        grown = np.concatenate((sizes[:new], self.capacities))
        grown[len(grown) - old :] = np.maximum(grown[len(grown) - old :], sizes[new:])
        return grown

    def _places(self, count: int) -> tuple[int, int]:
        """How many pictures, the smallest, get a new image, and how many, the others, one of the largest there are."""
        old = min(count, len(self._images))
        return count - old, old

    def decode(self, decoder: Any, streams: Sequence[Any], sizes: Array, params: Any) -> list[Any]:
        """Decodes pictures whose sizes in bytes rise; an image for each, None for what the decoder refuses."""
        new, old = self._places(len(streams))
        options = {"params": params, "cuda_stream": int(self.stream.handle)}
        made = decoder.decode(list(streams[:new]), **options) if new else []
        images = self._images[len(self._images) - old :]
        again = decoder.decode(list(streams[new:]), images=images, **options) if old else []
        grown, there = self.grown(sizes), [image is not None for image in made]
        self._images = [image for image in made if image is not None] + self._images
        self.capacities = np.concatenate((grown[:new][there], grown[new:]))
        return [*made, *again]


class Loan:
    """Lends the images of a set as a batch: what takes them back when nobody refers to the batch any more.

    It lets go of the set then, whose images are freed after the batch has gone if nobody is there to use them again.
    """

    __slots__ = ("_images", "_shelf")

    def __init__(self, images: ImageSet, shelf: ImageShelf) -> None:
        self._images: ImageSet | None = images
        self._shelf = shelf

    def __call__(self, event: Any) -> None:
        """Takes the images back; `event` marks the end of the work on them. Waits for nothing."""
        images, self._images = self._images, None
        assert images is not None
        self._shelf.put_back(images, event)


class ImageShelf:
    """Sets of images that wait for the next batch. `put_back` may be called in any thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[ImageSet, Any]] = deque()
        self._stream: Any = None
        self._is_open = True

    def take(self, context: CudaContext, sizes: Array) -> ImageSet:
        """A set of images that nobody uses, with room reserved for pictures of these sizes, in bytes and rising.

        Raises MemoryLimitError when there is none, though images that wait were given up.
        """
        images = self._free()
        if images is None:
            if self._stream is None:
                self._stream = context.new_stream()  # of its own: the library waits for all that is queued on it
            images = ImageSet(self._stream)
        try:
            self._reserve(images, context, int(images.grown(sizes).sum()))
        except BaseException:
            self.put_back(images, None)
            raise
        return images

    def _free(self) -> ImageSet | None:
        try:
            images, event = self._waiting.popleft()
        except IndexError:
            return None
        if event is not None:
            event.sync()
        return images

    def _reserve(self, images: ImageSet, context: CudaContext, nbytes: int) -> None:
        while True:
            try:
                return context.reserve(images, nbytes)
            except MemoryLimitError:
                spare = self._free()
                if spare is None:
                    raise
                context.reserve(spare, 0)

    def put_back(self, images: ImageSet, event: Any) -> None:
        """Takes a set for the next batch, to be used when `event` has passed."""
        self._waiting.append((images, event))
        if not self._is_open:  # asked after the set is in the queue, so that it and close() cannot miss each other
            self.close()

    def close(self) -> None:
        """Lets go of all sets that wait, and from now on of those that come back. Waits for nothing."""
        self._is_open = False
        while self._waiting:
            images, event = self._waiting.popleft()
            if event is not None:
                images.stream.wait(event)  # on which the memory goes back
