"""What the signatures of an operator's kernel methods say, and where its declaration and its calls are."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeplug.errors import DeclarationError

DEVICES = ("cpu", "cuda")
"""The kinds of device, and the names of the methods that serve them."""

STATE = "state"
"""The keyword by which a kernel receives what `open` gave."""

_PACKAGE = str(Path(__file__).parent / "_")[:-1]


@dataclass(frozen=True, slots=True)
class Kernel:
    """What the signature of a kernel method says.

    Attributes:
        device: `"cpu"` or `"cuda"`.
        batched: whether it takes whole batches; else one sample a call.
        inputs: names of the inputs; the last one takes any number when `variadic`.
        keywords: names of the arguments that vary by sample, and `"state"`.
    """

    device: str
    batched: bool
    inputs: tuple[str, ...]
    variadic: bool
    keywords: tuple[str, ...]


def read_kernels(cls: type) -> Mapping[str, Kernel]:
    """The kernels of an operator class by device.

    Raises DeclarationError, with the line, for a signature that cannot be called.
    """
    return {device: _read_kernel(cls, device) for device in DEVICES if hasattr(cls, device)}


def _read_kernel(cls: type, device: str) -> Kernel:
    signature = inspect.signature(getattr(cls, device))
    parameters = list(signature.parameters.values())[1:]
    for each in parameters:
        if each.annotation is each.empty:
            raise _error(cls, device, f"parameter {each.name} of {cls.__name__}.{device} has no annotation")
        if each.kind is each.VAR_KEYWORD:
            raise _error(cls, device, f"{cls.__name__}.{device} takes **{each.name}; name each keyword that it takes")
    if "context" not in signature.parameters:
        raise _error(cls, device, f"{cls.__name__}.{device} needs a parameter `context`")
    keywords = tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.name != "context")
    places = [each for each in parameters if each.kind is not each.KEYWORD_ONLY and each.name != "context"]
    words = " ".join(str(kind) for kind in [*(each.annotation for each in places), signature.return_annotation])
    variadic = any(each.kind is each.VAR_POSITIONAL for each in places)
    return Kernel(device, bool(re.search(r"\bBatch\b", words)), tuple(each.name for each in places), variadic, keywords)


def check_keywords(cls: type, kernel: Kernel, per_sample: frozenset[str]) -> None:
    """Raises DeclarationError unless a kernel takes the arguments that vary by sample and the state."""
    name, given = f"{cls.__name__}.{kernel.device}", set(per_sample)
    if hasattr(cls, "open"):
        given.add(STATE)
    if missing := sorted(given - set(kernel.keywords)):
        origin = "`open` gives it" if missing[0] == STATE else "it is a PerSample field"
        raise _error(cls, kernel.device, f"{name} needs a keyword-only parameter `{missing[0]}`: {origin}")
    if STATE in kernel.keywords and STATE not in given:
        raise _error(cls, kernel.device, f"{name} takes `{STATE}`, which a method `open(self)` would give")


def check_is_given(cls: type, kernel: Kernel, per_sample: frozenset[str]) -> None:
    """Raises DeclarationError when a kernel takes an argument that a call of its operator cannot give."""
    given = {*per_sample, STATE}
    if not hasattr(cls, "draw") and (unknown := [each for each in kernel.keywords if each not in given]):
        name = f"{cls.__name__}.{kernel.device}"
        raise _error(
            cls, kernel.device, f"{name} takes `{unknown[0]}`, which is no PerSample field, and there is no `draw`"
        )


def _error(cls: type, method: str, message: str) -> DeclarationError:
    return DeclarationError(f"{declaration_place(cls, method)}: {message}")


def user_location() -> str:
    """`file:line` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def declaration_place(cls: type, method: str | None = None) -> str:
    """`file:line` of a class, or of one of its methods."""
    thing = getattr(cls, method) if method else cls
    try:
        return f"{inspect.getsourcefile(thing)}:{inspect.getsourcelines(thing)[1]}"
    except (OSError, TypeError):
        return cls.__module__
