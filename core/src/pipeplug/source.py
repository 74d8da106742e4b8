"""The declaration of sources: operators without inputs, from which samples come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

from pipeplug.errors import ArgumentError, DeclarationError
from pipeplug.operator import Operator, fields_of


@runtime_checkable
class IndexedReader(Protocol):
    """A source of known length whose samples can be read in any order, by several threads at once."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Reader = IndexedReader | Iterable[Any]
"""What a source reads from: by index, or one after the other. One that is a context manager is entered and left."""


class Source(Operator):
    """The base of all sources.

    A subclass gives `infer(self)`, the specs of its outputs, and `reader(self)`, an indexed or iterable object whose
    items hold one entry an output. A reader's `origin(index)`, if it has one, names a sample in error messages, and its
    `content()` is a text that differs for other data, which a saved state is checked against.

    Args:
        shuffle: whether each epoch has an order of its own.
        shard: this rank and the number of ranks; all ranks share one order and each takes its part.
        sampler: gives the indices of an epoch in order, instead of `shuffle`.

    Attributes:
        located_by: names of the fields that say where data lies, not what it is; a run may resume where that differs.
    """

    located_by: ClassVar[tuple[str, ...]] = ()

    shuffle: bool = False
    shard: tuple[int, int] = (0, 1)
    sampler: Callable[[int], Sequence[int]] | None = None

    def check(self) -> None:
        rank, ranks = self.shard
        if not 0 <= rank < ranks:
            raise ArgumentError(f"shard=({rank}, {ranks}) names rank {rank} of {ranks}; ranks count from 0")
        if self.shuffle and self.sampler is not None:
            raise ArgumentError("a sampler gives the order itself; leave out shuffle=True")

    def reader(self) -> Reader:
        """Opens what the samples are read from."""
        raise DeclarationError(f"{type(self).__name__} has no reader(self), which gives what the samples are read from")


def positional_arguments(
    source: type[Source], name: str, values: Sequence[object], arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of a source call whose first ones came by position. Raises ArgumentError when they do not fit."""
    own = [item.name for item in fields_of(source) if item.name not in {item.name for item in fields_of(Source)}]
    if len(values) > len(own):
        raise ArgumentError(f"{name} takes {len(own)} arguments by position ({', '.join(own)}), got {len(values)}")
    placed = dict(zip(own, values, strict=False))
    if twice := sorted(set(placed) & set(arguments)):
        raise ArgumentError(f"{name} got {twice[0]} twice, by position and by name")
    return placed | dict(arguments)


def content_of(reader: Reader) -> str:
    """What tells the data of a reader from others, as far as it says."""
    content = getattr(reader, "content", None)
    return str(content()) if callable(content) else ""


def origin_of(reader: Reader, index: int) -> str:
    """Where a sample of a reader comes from, for people to read."""
    origin = getattr(reader, "origin", None)
    try:
        return str(origin(index)) if origin is not None else f"item {index}"
    except Exception as error:  # the sample's own error must not be lost over its name
        return f"item {index} (its reader's origin() raised {type(error).__name__})"
