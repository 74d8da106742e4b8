"""What kernels may use while they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pipeplug.spec import TensorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pipeplug.cuda import CudaKernel
    from pipeplug.memory.resource import Event, Stream


class Context(Protocol):
    """What a kernel may use."""

    @property
    def device(self) -> str:
        """The device that the kernel runs on."""

    def empty(self, spec: TensorSpec) -> Any:
        """An uninitialised `Tensor` of a static spec: the sample's place in the batch where it can be, else scratch."""

    def empty_batch(self, specs: Sequence[TensorSpec]) -> Any:
        """An uninitialised `Batch` of static specs, in one array when they are equal."""

    def fail(self, row: int, cause: Exception) -> None:
        """Takes one sample of a batch kernel's input out of the iteration."""

    def cancelled(self) -> bool:
        """Whether nobody wants the results any more, as the loop was left: what a kernel then gives does not matter."""

    def count(self, what: str, number: int = 1) -> None:
        """Counts something worth knowing, such as samples that took another way, for the pipeline's statistics."""

    def random(self, key: str) -> Any:
        """The random numbers of the samples at hand for `key`."""


class CudaContext(Context, Protocol):
    """What a kernel on a GPU may use. All that it queues is queued on `stream`; what it got is ready there."""

    @property
    def stream(self) -> Stream:
        """The stream, of `cuda.core`."""

    def new_stream(self) -> Stream:
        """A stream of one's own, for libraries that keep one."""

    def empty_samples(self, shapes: NDArray[Any], dtype: str, layout: str | None = None) -> Any:
        """An uninitialised `Batch`, a sample for each row of `shapes`, int64 (samples, dimensions)."""

    def upload(self, table: NDArray[Any]) -> int:
        """The address of a copy of an array in the device's memory, which lives until the kernel's work is done."""

    def scratch(self, nbytes: int) -> int:
        """The address of uninitialised memory of the device, which lives until the kernel's work is done."""

    def copy_in(self, batch: Any, arrays: Sequence[NDArray[Any]]) -> None:
        """Queues copies of arrays of the host into the samples of a batch of the device, in order."""

    def launch(self, kernel: CudaKernel, grid: tuple[int, ...], block: tuple[int, ...], *arguments: int) -> None:
        """Queues a kernel; each argument is passed as 8 bytes: an address, or a `long long`."""

    def reserve(self, owner: object, nbytes: int) -> None:
        """Lets `owner` hold up to so many bytes of memory that a library takes by itself: all in all, 0 in the end.

        Raises MemoryLimitError when they do not fit into what `memory_limit` leaves.
        """

    def adopt(
        self,
        addresses: NDArray[Any],
        shapes: NDArray[Any],
        dtype: str,
        layout: str | None = None,
        *,
        nbytes: int,
        owner: object,
        give_back: Callable[[Event], None],
    ) -> Any:
        """A `Batch` over memory that a library owns, and that was reserved.

        Args:
            addresses: uint64 (samples,), of packed samples.
            shapes: int64 (samples, dimensions).
            dtype: of all.
            layout: of a sample.
            nbytes: what it counts for.
            owner: is kept as long as somebody refers to the batch.
            give_back: called once after that, in any thread, with a mark of the end of all work on the memory.
        """
