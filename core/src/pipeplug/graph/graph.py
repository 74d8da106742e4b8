"""The operator graph: a frozen value that tracing makes, plugins rewrite, and planning reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from pipeplug.errors import GraphError
from pipeplug.operator import Operator
from pipeplug.spec import TensorSpec


class Ref(NamedTuple):
    """An output of a node: an edge of the graph."""

    node: str
    output: int = 0

    def __str__(self) -> str:
        return self.node if self.output == 0 else f"{self.node}[{self.output}]"


@dataclass(frozen=True, slots=True)
class Node:
    """One operator in the graph.

    Attributes:
        name: unique in the graph; what random numbers and error messages go by.
        operator: the declaration with its arguments.
        operator_name: the registered name, or that of the class.
        inputs: where the positional inputs come from.
        arguments: where the keyword arguments that vary by sample come from.
        specs: the specs of the outputs.
        output_names: names of the outputs; empty when they form a tuple, None when there is one and it stands alone.
        device: where it was asked to run while tracing, where it runs once placed.
        location: `file:line` of the call.
        reason: why a rewrite made this node, for `pipeplug plan`.
    """

    name: str
    operator: Operator
    operator_name: str
    inputs: tuple[Ref, ...] = ()
    arguments: tuple[tuple[str, Ref], ...] = ()
    specs: tuple[TensorSpec, ...] = ()
    output_names: tuple[str, ...] | None = None
    device: str | None = None
    location: str = ""
    reason: str = ""

    @property
    def sources(self) -> tuple[Ref, ...]:
        """All values that the node uses."""
        return (*self.inputs, *(ref for _, ref in self.arguments))

    @property
    def refs(self) -> tuple[Ref, ...]:
        """All values that the node makes."""
        return tuple(Ref(self.name, output) for output in range(len(self.specs)))

    def renamed(self, substitutes: Mapping[Ref, Ref]) -> Node:
        """The node with values taken from elsewhere."""
        return replace(
            self,
            inputs=tuple(substitutes.get(ref, ref) for ref in self.inputs),
            arguments=tuple((name, substitutes.get(ref, ref)) for name, ref in self.arguments),
        )


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order, and the values that leave.

    Attributes:
        nodes: every node after those that it uses.
        outputs: names of what is delivered, and where it comes from.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[tuple[str, Ref], ...]
    _by_name: Mapping[str, Node] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {node.name: node for node in self.nodes})

    def __getitem__(self, name: str) -> Node:
        return self._by_name[name]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def spec(self, ref: Ref) -> TensorSpec:
        return self[ref.node].specs[ref.output]

    def producer(self, ref: Ref) -> Node:
        return self[ref.node]

    def consumers(self, node: Node) -> tuple[Node, ...]:
        """The nodes that use an output of `node`."""
        return tuple(each for each in self.nodes if any(ref.node == node.name for ref in each.sources))

    def only_consumer(self, ref: Ref) -> Node | None:
        """The node that alone uses the value, which nobody else does and which is not delivered; else None."""
        users = [node for node in self.nodes if ref in node.sources]
        delivered = any(ref == output for _, output in self.outputs)
        return users[0] if len(users) == 1 and not delivered else None

    def with_node(self, node: Node, substitutes: Mapping[Ref, Ref]) -> Graph:
        """The graph with a node more, and values of other nodes taken from it; what nobody uses then is left out."""
        if node.name in self._by_name:
            raise GraphError(f"the graph has a node {node.name} already; give the new one another name")
        nodes = [node, *(each.renamed(substitutes) for each in self.nodes)]
        outputs = tuple((name, substitutes.get(ref, ref)) for name, ref in self.outputs)
        return Graph(_in_order(nodes), outputs).pruned()

    def pruned(self) -> Graph:
        """The graph without nodes that contribute to no output."""
        needed = {ref.node for _, ref in self.outputs}
        for node in reversed(self.nodes):
            if node.name in needed:
                needed.update(ref.node for ref in node.sources)
        return Graph(tuple(node for node in self.nodes if node.name in needed), self.outputs)


def _in_order(nodes: Iterable[Node]) -> tuple[Node, ...]:
    by_name = {node.name: node for node in nodes}
    sorter = TopologicalSorter({name: [ref.node for ref in node.sources] for name, node in by_name.items()})
    try:
        return tuple(by_name[name] for name in sorter.static_order())
    except CycleError as error:
        raise GraphError(f"these nodes wait for one another: {', '.join(error.args[1])}") from error
    except KeyError as error:
        raise GraphError(f"a node uses {error}, which the graph does not have") from error
