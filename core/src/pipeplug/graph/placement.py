"""Where every node runs, decided from what was asked and from what kernels there are."""

from __future__ import annotations

from dataclasses import replace

from pipeplug.errors import GraphError
from pipeplug.graph.graph import Graph, Node, Ref
from pipeplug.graph.transfer import Copy
from pipeplug.source import Source


def place(graph: Graph, device: str) -> Graph:
    """The graph with a device for every node; copies to where a value already is are left out.

    A call runs on the device that it asks for; else where `.to()` put its first input; else on the pipeline's device
    if it has a kernel there; else on the CPU. Raises GraphError where that cannot be.
    """
    check_device(device, "the pipeline")
    moved: dict[Ref, Ref] = {}
    placed: dict[str, Node] = {}
    for original in graph.nodes:
        node = original.renamed(moved)
        where = _device(node, placed, device)
        if isinstance(node.operator, Copy) and placed[node.inputs[0].node].device == where:
            moved[Ref(node.name)] = node.inputs[0]
            continue
        placed[node.name] = replace(node, device=where)
    outputs = tuple((name, moved.get(ref, ref)) for name, ref in graph.outputs)
    return Graph(tuple(placed.values()), outputs)


def _device(node: Node, placed: dict[str, Node], device: str) -> str:
    if isinstance(node.operator, Source):
        return "cpu"
    if node.device is not None:
        check_device(node.device, f"{node.name} at {node.location}")
        return _with_kernel(node, node.device)
    if node.inputs and isinstance(placed[node.inputs[0].node].operator, Copy):
        return _with_kernel(node, placed[node.inputs[0].node].device or device)
    return device if kind_of(device) in node.operator.kernels else _with_kernel(node, "cpu")


def _with_kernel(node: Node, device: str) -> str:
    if kind_of(device) in node.operator.kernels:
        return device
    devices = ", ".join(node.operator.kernels) or "nothing"
    raise GraphError(f"{node.name} at {node.location} has no kernel for {device}, only for: {devices}")


def kind_of(device: str) -> str:
    return device.partition(":")[0]


def check_device(device: str, who: str) -> None:
    """Raises GraphError unless `device` is one that this version runs on."""
    if device != "cpu":
        raise GraphError(f"{who} asks for device {device!r}; this version of pipeplug runs on 'cpu' only")
