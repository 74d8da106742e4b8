"""The options of a pipeline, checked."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, TypedDict, get_type_hints

from pipeplug.arguments import convert
from pipeplug.errors import ArgumentError
from pipeplug.memory.units import parse_bytes

MemoryLimit = int | str | Mapping[str, int | str] | None

_PLACE = re.compile(r"cpu|pinned|cuda:\d+").fullmatch


class OtherOptions(TypedDict, total=False):
    """The options beside `batch_size` by name."""

    threads: int | None
    device: str
    seed: int
    prefetch: int
    last_batch: Literal["keep", "drop", "pad"]
    on_error: Literal["raise", "skip", "replace"]
    max_failures: int | None
    memory_limit: MemoryLimit


class OptionChanges(OtherOptions, total=False):
    """Options by name, as `using` takes them."""

    batch_size: int


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """How a pipeline runs. Of these only `seed`, `on_error` and `last_batch` change what comes out, never threads.

    Attributes:
        batch_size: samples in a batch.
        threads: how many threads run kernels; None means one for each processor that this process may use.
        device: where operators run that have a kernel for it: `"cpu"`, `"cuda:0"`, …
        seed: of all random numbers and of the epochs' orders, from 0 to 2**64 - 1.
        prefetch: how many batches may be under way or waiting while the loop works on another.
        last_batch: `"keep"` the epoch's incomplete last batch as it is, `"drop"` it, or `"pad"` it by its last sample.
        on_error: when a sample fails, `"raise"`, `"skip"` it, or `"replace"` it by its batch's next good one.
        max_failures: how many samples of an epoch may fail before that is an error; None means any number.
        memory_limit: bytes of host memory, or text such as `"2GiB"`, that values and free blocks together stay under;
            a dict of such limits by device: `{"cpu": "8GiB", "pinned": "1GiB", "cuda:0": "2GiB"}`, which as text is
            `"cpu=8GiB,pinned=1GiB,cuda:0=2GiB"`.
    """

    batch_size: int
    threads: int | None = None
    device: str = "cpu"
    seed: int = 0
    prefetch: int = 2
    last_batch: Literal["keep", "drop", "pad"] = "keep"
    on_error: Literal["raise", "skip", "replace"] = "raise"
    max_failures: int | None = None
    memory_limit: MemoryLimit = None

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for item in fields(self):
            value = convert(getattr(self, item.name), hints[item.name], f"pipeline option {item.name}")
            object.__setattr__(self, item.name, value)
        for name, least in (("batch_size", 1), ("threads", 1), ("prefetch", 1), ("seed", 0), ("max_failures", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ArgumentError(f"pipeline option {name} is at least {least}, got {value}")
        if self.seed >= 2**64:
            raise ArgumentError(f"pipeline option seed is less than 2**64, got {self.seed}")
        self.memory_limits  # noqa: B018 - raises, with advice

    @property
    def thread_count(self) -> int:
        if self.threads is not None:
            return self.threads
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def memory_limits(self) -> dict[str, int]:
        """Bytes by device."""
        if self.memory_limit is None:
            return {}
        limits: Mapping[str, int | str]
        limits = self.memory_limit if isinstance(self.memory_limit, Mapping) else {"cpu": self.memory_limit}
        if isinstance(self.memory_limit, str) and "=" in self.memory_limit:
            limits = dict(part.split("=", 1) for part in self.memory_limit.split(",") if "=" in part)
        if unknown := [each for each in limits if not _PLACE(each)]:
            raise ArgumentError(f"memory_limit is by 'cpu', 'pinned', 'cuda:0', …, got {unknown[0]!r}")
        return {device: parse_bytes(limit) for device, limit in limits.items()}

    def changed(self, changes: OptionChanges) -> PipelineOptions:
        """The options with some of them changed. Raises ArgumentError for an unknown name."""
        known = {item.name for item in fields(self)}
        if unknown := sorted(set(changes) - known):
            raise ArgumentError(f"a pipeline has no option {unknown[0]!r}; it has {', '.join(sorted(known))}")
        return replace(self, **changes)
