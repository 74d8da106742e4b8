"""A GPU for tests, on the CPU: kernels compiled by g++ run on memory of the host, around which nobody may write."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pytest

from pipeplug import Array, Batch, CudaKernel

SHIM = Path(__file__).with_name("shim.h")
COMPILER = shutil.which("g++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs g++, which compiles kernels for the CPU")

POISON, GUARD, MARGIN, ALIGNMENT = 0xCD, 0xA5, 256, 256

_OWN = """
#include "{shim}"
#include "{source}"
#ifdef PIPEPLUG_PIXELS_CUH
float float_of(float16 value) {{ return emulator::widened(value.bits); }}
float16 half_of(float number) {{ float16 half; half.bits = emulator::narrowed(number); return half; }}
#endif
static const long long *given;
static void body_of_kernel() {{ emulator::call({kernel}, given); }}
extern "C" int number_of_arguments() {{ return emulator::arity({kernel}); }}
extern "C" int emulate(const unsigned *sizes, const long long *arguments)
{{
    gridDim = {{sizes[0], sizes[1], sizes[2]}};
    blockDim = {{sizes[3], sizes[4], sizes[5]}};
    given = arguments;
    emulator::misaligned = 0;
    if (!emulator::run(body_of_kernel))
        return -1;
    return emulator::misaligned;
}}
"""


class Memory:
    """Bytes of the host between guards, at a multiple of 256; read-only ones are looked at after every launch."""

    def __init__(self, nbytes: int, content: bytes | None = None) -> None:
        self._whole = np.full(nbytes + 2 * MARGIN + ALIGNMENT, GUARD, np.uint8)
        start = -self._whole.ctypes.data % ALIGNMENT + MARGIN
        self.bytes = self._whole[start : start + nbytes]
        self._start = start
        self.address = int(self._whole.ctypes.data) + start
        self._content = content
        self.bytes[...] = POISON if content is None else np.frombuffer(content, np.uint8)
        _memories.add(self)

    def check(self) -> None:
        """Raises AssertionError where somebody wrote beyond the memory, or into what is read-only."""
        end = self._start + len(self.bytes)
        before, after = self._whole[: self._start] != GUARD, self._whole[end:] != GUARD
        assert not before.any(), f"written {self._start - before.argmax()} bytes before {len(self.bytes)} bytes"
        assert not after.any(), f"written {after.nonzero()[0].max() + 1} bytes past the end of {len(self.bytes)} bytes"
        assert self._content is None or self.bytes.tobytes() == self._content, "an input was written to"


_memories: WeakSet[Memory] = WeakSet()


def emulated_batch(arrays: Sequence[Array], layout: str | None = "HWC", *, device: str = "cuda:0") -> Batch:
    """A batch "on a GPU" with copies of these arrays, one after the other, which kernels may only read."""
    content = b"".join(array.tobytes() for array in arrays)
    memory = Memory(len(content), content)
    shapes = np.array([array.shape for array in arrays], np.int64).reshape(len(arrays), -1)
    sizes = np.array([array.nbytes for array in arrays], np.int64)
    addresses = np.uint64(memory.address) + (np.cumsum(sizes) - sizes).astype(np.uint64)
    return Batch.on_device(addresses, shapes, arrays[0].dtype.name, layout, owner=memory, device=device)


def arrays_of(batch: Batch) -> list[Array]:
    """Copies of the samples of an emulated batch."""
    dtype = np.dtype(batch.dtype)
    places = zip(batch.addresses.tolist(), batch.shapes.tolist(), strict=True)
    return [
        np.frombuffer(ctypes.string_at(address, int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
        for address, shape in places
    ]


class EmulatedContext:
    """What a kernel on a GPU may use, on the CPU; everything has happened when a call returns.

    Attributes:
        failed: causes of failure by row.
        counts: what was counted.
        launched: names of the kernels that ran.
    """

    device = "cuda:0"

    def __init__(self) -> None:
        self.failed: dict[int, Exception] = {}
        self.counts: Counter[str] = Counter()
        self.launched: list[str] = []
        self._memories: list[Memory] = []

    def empty_samples(self, shapes: Array, dtype: str, layout: str | None = None) -> Batch:
        """Ragged samples begin at multiples of 256 bytes, equal ones lie side by side, as in the real one."""
        sizes = shapes.prod(axis=1) * np.dtype(dtype).itemsize
        if not (len(shapes) and (shapes == shapes[0]).all()):
            sizes = -(-sizes // ALIGNMENT) * ALIGNMENT
        memory = Memory(int(sizes.sum()))
        addresses = np.uint64(memory.address) + (np.cumsum(sizes) - sizes).astype(np.uint64)
        return Batch.on_device(addresses, shapes, dtype, layout, owner=memory, device=self.device)

    def upload(self, table: Array) -> int:
        return self._keep(Memory(table.nbytes, table.tobytes()))

    def scratch(self, nbytes: int) -> int:
        return self._keep(Memory(nbytes))

    def copy_in(self, batch: Batch, arrays: Sequence[Array]) -> None:
        for address, array in zip(batch.addresses.tolist(), arrays, strict=True):
            ctypes.memmove(address, array.tobytes(), array.nbytes)

    def launch(self, kernel: CudaKernel, grid: tuple[int, ...], block: tuple[int, ...], *arguments: int) -> None:
        sizes = (*grid, 1, 1)[:3] + (*block, 1, 1)[:3]
        check_sizes(sizes)
        if 0 in grid:
            return
        run(kernel, sizes, arguments)
        self.launched.append(kernel.name)
        for memory in _memories:
            memory.check()

    def fail(self, row: int, cause: Exception) -> None:
        assert row not in self.failed, f"row {row} failed twice"
        self.failed[row] = cause

    def cancelled(self) -> bool:
        return False

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] += number

    def _keep(self, memory: Memory) -> int:
        self._memories.append(memory)
        return memory.address


def check_sizes(sizes: Sequence[int]) -> None:
    """Raises AssertionError for a launch that no GPU takes."""
    limits = (2**31 - 1, 65535, 65535, 1024, 1024, 64)
    assert all(type(size) is int for size in sizes), f"sizes of a launch are ints, got {sizes}"
    assert all(0 <= size <= limit for size, limit in zip(sizes, limits, strict=True)), f"{sizes} are beyond {limits}"
    assert 0 < sizes[3] * sizes[4] * sizes[5] <= 1024, f"a block has 1 to 1024 threads, got {sizes[3:]}"


def run(kernel: CudaKernel, sizes: Sequence[int], arguments: Sequence[int]) -> None:
    """Runs a kernel to its end."""
    assert all(isinstance(each, int) for each in arguments), f"arguments of {kernel} are ints, got {arguments}"
    library = loaded(kernel)
    assert library.number_of_arguments() == len(arguments), f"{kernel} takes {library.number_of_arguments()} arguments"
    result = library.emulate((ctypes.c_uint * 6)(*sizes), (ctypes.c_longlong * len(arguments))(*arguments))
    assert result >= 0, f"{kernel}: some threads of a block ended while others waited at a barrier"
    assert result == 0, f"{kernel}: {result} accesses were not aligned to the size of their type"


@cache
def loaded(kernel: CudaKernel) -> Any:
    """A kernel, compiled for the CPU."""
    folder = _folder()
    name = f"{kernel.source.path.stem}-{kernel.name}-" + "-".join(f"{key}.{value}" for key, value in kernel.defines)
    code = folder / f"{name}.cpp"
    code.write_text(_OWN.format(shim=SHIM, source=kernel.source.path, kernel=kernel.name), encoding="utf-8")
    defines = [f"-D{key}={value}" for key, value in kernel.defines]
    if "__syncthreads" in _everything(kernel.source.path):
        defines.append("-DFIBRES")
    _compile(code, defines)
    return ctypes.CDLL(str(code.with_suffix(".so")))


def _compile(code: Path, defines: list[str]) -> None:
    options = ["-std=c++17", "-O2", "-w", "-fPIC", "-ffp-contract=off", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"]
    built, library = code.with_suffix(".o"), code.with_suffix(".so")
    compiler = COMPILER or "g++"
    # Linked without the sanitizer's library, as the shim takes its calls.
    for command in (
        [compiler, *options, "-fsanitize=alignment", *defines, "-c", str(code), "-o", str(built)],
        [compiler, "-shared", str(built), "-o", str(library)],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def _everything(source: Path) -> str:
    """The text of a source and of its neighbours, which it may include."""
    headers = sorted(source.parent.glob("*.cuh"))
    return "".join(path.read_text(encoding="utf-8") for path in (source, *headers) if _includes(source, path))


def _includes(source: Path, path: Path) -> bool:
    return path == source or f'"{path.name}"' in source.read_text(encoding="utf-8")


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="pipeplug-kernels-")  # goes when the interpreter ends


def _folder() -> Path:
    return Path(_temporary().name)
