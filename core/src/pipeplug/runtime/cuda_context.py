"""What kernels on a GPU may use while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeplug.batch import Batch
from pipeplug.cuda import CudaKernel, launch
from pipeplug.errors import DeclarationError
from pipeplug.memory.cuda import CudaDevice, MemoryPool
from pipeplug.memory.device import DeviceArray, DeviceMemory, DeviceSamples
from pipeplug.memory.resource import Event, Stream
from pipeplug.runtime.context import BatchContext, SampleContext, never
from pipeplug.runtime.iteration import Iteration
from pipeplug.runtime.transfers import Staging, empty_samples, place_samples, to_device, upload
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Tensor


class CudaWork:
    """The work of one task on a GPU: its stream, and the memory that it makes.

    What it makes is ready for others when it has ended; what it only worked with goes back in the stream's order.
    """

    def __init__(self, device: CudaDevice, pinned: MemoryPool, stream: Stream) -> None:
        self.gpu = device
        self.stream = stream
        self.staging = Staging(device, pinned, stream)
        self._made: list[DeviceMemory] = []
        self._scratch: list[DeviceMemory] = []

    def end(self) -> None:
        """Marks the end of the work queued so far; once more for work that was broken off does no harm."""
        if self._made:
            event = self.stream.record()
            for memory in self._made:
                memory.ready = event
            self._made.clear()
        self._scratch.clear()
        self.staging.close()

    def new_stream(self) -> Stream:
        """See `CudaContext`."""
        stream: Stream = self.gpu.device.create_stream()
        return stream

    def empty(self, spec: TensorSpec) -> Tensor:
        """An uninitialised sample."""
        memory = self._make(spec.nbytes)
        array = DeviceArray(memory.address, spec.known_shape(), np.dtype(spec.dtype or ""), self.gpu.name, (memory,))
        return Tensor(array, spec.layout)

    def empty_samples(self, shapes: Any, dtype: str, layout: str | None = None) -> Batch:
        """See `CudaContext`."""
        offsets, size = place_samples(shapes, np.dtype(dtype).itemsize)
        return empty_samples(self._make(size), offsets, shapes, dtype, layout, self.gpu)

    def empty_batch(self, specs: Sequence[TensorSpec]) -> Batch:
        """An uninitialised batch of static specs of one dtype."""
        shapes = np.array([spec.known_shape() for spec in specs], np.int64)
        return self.empty_samples(shapes, specs[0].dtype or "", specs[0].layout)

    def scratch(self, nbytes: int) -> int:
        """See `CudaContext`."""
        memory = self.gpu.empty(nbytes, self.stream)
        self._scratch.append(memory)
        return memory.address

    def upload(self, table: Array) -> int:
        """See `CudaContext`."""
        address = self.scratch(table.nbytes)
        upload([table], [address], self.staging)
        return address

    def copy_in(self, batch: Batch, arrays: Sequence[Array]) -> None:
        """See `CudaContext`."""
        upload(arrays, batch.addresses.tolist(), self.staging)

    def launch(self, kernel: CudaKernel, grid: tuple[int, ...], block: tuple[int, ...], *arguments: int) -> None:
        """See `CudaContext`."""
        launch(kernel, self.gpu.name, self.stream, grid, block, arguments)

    def reserve(self, owner: object, nbytes: int) -> None:
        """See `CudaContext`."""
        self.gpu.reserve(owner, nbytes)

    def adopt(
        self,
        addresses: Any,
        shapes: Any,
        dtype: str,
        layout: str | None = None,
        *,
        nbytes: int,
        owner: object,
        give_back: Callable[[Event], None],
    ) -> Batch:
        """See `CudaContext`."""
        memory = self.gpu.adopt(owner, nbytes, self.stream, give_back)
        self._made.append(memory)
        samples = DeviceSamples(addresses, shapes, np.dtype(dtype), self.gpu.name, (memory,))
        return Batch.of_samples(samples, layout)

    def wrapped(self, array: Any) -> DeviceArray:
        """An array of another library, written on the stream of this work; it is kept.

        Raises DeclarationError when it is not packed in C order.
        """
        interface = array.__cuda_array_interface__
        if interface.get("strides") is not None:
            raise DeclarationError("the kernel gave an array whose numbers lie apart; give a contiguous copy")
        address, shape = int(interface["data"][0]), tuple(interface["shape"])
        memory = DeviceMemory(self.gpu, address, self.stream, self.stream.wait, array)
        self._made.append(memory)
        return DeviceArray(address, shape, np.dtype(interface["typestr"]), self.gpu.name, (memory,))

    def moved(self, batch: Batch) -> Batch:
        """The batch on this device: a copy of one of the host or of another device."""
        if batch.is_object:
            return batch
        if batch.device == "cpu":
            copied, memory = to_device(batch, self.gpu, self.staging, self.stream)
            if memory is not None:
                self._made.append(memory)
            return copied
        return self._from_neighbour(batch)

    def _from_neighbour(self, batch: Batch) -> Batch:
        samples = batch.samples
        samples.use(self.stream)
        out = self.empty_samples(samples.shapes, samples.dtype.name, batch.layout)
        rows = zip(out.addresses.tolist(), samples.addresses.tolist(), samples.sizes.tolist(), strict=True)
        for target, source, size in rows:
            self.gpu.copy(target, source, size, self.stream)
        return out

    def _make(self, nbytes: int) -> DeviceMemory:
        memory = self.gpu.empty(nbytes, self.stream)
        self._made.append(memory)
        return memory


class CudaSampleContext(CudaWork, SampleContext):
    """The context of per-sample kernels on a GPU in one task."""

    def __init__(
        self, device: CudaDevice, pinned: MemoryPool, stream: Stream, cancelled: Callable[[], bool] = never
    ) -> None:
        CudaWork.__init__(self, device, pinned, stream)
        SampleContext.__init__(self, device.name, np.empty, cancelled)

    def as_sample(self, value: Any, layout: str | None) -> Any:
        """What a kernel gave for a sample, as a tensor on this device. Raises DeclarationError when it is elsewhere."""
        if not isinstance(value, Tensor) and hasattr(value, "__cuda_array_interface__"):
            return Tensor(self.wrapped(value), layout)
        if isinstance(value, Tensor) and value.device == self.gpu.name:
            return value
        raise DeclarationError(f"the kernel for {self.gpu.name} gave {value!r:.80}, which is not there")


class CudaBatchContext(CudaWork, BatchContext):
    """The context of one call of a batch kernel on a GPU."""

    def __init__(
        self,
        device: CudaDevice,
        pinned: MemoryPool,
        stream: Stream,
        iteration: Iteration,
        rows: Sequence[int],
        seed: int,
        cancelled: Callable[[], bool] = never,
    ) -> None:
        CudaWork.__init__(self, device, pinned, stream)
        BatchContext.__init__(self, device.name, np.empty, iteration, rows, seed, (), cancelled)

    def as_batch(self, values: Any, layout: str | None) -> Any:
        """What a kernel gave, as a batch on this device. Raises DeclarationError when it is on another."""
        if not isinstance(values, Batch) and hasattr(values, "__cuda_array_interface__"):
            return Batch.equal(self.wrapped(values), layout)
        if not isinstance(values, Batch) or (not values.is_object and values.device != self.gpu.name):
            where = f"a batch on {values.device}" if isinstance(values, Batch) else f"{values!r:.80}"
            raise DeclarationError(f"the kernel for {self.gpu.name} gave {where}")
        return values
