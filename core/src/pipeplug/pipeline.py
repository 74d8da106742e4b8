"""Pipelines: a function of operator calls, traced, planned, and run as an iterable of batches."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import GEN_CLOSED, getgeneratorstate
from types import TracebackType
from typing import Any, Generic, NoReturn, ParamSpec, Self, Unpack

from pipeplug.errors import ArgumentError, DeclarationError, GraphError, StateError
from pipeplug.graph.graph import Graph
from pipeplug.graph.plan import Plan, make_plan
from pipeplug.graph.trace import trace
from pipeplug.options import OptionChanges, OtherOptions, PipelineOptions
from pipeplug.plugins.rewrites import rewrite_for
from pipeplug.runtime.debugging import run_positions
from pipeplug.runtime.epoch import Epoch, RunOptions
from pipeplug.runtime.fingerprint import fingerprint
from pipeplug.runtime.order import Order, Partition, epoch_order
from pipeplug.runtime.outputs import Outputs
from pipeplug.runtime.sampling import IndexedSampling, Sampling, SerialSampling
from pipeplug.runtime.session import Session
from pipeplug.runtime.statistics import MemoryUse, Statistics
from pipeplug.source import IndexedReader, Reader, Source, content_of

P = ParamSpec("P")


@dataclass(frozen=True)
class PipelineState:
    """Where a run stands, to go on from there with any number of threads or ranks.

    Attributes:
        epoch: counted from 0.
        delivered: positions of the epoch that all ranks have delivered.
        fingerprint: of the pipeline; a state fits only the pipeline that it came from.
    """

    epoch: int
    delivered: int
    fingerprint: str


class PipelineFunction(Generic[P]):
    """A pipeline function with its options; calling it with the function's arguments gives a `Pipeline`."""

    def __init__(self, function: Callable[P, object], options: PipelineOptions) -> None:
        self.function = function
        self.options = options
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", "pipeline")
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Pipeline:
        return Pipeline(lambda: self.function(*args, **kwargs), self.options)

    def using(self, **options: Unpack[OptionChanges]) -> PipelineFunction[P]:
        """The same function with other options."""
        return PipelineFunction(self.function, self.options.changed(options))

    def _refuse(self) -> NoReturn:
        raise StateError(
            f"{self.__name__} is a pipeline function, which gives a pipeline when it is called: "
            f"`with {self.__name__}(…) as batches:`"
        )

    def __iter__(self) -> NoReturn:
        self._refuse()

    def __len__(self) -> NoReturn:
        self._refuse()

    def __enter__(self) -> NoReturn:
        self._refuse()

    def __exit__(self, *_: object) -> None:
        """Never reached, as the block is never entered."""

    def __bool__(self) -> bool:
        return True  # not by its length, which it has not


def pipeline(batch_size: int, **options: Unpack[OtherOptions]) -> Callable[[Callable[P, object]], PipelineFunction[P]]:
    """Makes a pipeline of a function that calls operators and returns a dict of their values.

    Args:
        batch_size: samples in a batch.
        options: see `PipelineOptions`.
    """
    if callable(batch_size):
        raise ArgumentError("write @pipeline(batch_size=…) with the number of samples in a batch")
    checked = PipelineOptions(batch_size=batch_size).changed({"batch_size": batch_size, **options})
    return lambda function: PipelineFunction(function, checked)


