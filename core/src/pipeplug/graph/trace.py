"""Tracing: a pipeline function runs once, and every operator call leaves a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pipeplug.errors import GraphError
from pipeplug.graph.derived import Draw, InferShape, Peek, ShapeOf
from pipeplug.graph.graph import Graph, Node, Ref
from pipeplug.graph.inference import infer_call, infers_shape
from pipeplug.graph.transfer import Copy
from pipeplug.operator import Call, Operator, Value, calling, drawn_arguments, shapes_drawn_from
from pipeplug.signature import user_location
from pipeplug.source import Source
from pipeplug.spec import TensorSpec


def trace(function: Callable[[], object]) -> Graph:
    """The graph of the calls that `function` makes; what it returns, by name, in order or alone, are the outputs.

    Raises GraphError, with the line, for what cannot become a graph.
    """
    tracer = Tracer()
    with calling(tracer):
        result = function()
    return tracer.graph(result)


class Tracer:
    """Records operator calls as nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._shapes: dict[Ref, Ref] = {}

    def call(self, call: Call) -> Any:
        operator, location = call.operator, user_location()
        operator_name = operator.title()
        inputs = tuple(self._ref(value, operator_name, location) for value in call.inputs)
        arguments = {each: self._ref(value, operator_name, location) for each, value in call.per_sample.items()}
        specs, names = infer_call(operator, operator_name, location, [self._spec(ref) for ref in inputs])
        name = self._free_name(call.name or operator_name, pinned=call.name is not None, location=location)
        if hasattr(operator, "draw"):
            arguments |= self._draw(operator, operator_name, name, call.key or name, inputs, location)
        node = Node(
            name, operator, operator_name, inputs, tuple(arguments.items()), specs, names, call.device, location
        )
        return self._values(self._add(node), names)

    def transfer(self, value: Value, device: str) -> Value:
        name = self._free_name(f"{value.node}.to", pinned=False, location="")
        ref = Ref(value.node, value.output)
        copy = Node(name, Copy(), "to", (ref,), (), (value.spec,), None, device, user_location())
        return Value(self, self._add(copy).name, 0, value.spec)

    def graph(self, result: object) -> Graph:
        """The graph whose outputs are what the pipeline function returned."""
        outputs = tuple((name, self._output(value, name)) for name, value in _named(result).items())
        if not outputs:
            raise GraphError('the pipeline function returns nothing; return values by name: {"image": image}')
        return Graph(tuple(self._nodes.values()), outputs).pruned()

    def _output(self, value: object, name: str) -> Ref:
        if not isinstance(value, Value) or value._caller is not self:
            raise GraphError(f"output {name!r} is not a value of this pipeline: {value!r}")
        return Ref(value.node, value.output)

    def _add(self, node: Node) -> Node:
        if isinstance(node.operator, Source):
            for other in self._nodes.values():
                if isinstance(other.operator, Source):
                    raise GraphError(
                        f"{node.location}: {node.name} is a second source beside {other.name} ({other.location}); "
                        "a pipeline reads from one"
                    )
        self._nodes[node.name] = node
        return node

    def _values(self, node: Node, names: tuple[str, ...] | None) -> Any:
        values = [Value(self, node.name, output, spec) for output, spec in enumerate(node.specs)]
        if names is None:
            return values[0]
        return dict(zip(names, values, strict=True)) if names else tuple(values)

    def _ref(self, value: object, operator_name: str, location: str) -> Ref:
        if isinstance(value, Value) and value._caller is self:
            return Ref(value.node, value.output)
        raise GraphError(f"{location}: {operator_name} got {_not_of_the_graph(value)}")

    def _spec(self, ref: Ref) -> TensorSpec:
        return self._nodes[ref.node].specs[ref.output]

    def _free_name(self, wanted: str, *, pinned: bool, location: str) -> str:
        if wanted not in self._nodes:
            return wanted
        if pinned:
            raise GraphError(f"{location}: name={wanted!r} is taken by the node at {self._nodes[wanted].location}")
        ordinal = 2
        while f"{wanted}_{ordinal}" in self._nodes:
            ordinal += 1
        return f"{wanted}_{ordinal}"

    def _draw(
        self, operator: Operator, operator_name: str, name: str, key: str, inputs: tuple[Ref, ...], location: str
    ) -> dict[str, Ref]:
        drawn_from = [inputs[place] for place in shapes_drawn_from(type(operator))]
        static = [_static_shape(self._spec(ref)) for ref in drawn_from]
        measured = [self._shape(ref, location) for ref, known in zip(drawn_from, static, strict=True) if known is None]
        draw = Draw(of=operator, key=key, shapes=tuple(static))
        names = drawn_arguments(type(operator))
        specs = tuple(TensorSpec() for _ in names)
        own = self._free_name(f"{name}.draw", pinned=False, location=location)
        node = self._add(Node(own, draw, operator_name, tuple(measured), (), specs, names, "cpu", location))
        return {argument: Ref(node.name, output) for output, argument in enumerate(names)}

    def _shape(self, ref: Ref, location: str) -> Ref:
        """The node that tells the shape of a value, found or made."""
        if ref not in self._shapes:
            operator, inputs = self._shape_operator(ref, location)
            name = self._free_name(f"{ref}.shape", pinned=False, location=location)
            specs = (TensorSpec((_rank(self._spec(ref)),), "int64"),)
            producer = self._nodes[ref.node]
            node = Node(name, operator, producer.operator_name, inputs, (), specs, None, "cpu", producer.location)
            self._shapes[ref] = Ref(self._add(node).name)
        return self._shapes[ref]

    def _shape_operator(self, ref: Ref, location: str) -> tuple[Operator, tuple[Ref, ...]]:
        producer, rank = self._nodes[ref.node], _rank(self._spec(ref))
        if hasattr(producer.operator, "peek") and ref.output == 0:
            return Peek(of=producer.operator, rank=rank), producer.inputs
        specs = tuple(self._spec(each) for each in producer.inputs)
        if producer.inputs and infers_shape(producer.operator, specs, ref.output) and ref.output == 0:
            shapes = tuple(self._shape(each, location) for each in producer.inputs)
            return InferShape(of=producer.operator, specs=specs, rank=rank), shapes
        return ShapeOf(rank=rank), (ref,)


