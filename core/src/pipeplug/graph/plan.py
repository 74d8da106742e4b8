"""The plan of a graph: which nodes run together as a stage, and how often each value is used.

Neighbouring per-sample nodes of one device form a stage, which takes each sample through all of them while it is warm
in the cache. A stage is connected, and no path leaves it and returns: the graph of stages has no cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pipeplug.graph.graph import Graph, Node, Ref
from pipeplug.graph.placement import kind_of, place
from pipeplug.source import Source


@dataclass(frozen=True)
class Stage:
    """Nodes that run together.

    Attributes:
        nodes: in the order in which they run.
        inputs: values that come from other stages.
        outputs: values that others use, or that are delivered.
        batched: whether its kernel takes a batch in one call; else it takes samples.
        whole: whether that is the whole batch; else the batch is cut into chunks.
        serial: whether its calls come one after the other, in order.
        device: where it runs.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Ref, ...]
    outputs: tuple[Ref, ...]
    batched: bool
    whole: bool
    serial: bool
    device: str


@dataclass(frozen=True)
class Plan:
    """What will run.

    Attributes:
        traced: the graph as the function describes it.
        graph: the graph after rewriting and placement.
        stages: in topological order.
    """

    traced: Graph
    graph: Graph
    stages: tuple[Stage, ...]

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that anything runs on, each once."""
        return tuple(dict.fromkeys(stage.device for stage in self.stages))


def make_plan(traced: Graph, device: str, rewrite: Callable[[Graph], Graph] | None) -> Plan:
    """Places the graph, lets plugins rewrite it, and forms stages."""
    graph = place(traced, device)
    if rewrite is not None:
        graph = place(rewrite(graph), device)
    return Plan(traced, graph, form_stages(graph))


def form_stages(graph: Graph) -> tuple[Stage, ...]:
    """The nodes of a graph grouped into stages, every stage after those that it waits for."""
    groups = _Groups(graph)
    for node in graph.nodes:
        groups.add(node)
    return tuple(_stage(graph, nodes) for nodes in groups.in_order())


def is_per_sample(node: Node) -> bool:
    if isinstance(node.operator, Source):
        return True
    return not node.operator.kernels[kind_of(node.device or "cpu")].batched


class _Groups:
    """Stages while they form: a node joins the latest stage of its producers that stays free of cycles with it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._members: list[list[Node]] = []
        self._of: dict[str, int] = {}
        self._after: list[set[int]] = []

    def add(self, node: Node) -> None:
        producers = sorted({self._of[ref.node] for ref in node.sources})
        group = next((each for each in reversed(producers) if self._admits(each, node, producers)), None)
        if group is None:
            group = len(self._members)
            self._members.append([])
            self._after.append(set())
        self._members[group].append(node)
        self._of[node.name] = group
        self._after[group].update(each for each in producers if each != group)

    def _admits(self, group: int, node: Node, producers: list[int]) -> bool:
        first = self._members[group][0]
        alike = is_per_sample(node) and is_per_sample(first) and node.device == first.device
        parallel = node.operator.is_parallel() and first.operator.is_parallel()
        return alike and parallel and group not in self._awaited(each for each in producers if each != group)

    def _awaited(self, groups: Iterable[int]) -> set[int]:
        """The groups that these wait for, directly or not."""
        found: set[int] = set()
        waiting = list(groups)
        while waiting:
            fresh = self._after[waiting.pop()] - found
            found |= fresh
            waiting.extend(fresh)
        return found

    def in_order(self) -> list[list[Node]]:
        done: dict[int, None] = {}

        def visit(group: int) -> None:
            if group in done:
                return
            for each in sorted(self._after[group]):
                visit(each)
            done[group] = None

        for group in range(len(self._members)):
            visit(group)
        return [self._members[group] for group in done]


def _stage(graph: Graph, nodes: list[Node]) -> Stage:
    inside = {node.name for node in nodes}
    inputs = dict.fromkeys(ref for node in nodes for ref in node.sources if ref.node not in inside)
    used = {ref for node in graph.nodes if node.name not in inside for ref in node.sources}
    used.update(ref for _, ref in graph.outputs)
    return Stage(
        nodes=tuple(nodes),
        inputs=tuple(inputs),
        outputs=tuple(ref for node in nodes for ref in node.refs if ref in used),
        batched=not is_per_sample(nodes[0]),
        whole=not (is_per_sample(nodes[0]) or (nodes[0].operator.splittable and nodes[0].device == "cpu")),
        serial=not all(node.operator.is_parallel() for node in nodes),
        device=nodes[0].device or "cpu",
    )
