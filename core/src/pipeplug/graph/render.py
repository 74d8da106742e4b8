"""A plan for people to read: as text, and as a Mermaid flowchart."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

from pipeplug.graph.derived import Draw, InferShape, Peek, ShapeOf
from pipeplug.graph.graph import Graph, Node, Ref
from pipeplug.graph.plan import Plan, Stage
from pipeplug.graph.transfer import Copy
from pipeplug.operator import PER_SAMPLE, Operator, drawn_arguments, fields_of
from pipeplug.spec import TensorSpec

DERIVED = (Draw, Peek, InferShape, ShapeOf)
"""Operators that tracing adds by itself."""

LONGEST = 48
"""Letters of one argument; what is longer is cut."""

WIDEST = 88
"""Letters of a cell beside which others are aligned; what follows a longer one stands out of line."""


def as_text(plan: Plan) -> str:
    """What the function says, what runs, and what became of the one in the other, for a terminal."""
    count = len(plan.stages)
    parts = ["What the function says", *_function(plan.traced), ""]
    parts.append(
        f"What runs, in {count} {'stage' if count == 1 else 'stages'} (-> a value that leaves one, as a batch)"
    )
    for number, stage in enumerate(plan.stages, 1):
        parts += _stage(plan.graph, stage, number)
    parts += ["", *_copies(plan.graph), *_rewrites(plan)]
    return "\n".join(parts) + "\n"


# What the function says.


def _function(graph: Graph) -> Iterator[str]:
    nodes = [node for node in graph if not isinstance(node.operator, DERIVED)]
    calls = [_call(node) for node in nodes]
    yield from _columns((call, _short_location(node.location)) for call, node in zip(calls, nodes, strict=True))
    yield f"  returns {', '.join(f'{name}: {ref}' for name, ref in graph.outputs)}"


def _call(node: Node) -> str:
    inputs = [str(ref) for ref in node.inputs]
    if isinstance(node.operator, Copy):
        return f"{node.name} = {inputs[0]}.to({node.device!r})"
    drawn = drawn_arguments(type(node.operator))
    varying = [f"{name}={ref}" for name, ref in node.arguments if name not in drawn]
    asked = [f"device={node.device!r}"] if node.device not in (None, "cpu") else []
    call = f"{node.operator_name}({', '.join([*inputs, *changed_arguments(node.operator), *varying, *asked])})"
    return call if node.name == node.operator_name else f"{node.name} = {call}"


def changed_arguments(operator: Operator) -> list[str]:
    """The arguments of an operator that are not their defaults, as they would be written, cut where they are long."""
    own = inspect.get_annotations(type(operator))
    return [
        f"{item.name}={_shorten(getattr(operator, item.name))}"
        for item in sorted(fields_of(type(operator)), key=lambda item: item.name not in own)
        if item.repr and _is_changed(item, getattr(operator, item.name))
    ]


def _is_changed(item: Field[Any], value: object) -> bool:
    if value is PER_SAMPLE:
        return False
    default = item.default if item.default_factory is MISSING else item.default_factory()
    return default is MISSING or hasattr(value, "shape") or value != default


def _shorten(value: object) -> str:
    if isinstance(value, TensorSpec):
        return f"<{value}>"
    if isinstance(value, (str, Path)):
        text = str(value)
        return repr(text if len(text) <= LONGEST else f"…{text[1 - LONGEST :]}")
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"<{value.dtype} array {tuple(value.shape)}>"
    if isinstance(value, (tuple, list)) and len(value) <= 4:
        items = ", ".join(_shorten(item) for item in value)
        return f"({items}{',' * (len(value) == 1)})" if isinstance(value, tuple) else f"[{items}]"
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        return f"<{type(value).__name__} of {len(value)}>"
    return _shorten_other(value)


def _shorten_other(value: object) -> str:
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    text = repr(value)
    if "\n" in text or " at 0x" in text:
        return f"<{type(value).__name__}>"
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _short_location(location: str) -> str:
    file, _, line = location.rpartition(":")
    return f"{Path(file).name}:{line}" if file else location


# What runs.


def _stage(graph: Graph, stage: Stage, number: int) -> Iterator[str]:
    yield f"  {number}. {stage_manner(stage)}, on {stage.device}"
    yield from _columns(((node.name, _node_note(graph, node)) for node in stage.nodes), indent=5)
    yield from _columns((_value(graph, stage, ref) for ref in stage.outputs), indent=5)


def stage_manner(stage: Stage) -> str:
    """How a stage takes its samples."""
    if stage.whole:
        return "the whole batch in one call" + (", batch after batch" if stage.serial else "")
    if stage.batched:
        return "parts of the batch" + (", one at a time and in order" if stage.serial else ", in parallel")
    count = len(stage.nodes)
    how = "sample by sample" if count == 1 else f"each sample through {count} operators in one pass"
    return how + (", one at a time and in order" if stage.serial else ", samples in parallel")


def _node_note(graph: Graph, node: Node) -> str:
    operator = node.operator
    if isinstance(operator, Copy):
        return f"copy of {node.inputs[0]} from {graph.producer(node.inputs[0]).device} to {node.device}"
    if isinstance(operator, Draw):
        return f"random numbers: {', '.join(node.output_names or ())}; {_needs(graph, node, operator)}"
    if isinstance(operator, DERIVED):
        return shape_origin(node)
    return "made by a rewrite, see below" if node.reason else ""


def _needs(graph: Graph, node: Node, draw: Draw) -> str:
    measured = iter(node.inputs)
    shapes = [
        shape_origin(graph.producer(next(measured))) if each is None else f"the constant shape {each}"
        for each in draw.shapes
    ]
    needs = f"for {' and '.join(shapes)}" if shapes else "no shapes needed"
    is_shared = node.name != f"{draw.key}.draw"
    return f"{needs}; shared by key {draw.key!r}" if is_shared else needs


def shape_origin(node: Node) -> str:
    """Where a node that tells the shape of a value has it from."""
    operator = node.operator
    if isinstance(operator, Peek):
        return f"the shape of {operator.of.title()}, from the header of its input"
    if isinstance(operator, InferShape):
        return f"the shape of {operator.of.title()}, by inference from {', '.join(map(str, node.inputs))}"
    return f"the shape of {', '.join(map(str, node.inputs))}, from the data once all of it is there"


def _value(graph: Graph, stage: Stage, ref: Ref) -> tuple[str, ...]:
    spec = graph.spec(ref)
    if isinstance(graph.producer(ref).operator, Draw):
        return f"-> {ref}", "numbers", "a row a sample", _uses(graph, ref)
    return f"-> {ref}", str(spec), _building(stage, spec), _uses(graph, ref)


def _uses(graph: Graph, ref: Ref) -> str:
    uses = [node.name for node in graph if ref in node.sources]
    uses += [f"output {name!r}" for name, output in graph.outputs if output == ref]
    shown = uses if len(uses) <= 3 else [*uses[:2], "…"]
    return f"{len(uses)} {'use' if len(uses) == 1 else 'uses'}: {', '.join(shown)}"


def _building(stage: Stage, spec: TensorSpec) -> str:
    if spec.is_object:
        return "a list of Python objects"
    if stage.whole:
        return "batch as the kernel gives it"
    if spec.is_static:
        return "batch built in place"
    return f"not built in place: {_unknown(spec)} unknown before it runs"


def _unknown(spec: TensorSpec) -> str:
    if spec.shape is None:
        return "shape and dtype" if spec.dtype is None else "shape"
    names = spec.layout or "?" * len(spec.shape)
    sizes = [name for name, size in zip(names, spec.shape, strict=True) if size is None]
    if not sizes:
        return "dtype"
    what = "some sizes" if "?" in sizes else f"{', '.join(sizes)}"
    return what if spec.dtype else f"{what} and dtype"


def _copies(graph: Graph) -> Iterator[str]:
    copies = [node for node in graph if isinstance(node.operator, Copy)]
    if not copies:
        yield "No value is copied between devices."
        return
    yield "Copies between devices"
    yield from _columns((node.name, _node_note(graph, node)) for node in copies)


def _rewrites(plan: Plan) -> Iterator[str]:
    made = [node for node in plan.graph if node.reason]
    if not made:
        yield "No plugin rewrote anything: the operators run as the function says."
        return
    yield "What plugins rewrote"
    yield from _columns((node.name, node.reason) for node in made)
    if gone := _replaced_nodes(plan):
        yield f"  in the place of {', '.join(gone)}"


def _replaced_nodes(plan: Plan) -> list[str]:
    kept = {node.name: node for node in plan.graph if not node.reason}
    return [
        node.name for node in plan.traced if node.name not in kept and not isinstance(node.operator, (Copy, *DERIVED))
    ]


def _columns(rows: Iterable[Sequence[str]], indent: int = 2) -> Iterator[str]:
    table = [tuple(row) for row in rows]
    lengths = (map(len, column) for column in zip(*table, strict=True))
    widths = [max((each for each in column if each <= WIDEST), default=0) for column in lengths]
    for row in table:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        yield f"{' ' * indent}{'  '.join(cells)}".rstrip()


# As a flowchart.


def as_mermaid(plan: Plan) -> str:
    """What runs as a Mermaid flowchart, a subgraph a stage: random numbers are hexagons with dotted edges."""
    names = {node.name: f"n{number}" for number, node in enumerate(plan.graph)}
    lines = ["flowchart TD"]
    for number, stage in enumerate(plan.stages, 1):
        lines.append(
            f'  subgraph stage{number}["{_escape(f"stage {number}: {stage_manner(stage)}, on {stage.device}")}"]'
        )
        lines += [f"    {names[node.name]}{_shape(node)}" for node in stage.nodes]
        lines.append("  end")
    lines += (f"  {_edge(plan.graph, ref, names, names[node.name])}" for node in plan.graph for ref in node.sources)
    for number, (name, ref) in enumerate(plan.graph.outputs):
        lines.append(f'  {_edge(plan.graph, ref, names, f"output{number}")}(["{_escape(name)}"])')
    return "\n".join(lines) + "\n"


def _shape(node: Node) -> str:
    label = _escape(node.name)
    if isinstance(node.operator, Draw):
        return f'{{{{"{label}"}}}}'
    return f'[/"{label}"/]' if isinstance(node.operator, Copy) else f'["{label}"]'


def _edge(graph: Graph, ref: Ref, names: dict[str, str], target: str) -> str:
    node = graph.producer(ref)
    if isinstance(node.operator, Draw):
        label = (node.output_names or ())[ref.output]
        return f'{names[ref.node]} -. "{_escape(label)}" .-> {target}'
    return f'{names[ref.node]} -- "{_escape(str(graph.spec(ref)))}" --> {target}'


def _escape(text: str) -> str:
    for letter, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(letter, code)
    return text
