"""Operators described for people to read."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, dataclass
from typing import Any

from pipeplug.arguments import type_name
from pipeplug.operator import Operator, field_types, fields_of, per_sample_fields
from pipeplug.signature import declaration_place


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of an operator, for people to read."""

    name: str
    type: str
    default: str | None
    required: bool
    per_sample: bool


@dataclass(frozen=True, slots=True)
class Description:
    """An operator, for people to read."""

    summary: str
    doc: str
    signature: str
    arguments: tuple[Argument, ...]
    inputs: tuple[str, ...]
    outputs: str
    devices: tuple[str, ...]
    source: str


def describe(cls: type[Operator]) -> Description:
    """What the declaration of an operator says."""
    doc = inspect.cleandoc(cls.__doc__ or "")
    arguments = tuple(_describe_field(cls, item) for item in fields_of(cls))
    kernel = next(iter(cls.kernels.values()), None)
    inputs = kernel.inputs if kernel else ()
    if kernel and kernel.variadic:
        inputs = (*inputs[:-1], f"*{inputs[-1]}")
    parameters = [*inputs, *(["*"] if arguments and not (kernel and kernel.variadic) else [])]
    parameters += [f"{each.name}: {each.type}" + (f" = {each.default}" if each.default else "") for each in arguments]
    return Description(
        summary=doc.partition("\n")[0],
        doc=doc,
        signature=f"({', '.join(parameters)})",
        arguments=arguments,
        inputs=inputs,
        outputs=_outputs(cls),
        devices=tuple(cls.kernels) or ("cpu",),
        source=declaration_place(cls),
    )


def _outputs(cls: type[Operator]) -> str:
    declared: Any = cls
    annotation = inspect.signature(declared.infer).return_annotation if hasattr(cls, "infer") else ""
    if annotation is inspect.Signature.empty:
        return ""
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _describe_field(cls: type[Operator], item: Field[Any]) -> Argument:
    required = item.default is MISSING and item.default_factory is MISSING
    value = item.default_factory() if item.default_factory is not MISSING else item.default
    default = None if required else repr(value)
    name = item.name
    return Argument(name, type_name(field_types(cls)[name]), default, required, name in per_sample_fields(cls))