def _named(result: object) -> dict[str, object]:
    if isinstance(result, Mapping):
        return {str(name): value for name, value in result.items()}
    if result is None:
        return {}
    if isinstance(result, (tuple, list)):
        return {str(place): value for place, value in enumerate(result)}
    return {"0": result}


def _static_shape(spec: TensorSpec) -> tuple[int, ...] | None:
    sizes = tuple(size for size in spec.shape or () if size is not None)
    return sizes if spec.shape is not None and len(sizes) == len(spec.shape) else None


def _rank(spec: TensorSpec) -> int | None:
    return None if spec.shape is None else len(spec.shape)


def _not_of_the_graph(value: object) -> str:
    """What somebody took for a value of the graph, and what to write instead."""
    if isinstance(value, (tuple, dict)) and value and all(isinstance(each, Value) for each in _entries(value)):
        how = f"by name: value[{next(iter(value))!r}]" if isinstance(value, dict) else "apart: first, second = …"
        return f"{len(value)} values at once; take them {how}"
    if isinstance(value, (int, float)):
        return f"the number {value!r}; inputs are values of the graph, arguments go by name"
    what = "a value of another pipeline" if isinstance(value, Value) else f"{type(value).__name__} data"
    return f"{what}; inside a pipeline operators take values of its graph"


def _entries(values: tuple[object, ...] | dict[object, object]) -> Iterable[object]:
    return values.values() if isinstance(values, dict) else values
