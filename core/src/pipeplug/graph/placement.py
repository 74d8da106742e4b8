"""Where every node runs, decided from what was asked and from what kernels there are; and the copies between."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from pipeplug.errors import GraphError
from pipeplug.graph.derived import ShapeOf
from pipeplug.graph.graph import Graph, Node, Ref
from pipeplug.graph.transfer import Copy
from pipeplug.source import Source


def place(graph: Graph, device: str) -> Graph:
    """The graph with a device for every node, and with copies between devices, each visible as a node.

    A call runs on the device that it asks for; else where `.to()` put its first input; else on the pipeline's device
    if it has a kernel there; else on the CPU. What a call on a GPU takes from the host is copied to it, arguments that
    vary by sample excepted, which it takes from there. Numbers that leave are copied to the pipeline's device, unless
    `.to()` put them elsewhere. Raises GraphError where that cannot be: the CPU takes from a GPU by `.to()` alone.
    """
    placer = _Placer(graph, device_named(device, "the pipeline"))
    for node in graph.nodes:
        placer.add(node)
    outputs = tuple((name, placer.delivered(ref)) for name, ref in graph.outputs)
    return Graph(tuple(placer.placed.values()), outputs)


@dataclass
class _Placer:
    """The graph as far as it is placed.

    Attributes:
        placed: the nodes by name.
        moved: what stands for a value of the graph as it was.
        copies: the copy of a value on a device.
    """

    graph: Graph
    device: str
    placed: dict[str, Node] = field(default_factory=dict)
    moved: dict[Ref, Ref] = field(default_factory=dict)
    copies: dict[tuple[Ref, str], Ref] = field(default_factory=dict)

    def add(self, original: Node) -> None:
        node = original.renamed(self.moved)
        where = self._device(node)
        if isinstance(node.operator, Copy):
            source = node.inputs[0]
            if self._place_of(source) == where:
                self.moved[Ref(node.name)] = source
                return
            self.copies.setdefault((source, where), Ref(node.name))
        elif not isinstance(node.operator, Source):
            node = self._with_copies(node, where)
        self.placed[node.name] = replace(node, device=where)

    def delivered(self, original: Ref) -> Ref:
        """What is delivered as an output: numbers on the pipeline's device."""
        ref = self.moved.get(original, original)
        asked_for = isinstance(self.graph[original.node].operator, Copy)
        return ref if asked_for else self._on(ref, self.device, self.placed[ref.node].location)

    def _with_copies(self, node: Node, where: str) -> Node:
        if isinstance(node.operator, ShapeOf):  # which does not look at the data
            return node
        for ref in node.inputs:
            if where == "cpu" and self._place_of(ref) != "cpu":
                raise GraphError(
                    f"{node.name} at {node.location} runs on the CPU, but {ref} is on {self._place_of(ref)}: "
                    f"write .to('cpu') behind it, or give {node.name} a kernel for GPUs"
                )
        inputs = tuple(self._on(ref, where, node.location) for ref in node.inputs)
        arguments = tuple((name, self._on(ref, "cpu", node.location)) for name, ref in node.arguments)
        return replace(node, inputs=inputs, arguments=arguments)

    def _on(self, ref: Ref, where: str, location: str) -> Ref:
        """The value on a device; objects stay where they are."""
        producer = self.placed[ref.node]
        spec = producer.specs[ref.output]
        if producer.device == where or spec.is_object:
            return ref
        if (ref, where) not in self.copies:
            name = self._free_name(f"{ref}.to")
            self.placed[name] = Node(name, Copy(), "to", (ref,), (), (spec,), None, where, location)
            self.copies[ref, where] = Ref(name)
        return self.copies[ref, where]

    def _free_name(self, wanted: str) -> str:
        taken = {node.name for node in self.graph.nodes} | self.placed.keys()
        names = (wanted if ordinal == 1 else f"{wanted}_{ordinal}" for ordinal in range(1, len(taken) + 2))
        return next(name for name in names if name not in taken)

    def _place_of(self, ref: Ref) -> str:
        return self.placed[ref.node].device or "cpu"

    def _device(self, node: Node) -> str:
        if isinstance(node.operator, Source):
            return "cpu"
        if node.device is not None:
            return _with_kernel(node, device_named(node.device, f"{node.name} at {node.location}"))
        if node.inputs and isinstance(self.placed[node.inputs[0].node].operator, Copy):
            return _with_kernel(node, self._place_of(node.inputs[0]))
        return self.device if kind_of(self.device) in node.operator.devices() else _with_kernel(node, "cpu")


def _with_kernel(node: Node, device: str) -> str:
    if kind_of(device) in node.operator.devices():
        return device
    devices = ", ".join(node.operator.devices()) or "nothing"
    raise GraphError(f"{node.name} at {node.location} has no kernel for {device}, only for: {devices}")


def kind_of(device: str) -> str:
    """`"cpu"` or `"cuda"`."""
    return device.partition(":")[0]


def device_named(device: str, who: str) -> str:
    """The full name of a device: `"cuda"` is `"cuda:0"`. Raises GraphError unless it is one."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise GraphError(f"{who} asks for device {device!r}; there are 'cpu' and 'cuda:0', 'cuda:1', …")
    return "cuda:0" if device == "cuda" else device
