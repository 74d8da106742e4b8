"""Every error that pipeplug raises on purpose.

A message names the thing (operator, node, sample, file), says where it came from, and what to do next.
"""

from __future__ import annotations

from typing import Any


class PipeplugError(Exception):
    """The base of all errors of pipeplug."""


class ArgumentError(PipeplugError, ValueError):
    """An argument of an operator or of a pipeline does not fit."""


class DeclarationError(PipeplugError, TypeError):
    """An operator class is declared in a way that cannot work."""


class SpecError(PipeplugError, ValueError):
    """The inputs of an operator have a shape, dtype or layout that it cannot take."""


class GraphError(PipeplugError):
    """A pipeline function does something that cannot become a graph."""


class UnknownOperatorError(PipeplugError, AttributeError):
    """No installed distribution offers an operator of that name."""


class OperatorConflictError(PipeplugError):
    """Two distributions offer an operator of the same name."""


class PluginError(PipeplugError, ImportError):
    """A plugin cannot be imported, or wants another version of pipeplug."""


class SourceError(PipeplugError):
    """A source has nothing to read, or cannot read it."""


class DecodeError(PipeplugError, ValueError):
    """Encoded data is empty, cut, broken, too large, or of an unknown format."""


class StateError(PipeplugError, RuntimeError):
    """Something was used at the wrong time: outside its `with` block, twice at once, with another run's state."""


class MemoryLimitError(PipeplugError, MemoryError):
    """An allocation does not fit into `memory_limit`."""


class DeviceError(PipeplugError, RuntimeError):
    """A device, its driver or a package for it is missing, or does not do what it should."""


class TooManyFailuresError(PipeplugError):
    """More samples failed than `max_failures` allows."""


class SampleFailed(PipeplugError):  # noqa: N818 - it is a value in `batch.failures` as often as it is raised
    """One sample could not be read or processed.

    Attributes:
        position: place in the epoch's order.
        index: place in the source.
        origin: where the sample came from, a path or a description of its place in the source.
        operator: name of the operator that failed, such as `image.decode`.
        node: name of its node in the graph, such as `image.decode_2`.
        cause: the exception that was raised, without the frames that it was raised in.
        replaced_by: the position whose row took this one's place (`on_error="replace"`), or None.
    """

    def __init__(
        self, *, position: int, index: int, origin: str, operator: str, node: str, cause: BaseException
    ) -> None:
        self.position = position
        self.index = index
        self.origin = origin
        self.operator = operator
        self.node = node
        self.cause = cause
        self.replaced_by: int | None = None
        super().__init__(
            f"{node} failed on {origin} (position {position}, index {index}): {type(cause).__name__}: {cause}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_sample_failed, (
            self.position, self.index, self.origin, self.operator, self.node, self.cause, self.replaced_by,
        )  # fmt: skip


def _rebuild_sample_failed(
    position: int, index: int, origin: str, operator: str, node: str, cause: BaseException, replaced_by: int | None
) -> SampleFailed:
    failure = SampleFailed(position=position, index=index, origin=origin, operator=operator, node=node, cause=cause)
    failure.replaced_by = replaced_by
    return failure
