"""How long a new process takes until there is something to use; modules are compiled and files cached."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter

from benchmarks.measure import OURS, Conditions, Measurement, Side, Turn

IMPORTS = {OURS: "import pipeplug", "dali": "import nvidia.dali", "torchvision": "import torchvision"}
FIRST_USES = {
    OURS: "from pipeplug import ops, pipeline; ops.read.files, ops.image.decode",
    "dali": "from nvidia.dali import fn, pipeline_def; fn.readers.file, fn.decoders.image",
    "torchvision": "from torch.utils.data import DataLoader; from torchvision.transforms import v2",
}
COMMAND = "import sys; from pipeplug.cli import main; sys.exit(main())"  # what the installed script does


def measurements(conditions: Conditions) -> Sequence[Measurement]:
    """The benchmark `startup`."""
    return [
        Measurement("startup.import", "s beyond numpy", "smaller", _sides(IMPORTS)),
        Measurement("startup.first_use", "s beyond numpy", "smaller", _sides(FIRST_USES)),
        Measurement("startup.ops", "s of `pipeplug ops -q`", "smaller", [Side(OURS, open_command)]),
    ]


def _sides(statements: dict[str, str]) -> list[Side]:
    return [Side(package, partial(open_import, statement)) for package, statement in statements.items()]


@contextmanager
def open_import(statement: str) -> Iterator[Turn]:
    """Seconds of a statement in a new interpreter that has imported numpy. Raises ImportError when it cannot run."""
    _import_seconds(statement)
    yield partial(_import_seconds, statement)


def _import_seconds(statement: str) -> float:
    program = f"import numpy, time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise ImportError(ran.stderr.strip().rpartition("\n")[2].removeprefix("ModuleNotFoundError: "))
    return float(ran.stdout.split()[-1])


@contextmanager
def open_command() -> Iterator[Turn]:
    """Seconds from the start of the command to its end."""
    yield _command_seconds


def _command_seconds() -> float:
    started = perf_counter()
    subprocess.run([sys.executable, "-c", COMMAND, "ops", "-q"], stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - started