class Pipeline:
    """A traced and planned pipeline: an iterable of batches, one epoch an iteration, inside its `with` block.

    Threads and memory live inside the block. Each loop is exactly one epoch; a `break` ends it. `len()` is the number
    of batches of an epoch, exact unless an iteration has no good sample.

    Attributes:
        plan: what will run.
        options: how.
    """

    def __init__(self, function: Callable[[], object], options: PipelineOptions) -> None:
        self.options = options
        traced = trace(function)
        self.plan: Plan = make_plan(traced, options.device, rewrite_for(node.operator_name for node in traced))
        self._source, self._reader = _open_source(traced)
        self._session: Session | None = None
        self._running: weakref.ref[Generator[Outputs, None, None]] | None = None
        self._fingerprint: str | None = None
        self._spent = False
        self._next_epoch = 0
        self._start = 0
        self._progress = (0, 0)

    def __enter__(self) -> Self:
        if self._session is not None:
            raise StateError("this pipeline is open already; one `with` block at a time")
        session = Session(self.plan, self._reader, seed=self.options.seed, memory_limits=self.options.memory_limits)
        self._session = session.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        session, self._session = self._opened(), None
        running = self._running() if self._running else None
        try:
            if running is not None:
                running.close()
        finally:
            session.__exit__(kind, error, traceback)

    def __len__(self) -> int:
        if not isinstance(self._reader, IndexedReader):
            raise TypeError("the length of a pipeline over an iterable is not known before it ends")
        return len(self._partition(self._order(self._next_epoch)))

    def __iter__(self) -> Iterator[Outputs]:
        session = self._opened()
        if self._is_running():
            raise StateError("an epoch of this pipeline is running; leave its loop, or close its iterator, first")
        batches = self._run(session)
        self._running = weakref.ref(batches)
        return batches

    def _run(self, session: Session) -> Generator[Outputs, None, None]:
        number, start = self._next_epoch, self._start
        epoch = self._epoch(session, number, start)
        self._progress = (number, start)
        self._next_epoch, self._start = number + 1, 0

        def note(delivered: int) -> None:
            self._progress = (number, delivered)

        yield from epoch.batches(note)
        self._progress = (number + 1, 0)

    def _epoch(self, session: Session, number: int, start: int) -> Epoch:
        options = self.options
        run = RunOptions(
            threads=options.thread_count,
            batch_size=options.batch_size,
            prefetch=options.prefetch,
            last_batch=options.last_batch,
            on_error=options.on_error,
            max_failures=options.max_failures,
        )
        items, sampling = self._samples_of(number, start)
        return Epoch(session, run, number=number, sampling=sampling, items=items, start=start)

    def _samples_of(self, number: int, start: int) -> tuple[Iterator[object] | None, Sampling]:
        if isinstance(self._reader, IndexedReader):
            order = self._order(number)
            return None, IndexedSampling(order, self._partition(order, start))
        return self._items(), SerialSampling(start, self.options.batch_size)

    def _items(self) -> Iterator[object]:
        assert not isinstance(self._reader, IndexedReader)
        if self._spent:
            raise StateError(
                f"{type(self._reader).__name__} can be iterated once and has been; give the source an object whose "
                "__iter__ begins anew for another epoch"
            )
        items = iter(self._reader)
        self._spent = items is self._reader
        return items

    def _order(self, epoch: int) -> Order:
        assert isinstance(self._reader, IndexedReader)
        return epoch_order(
            len(self._reader),
            seed=self.options.seed,
            epoch=epoch,
            shuffle=self._source.shuffle,
            sampler=self._source.sampler,
        )

    def _partition(self, order: Order, start: int | None = None) -> Partition:
        rank, ranks = self._source.shard
        begin = self._start if start is None else start
        return Partition(len(order), self.options.batch_size, rank, ranks, begin, self.options.last_batch)

    def _opened(self) -> Session:
        if self._session is None:
            raise StateError("open the pipeline first: `with pipeline as batches:`")
        return self._session

    def samples(self, positions: Sequence[int], *, epoch: int = 0) -> Outputs:
        """The samples at these positions of an epoch, run here and now, node by node, as written: for debugging.

        They are drawn the numbers that training draws. The first failure is raised with its whole traceback.
        """
        if not isinstance(self._reader, IndexedReader):
            raise ArgumentError("samples() needs a source with a length; this one is read from start to end")
        plan = make_plan(self.plan.traced, self.options.device, rewrite=None)
        return run_positions(
            plan,
            self._reader,
            self._order(epoch),
            positions,
            epoch=epoch,
            seed=self.options.seed,
            lent=self._session is not None,
        )

    def state(self) -> PipelineState:
        """Where the run stands: after the last batch that the loop received."""
        epoch, delivered = self._progress
        return PipelineState(epoch, delivered, self._identity())

    def load_state(self, state: PipelineState) -> None:
        """Lets the next loop go on where `state` was taken. Raises StateError for another pipeline's state."""
        if not isinstance(state, PipelineState):
            raise StateError(f"load_state takes what state() gave, a PipelineState, got {state!r:.80}")
        self._refuse_while_running("load_state")
        if state.fingerprint != self._identity():
            raise StateError(
                "this state comes from another pipeline: operators, their arguments, the seed or the source differ"
            )
        self._next_epoch, self._start = state.epoch, state.delivered
        self._progress = (state.epoch, state.delivered)

    def set_epoch(self, epoch: int) -> None:
        """Lets the next loop run the epoch of this number, counted from 0, from its beginning."""
        self._refuse_while_running("set_epoch")
        if epoch < 0:
            raise ArgumentError(f"epochs count from 0, got {epoch}")
        self._next_epoch, self._start = epoch, 0
        self._progress = (epoch, 0)

    def _is_running(self) -> bool:
        running = self._running() if self._running else None
        return running is not None and getgeneratorstate(running) != GEN_CLOSED

    def _refuse_while_running(self, what: str) -> None:
        if self._is_running():
            raise StateError(f"{what} is for the next loop, but an epoch is running; leave its loop first")

    def statistics(self) -> Statistics:
        """What has been done since the block was entered."""
        return self._opened().counters.statistics()

    def memory(self) -> Mapping[str, MemoryUse]:
        """Bytes by device: of `"cpu"`, of each GPU, and `"pinned"` memory of the host between them."""
        return self._opened().memory.use()

    def _identity(self) -> str:
        if self._fingerprint is None:
            length = len(self._reader) if isinstance(self._reader, IndexedReader) else None
            self._fingerprint = fingerprint(self.plan.traced, self.options.seed, length, content_of(self._reader))
        return self._fingerprint


def _open_source(graph: Graph) -> tuple[Source, Reader]:
    sources = [node.operator for node in graph.nodes if isinstance(node.operator, Source)]
    if not sources:
        raise GraphError("the pipeline reads from nothing; begin with a source such as ops.read.files(root)")
    source: Any = sources[0]
    reader = source.reader()
    if not isinstance(reader, IndexedReader) and source.is_parallel():
        raise DeclarationError(
            f"the reader of {source.title()} has no len() and [index], so it is read by one thread at a time; "
            f"declare it: {type(source).__name__}.parallel = False"
        )
    if not isinstance(reader, IndexedReader) and (source.shuffle or source.sampler or source.shard != (0, 1)):
        raise ArgumentError("an iterable without a length is read as it comes: no shuffle, sampler or shard")
    return source, reader
