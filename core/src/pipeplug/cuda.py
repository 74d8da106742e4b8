"""CUDA kernels: sources in `.cu` files, compiled for the card at hand when first launched, and kept on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeplug.errors import DeviceError
from pipeplug.memory.cuda import open_device

if TYPE_CHECKING:
    from pipeplug.memory.resource import Stream

Size = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CudaSource:
    """A file of CUDA C++, which may include other files of its folder; no headers of CUDA are needed or found.

    Attributes:
        path: of the `.cu` file.
    """

    path: Path

    def kernel(self, name: str, **defines: str | int) -> CudaKernel:
        """The kernel `extern "C" __global__ void name(…)`, of the source as macros make it: `-DPIXEL=uint8`."""
        return CudaKernel(self, name, tuple(sorted((key, str(value)) for key, value in defines.items())))

    def digest(self) -> bytes:
        """Of all that the source may include."""
        files = sorted(path for path in self.path.parent.iterdir() if path.suffix in (".cu", ".cuh", ".h"))
        digest = sha256()
        for file in files:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        return digest.digest()


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A kernel of a source, in one variant. It is compiled when it is first launched.

    Attributes:
        source: where it is written.
        name: of the function.
        defines: macros and their values.
    """

    source: CudaSource
    name: str
    defines: tuple[tuple[str, str], ...]

    def compile(self, architecture: str) -> bytes:
        """The machine code for an architecture such as `"sm_90"`, from the disk if it has been compiled before.

        No card is needed. Raises DeviceError with the compiler's words when it does not compile.
        """
        from cuda.core import Program, ProgramOptions
        from cuda.core.utils import make_program_cache_key

        path = self.source.path
        options = ProgramOptions(
            name=path.name,
            arch=architecture,
            std="c++17",
            define_macro=list(self.defines) or None,  # an empty list is refused
            include_path=[str(path.parent)],
        )
        code = path.read_text(encoding="utf-8")
        key = make_program_cache_key(
            code=code, code_type="c++", options=options, target_type="cubin", extra_digest=self.source.digest()
        )
        kept = _kept_programs()
        machine_code = None if kept is None else kept.get(key)
        if machine_code is None:
            try:
                machine_code = bytes(Program(code, "c++", options).compile("cubin").code)
            except Exception as error:
                raise DeviceError(f"{self} does not compile for {architecture}: {error}") from error
            if kept is not None:
                kept[key] = machine_code
        return bytes(machine_code)

    def __str__(self) -> str:
        defines = "".join(f" -D{name}={value}" for name, value in self.defines)
        return f"{self.name} of {self.source.path}{defines}"


@cache
def _kept_programs() -> Any:
    """Machine code of earlier runs, in the user's cache folder; None where nothing can be written."""
    from cuda.core.utils import FileStreamProgramCache

    try:
        return FileStreamProgramCache(max_size_bytes=1 << 30)
    except OSError:
        return None


@cache
def loaded(kernel: CudaKernel, device: str) -> Any:
    """The `cuda.core.Kernel` of a kernel on a device."""
    from cuda.core import ObjectCode

    capability = open_device(device).compute_capability
    code = kernel.compile(f"sm_{capability.major}{capability.minor}")
    try:
        return ObjectCode.from_cubin(code, name=kernel.name).get_kernel(kernel.name)
    except Exception as error:
        raise DeviceError(f"{kernel} cannot be loaded on {device}: {error}") from error


def launch(kernel: CudaKernel, device: str, stream: Stream, grid: Size, block: Size, arguments: Sequence[int]) -> None:
    """Queues a kernel on a stream; each argument is passed as 8 bytes: an address or a `long long`."""
    import cuda.core as core

    if 0 in grid:  # which the driver refuses, though there is nothing to do
        return
    code: Any = stream
    core.launch(code, core.LaunchConfig(grid=grid, block=block), loaded(kernel, device), *map(int, arguments))
