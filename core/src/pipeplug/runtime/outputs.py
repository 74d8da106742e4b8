"""What a loop receives: the batches of one iteration by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pipeplug.batch import Batch
from pipeplug.errors import PipeplugError, SampleFailed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class OutputError(PipeplugError, KeyError):
    """The pipeline has no output of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class Outputs(Mapping[str, Batch]):
    """The batches of one iteration by name, in the order in which the pipeline function returned them.

    Attributes:
        positions: int64 (rows,), the place in the epoch's order of each row.
        indices: int64 (rows,), the place in the source of each row.
        padding: how many rows at the end repeat the last one (`last_batch="pad"`).
        epoch: counted from 0.
        failures: the samples that failed, which are not among the rows; also those of iterations before this one that
            had no good sample and were passed over.
    """

    def __init__(
        self,
        batches: Mapping[str, Batch],
        positions: NDArray[np.int64],
        indices: NDArray[np.int64],
        padding: int,
        epoch: int,
        failures: tuple[SampleFailed, ...],
    ) -> None:
        self._batches = dict(batches)
        self.positions = positions
        self.indices = indices
        self.padding = padding
        self.epoch = epoch
        self.failures = failures

    def __getitem__(self, name: str) -> Batch:
        try:
            return self._batches[name]
        except KeyError:
            raise OutputError(f"no output {name!r}; there are {', '.join(map(repr, self._batches))}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __repr__(self) -> str:
        return f"Outputs({', '.join(f'{name}={batch!r}' for name, batch in self._batches.items())})"
