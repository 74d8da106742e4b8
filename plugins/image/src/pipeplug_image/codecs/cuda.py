"""Encoded pictures to a batch in a GPU's memory.

Plain JPEGs go through the GPU's JPEG engine, progressive ones through CUDA kernels, by nvImageCodec; all else has been
decoded by the CPU, and is copied. Neither of the two notices what is wrong with a file, so they get no others than
`codecs.headers` takes for plain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from types import TracebackType

import numpy as np

from pipeplug import Batch, CudaContext
from pipeplug_image.codecs.backends import Backend
from pipeplug_image.codecs.decode import Decoder
from pipeplug_image.codecs.jobs import Decoded, Job
from pipeplug_image.codecs.nvimgcodec import load
from pipeplug_image.codecs.options import DecodeOptions
from pipeplug_image.kernels.opencv import Array

_LAYOUT = "HWC"


class CudaDecoder:
    """Decodes pictures on one GPU, until it is closed: one batch at a time, whoever calls.

    Pixels are within 1 level of those of the CPU where the JPEG engine decodes, and within 3 where CUDA kernels do.

    Args:
        device: such as `"cuda:0"`.

    Raises DeviceError when nvImageCodec is missing.
    """

    def __init__(self, device: str) -> None:
        load()
        ordinal = int(device.partition(":")[2] or 0)
        self._engine = Backend("hardware", ("HW_GPU_ONLY",), ordinal)
        self._kernels = Backend("cuda", ("GPU_ONLY", "HYBRID_CPU_GPU"), ordinal)
        self._lock = Lock()

    def __enter__(self) -> CudaDecoder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Gives memory back that no batch lies in, and the rest when batches go. Calling it again does nothing."""
        self._engine.close()
        self._kernels.close()

    def decode(
        self,
        prepared: Sequence[Job | Decoded | None],
        options: DecodeOptions,
        by_cpu: Callable[[Job], Array],
        context: CudaContext,
    ) -> Batch:
        """A batch of (height, width, channels), in the order of what was prepared.

        Args:
            prepared: jobs for the GPU, and what the CPU has decoded; None for a sample that has failed.
            options: how the jobs are to be decoded.
            by_cpu: decodes a job that no decoder of the GPU takes. What it raises is the sample's failure.
            context: that of the kernel; it counts how many pictures went which way.
        """
        with self._lock:
            jobs = {row: each for row, each in enumerate(prepared) if isinstance(each, Job)}
            pixels = {row: each.pixels for row, each in enumerate(prepared) if isinstance(each, Decoded)}
            work = _Work(jobs, options.mode == "gray", context)
            work.decode(self._engine, [row for row, job in jobs.items() if not job.progressive])
            work.decode(self._kernels, list(work.left))
            for row, job in work.left.items():
                try:
                    pixels[row] = by_cpu(job)
                except Exception as error:
                    context.fail(row, error)
            work.upload(pixels)
            return work.whole()


class _Work:
    """What becomes of one batch: parts of it, and which rows they are.

    Attributes:
        left: the jobs that are not done yet, by row.
    """

    def __init__(self, jobs: dict[int, Job], gray: bool, context: CudaContext) -> None:
        self.left = jobs
        self._gray = gray
        self._context = context
        self._parts: list[Batch] = []
        self._rows: list[Array] = []

    def decode(self, backend: Backend, rows: Sequence[int]) -> None:
        """Lets a decoder take what it can of the jobs of these rows."""
        if not rows or not backend.works:
            return
        part, places = backend.decode([self.left[row] for row in rows], self._gray, self._context)
        if part is not None:
            done = np.array(rows, np.intp)[places]
            self._add(part, done)
            for row in done.tolist():
                del self.left[row]

    def upload(self, pixels: Mapping[int, Array]) -> None:
        """Copies what the CPU decoded. Raises SpecError when it is of several dtypes."""
        if pixels:
            arrays = Batch.ragged(list(pixels.values()), _LAYOUT)
            part: Batch = self._context.empty_samples(arrays.shapes, arrays.dtype, _LAYOUT)
            self._context.copy_in(part, arrays.list())
            self._context.count("cpu", len(pixels))
            self._add(part, np.array(list(pixels), np.intp))

    def _add(self, part: Batch, rows: Array) -> None:
        self._parts.append(part)
        self._rows.append(rows)

    def whole(self) -> Batch:
        """The parts as one batch, in the order of rows; nothing is copied."""
        if not self._parts:
            empty: Batch = self._context.empty_samples(np.zeros((0, 3), np.int64), "uint8", _LAYOUT)
            return empty
        order = np.argsort(np.concatenate(self._rows))
        first = self._parts[0]
        if len(self._parts) == 1:
            return first.take(order.tolist())
        return Batch.on_device(
            np.concatenate([part.addresses for part in self._parts])[order],
            np.concatenate([part.shapes for part in self._parts])[order],
            first.dtype,  # that of all: with others wanted there are no jobs
            _LAYOUT,
            owner=tuple(self._parts),
            device=self._context.device,
        )


class DeviceDecoder(Decoder):
    """A decoder for the CPU that brings one for each GPU when it is first asked for it."""

    def __init__(self) -> None:
        super().__init__()
        self._by_device: dict[str, CudaDecoder] = {}
        self._opening = Lock()

    def __enter__(self) -> DeviceDecoder:
        return self

    def on(self, device: str) -> CudaDecoder:
        """The decoder for a GPU such as `"cuda:0"`. Raises DeviceError when nvImageCodec is missing."""
        with self._opening:
            if device not in self._by_device:
                self._by_device[device] = CudaDecoder(device)
            return self._by_device[device]

    def close(self) -> None:
        """Closes the decoders for GPUs too."""
        for decoder in self._by_device.values():
            decoder.close()
        super().close()
