"""What is known of a value before it exists: shape, dtype, layout."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from pipeplug.errors import SpecError

DTYPES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "uint32": 4, "int32": 4,
    "float32": 4, "uint64": 8, "int64": 8, "float64": 8, "complex64": 8, "complex128": 16,
}  # fmt: skip
"""The dtypes of tensors, and their sizes in bytes."""

OBJECT = "object"
"""The dtype of plain Python objects: bytes, path, string, dict. They stay on the host."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The shape, dtype and layout of one sample; what is unknown is None.

    Attributes:
        shape: the sizes; a size that varies or is not known yet is None; None alone when even their number is unknown.
        dtype: a NumPy name such as `"uint8"`, `"object"` for plain Python objects, or None.
        layout: a letter a dimension, such as `"HWC"`, or None. F frames, H height, W width, C channels, T time.
    """

    shape: tuple[int | None, ...] | None = None
    dtype: str | None = None
    layout: str | None = None

    def __post_init__(self) -> None:
        if self.shape is not None and type(self.shape) is not tuple:
            object.__setattr__(self, "shape", tuple(self.shape))
        if self.dtype is not None and self.dtype not in DTYPES and self.dtype != OBJECT:
            raise SpecError(f"unknown dtype {self.dtype!r}; known are {', '.join(DTYPES)} and {OBJECT!r}")
        if self.layout is not None and self.shape is not None and len(self.layout) != len(self.shape):
            raise SpecError(f"layout {self.layout!r} does not have as many letters as shape {self.shape} has sizes")

    @classmethod
    def object(cls) -> TensorSpec:
        """The spec of a plain Python object."""
        return cls((), OBJECT)

    @property
    def is_object(self) -> bool:
        return self.dtype == OBJECT

    @property
    def is_static(self) -> bool:
        """Whether every size and the dtype are known, so that memory can be taken for it."""
        return self.shape is not None and self.dtype in DTYPES and None not in self.shape

    @property
    def nbytes(self) -> int:
        """Bytes of one sample. Raises SpecError while something is unknown."""
        if self.dtype not in DTYPES:
            raise SpecError(f"the size of {self} is not known")
        return prod(self.known_shape()) * DTYPES[self.dtype]

    def known_shape(self) -> tuple[int, ...]:
        """The sizes. Raises SpecError while one is unknown."""
        sizes = tuple(size for size in self.shape or () if size is not None)
        if self.shape is None or len(sizes) != len(self.shape):
            raise SpecError(f"the size of {self} is not known")
        return sizes

    def axis(self, letter: str) -> int:
        """The dimension that the layout calls `letter`. Raises SpecError when there is none."""
        if self.layout is None or letter not in self.layout:
            raise SpecError(f"needs a layout with {letter}, got {self.layout!r}")
        return self.layout.index(letter)

    def with_shape(self, shape: Iterable[int | None] | None) -> TensorSpec:
        return TensorSpec(None if shape is None else tuple(shape), self.dtype, self.layout)

    def with_dtype(self, dtype: str | None) -> TensorSpec:
        return TensorSpec(self.shape, dtype, self.layout)

    def with_layout(self, layout: str | None) -> TensorSpec:
        return TensorSpec(self.shape, self.dtype, layout)

    def admits(self, other: TensorSpec) -> bool:
        """Whether a sample of spec `other` is one that this spec describes; unknowns here admit anything."""
        return (
            self.dtype in (None, other.dtype)
            and (self.layout in (None, other.layout) or other.layout is None)
            and (self.shape is None or _shape_admits(self.shape, other.shape))
        )

    def __str__(self) -> str:
        if self.is_object:
            return OBJECT
        shape = "(…)" if self.shape is None else f"({', '.join('?' if n is None else str(n) for n in self.shape)})"
        return " ".join(part for part in (self.dtype or "?", shape, self.layout or "") if part)


def _shape_admits(expected: tuple[int | None, ...], actual: tuple[int | None, ...] | None) -> bool:
    return (
        actual is not None
        and len(expected) == len(actual)
        and all(size is None or size == other for size, other in zip(expected, actual, strict=True))
    )
