"""Operators on data of the host, computed at once; on a device elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeplug.batch import Batch, read_only
from pipeplug.errors import SpecError
from pipeplug.graph.placement import kind_of
from pipeplug.operator import Call
from pipeplug.runtime.column import Column, array_of, as_input, check_value
from pipeplug.runtime.context import BatchContext, SampleContext
from pipeplug.runtime.device_calls import run_on_device
from pipeplug.runtime.invoke import outputs_of, whole_constants
from pipeplug.runtime.prepared import (
    MemoryOf,
    Prepared,
    Random,
    batch_length,
    device_of_call,
    keywords_of,
    of_a_call,
    one,
    prepare,
)
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Tensor


def compute(call: Call, random: Random, state: Mapping[str, object], memory: MemoryOf) -> Any:
    """The outputs of a call on data."""
    operator, device = call.operator, device_of_call(call)
    inputs = [read_only(value if isinstance(value, (Tensor, Batch)) else _as_input(value)) for value in call.inputs]
    prepared = prepare(operator, inputs, kind_of(device))
    try:
        constants = {**prepared.constants, **state}
        if device == "cpu":
            results = _run(call, prepared, inputs, random, constants)
        else:
            with memory(device) as opened:
                results = run_on_device(call, prepared, inputs, random, constants, opened, device)
    except Exception as error:
        error.add_note(f"in {operator.title()}, called on {_described(inputs)}")
        raise
    names = prepared.node.output_names
    if names is None:
        return results[0]
    return dict(zip(names, results, strict=True)) if names else tuple(results)


def _run(
    call: Call, prepared: Prepared, inputs: Sequence[Any], random: Random, constants: Mapping[str, object]
) -> list[Any]:
    if elsewhere := [value.device for value in inputs if isinstance(value, (Tensor, Batch)) and value.device != "cpu"]:
        raise SpecError(f"an input is on {elsewhere[0]}: take input.to('cpu'), or call with device={elsewhere[0]!r}")
    length = batch_length(inputs)
    if length == 0:
        return [Column.unfilled(spec, 0, np.empty).batch((), np.empty) for spec in prepared.node.specs]
    keywords = keywords_of(call, prepared, inputs, random, length)
    if prepared.batched:
        return _run_batch(prepared, inputs, keywords, constants, length)
    if length is None:
        return _run_sample(prepared, inputs, {**constants, **{name: rows[0] for name, rows in keywords.items()}})
    return _run_samples(prepared, inputs, keywords, constants, length)


def _described(inputs: Sequence[Any]) -> str:
    return ", ".join(f"{value!r:.60}" + ("…" if len(repr(value)) > 60 else "") for value in inputs) or "nothing"


def _as_input(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return Tensor(value)
    array = np.asarray(value) if isinstance(value, (int, float)) else array_of(value)
    return value if array is None else Tensor(array)


def _run_sample(prepared: Prepared, inputs: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
    node = prepared.node
    result = prepared.function(*inputs, context=SampleContext("cpu", np.empty), **keywords)
    return [_checked(value, spec) for value, spec in zip(outputs_of(node, result), node.specs, strict=True)]


def _checked(value: Any, spec: TensorSpec) -> Any:
    """A result as a Tensor or an object; DeclarationError when it is not what `infer` says."""
    value = as_input(value, spec)
    check_value(spec, value)
    return value


def _run_samples(
    prepared: Prepared,
    inputs: Sequence[Batch],
    keywords: Mapping[str, Any],
    constants: Mapping[str, object],
    length: int,
) -> list[Any]:
    columns = [Column.unfilled(spec, length, np.empty) for spec in prepared.node.specs]
    for row in range(length):
        varying = {name: column[row] for name, column in keywords.items()}
        try:
            results = _run_sample(prepared, [batch[row] for batch in inputs], {**constants, **varying})
        except Exception as error:
            error.add_note(f"in row {row} of the batch")
            raise
        for column, value in zip(columns, results, strict=True):
            column.put(row, value)
    return [column.batch(range(length), np.empty) for column in columns]


def _run_batch(
    prepared: Prepared,
    inputs: Sequence[Any],
    keywords: Mapping[str, Any],
    constants: Mapping[str, object],
    length: int | None,
) -> list[Any]:
    node, rows = prepared.node, 1 if length is None else length
    batches = [one(value) if length is None else value for value in inputs]
    context = BatchContext("cpu", np.empty, of_a_call(rows), range(rows), 0)
    result = prepared.function(*batches, context=context, **whole_constants(constants, rows), **keywords)
    if context.failed:
        raise next(iter(context.failed.values()))
    gathered = [
        Column.filled(values, spec.layout, range(rows), rows).batch(range(rows), np.empty)
        for values, spec in zip(outputs_of(node, result), node.specs, strict=True)
    ]
    return [batch[0] for batch in gathered] if length is None else gathered
