from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeplug import Batch, Context, Graph, Node, Operator, Ref, Source, Tensor, TensorSpec
from pipeplug.graph.plan import Stage, form_stages, is_per_sample, make_plan
from pipeplug.graph.trace import trace


class Origin(Source):
    def infer(self) -> TensorSpec:
        return TensorSpec()


class Samples(Operator):
    width: int = 1

    def infer(self, *values: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(),) * self.width

    def cpu(self, *values: Tensor, context: Context) -> Tensor:
        raise NotImplementedError

    def cuda(self, *values: Tensor, context: Context) -> Tensor:
        raise NotImplementedError


class Serial(Samples):
    parallel = False


class Batches(Operator):
    width: int = 1

    def infer(self, *values: TensorSpec) -> tuple[TensorSpec, ...]:
        return (TensorSpec(),) * self.width

    def cpu(self, *values: Batch, context: Context) -> Batch:
        raise NotImplementedError

    def cuda(self, *values: Batch, context: Context) -> Batch:
        raise NotImplementedError


def node(name: str, operator: Operator, inputs: Sequence[Ref] = (), device: str = "cpu", width: int = 1) -> Node:
    return Node(name, operator, name, tuple(inputs), specs=(TensorSpec(),) * width, device=device)


@st.composite
def graphs(draw: Any) -> Graph:
    """A source, and nodes after it that use any outputs of those before them, as inputs or as arguments."""
    nodes = [node("n0", Origin(), width=2)]
    for number in range(1, draw(st.integers(1, 14))):
        made = [ref for each in nodes for ref in each.refs]
        used = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4))
        kind = draw(st.sampled_from([Samples, Samples, Samples, Serial, Batches]))
        width = draw(st.integers(1, 2))
        split = draw(st.integers(1, len(used)))
        made_node = node(
            f"n{number}", kind(width=width), used[:split], draw(st.sampled_from(["cpu", "cpu", "cuda:0"])), width
        )
        arguments = tuple((f"a{place}", ref) for place, ref in enumerate(used[split:]))
        nodes.append(replace(made_node, arguments=arguments))
    made = [ref for each in nodes for ref in each.refs]
    outputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=4))
    return Graph(tuple(nodes), tuple((str(place), ref) for place, ref in enumerate(outputs)))


def stage_of(stages: Sequence[Stage]) -> dict[str, int]:
    return {each.name: number for number, stage in enumerate(stages) for each in stage.nodes}


class TestStagesOfAnyGraph:
    @given(graphs())
    def test_every_node_is_in_exactly_one(self, graph: Graph):
        names = [each.name for stage in form_stages(graph) for each in stage.nodes]
        assert sorted(names) == sorted(each.name for each in graph)

    @given(graphs())
    @settings(max_examples=300)
    def test_they_come_after_those_that_they_wait_for(self, graph: Graph):
        """Which also means that there is no cycle, and so that no path leaves a stage and returns."""
        stages = form_stages(graph)
        place = stage_of(stages)
        for number, stage in enumerate(stages):
            assert all(place[ref.node] < number for ref in stage.inputs)
            order = [each.name for each in stage.nodes]
            for each in stage.nodes:
                inside = [ref.node for ref in each.sources if ref.node in order]
                assert all(order.index(name) < order.index(each.name) for name in inside)

    @given(graphs())
    def test_they_are_connected(self, graph: Graph):
        for stage in form_stages(graph):
            names = {each.name for each in stage.nodes}
            links = [{each.name, ref.node} for each in stage.nodes for ref in each.sources if ref.node in names]
            reached = {stage.nodes[0].name}
            for _ in names:
                reached |= {name for link in links if link & reached for name in link}
            assert reached == names

    @given(graphs())
    def test_only_like_nodes_share_one(self, graph: Graph):
        for stage in form_stages(graph):
            assert {each.device for each in stage.nodes} == {stage.device}
            assert stage.batched is not is_per_sample(stage.nodes[0])
            assert stage.serial is any(isinstance(each.operator, Serial) for each in stage.nodes)
            if stage.batched or stage.serial:
                assert len(stage.nodes) == 1
            else:
                assert all(is_per_sample(each) for each in stage.nodes)

    @given(graphs())
    def test_what_enters_and_leaves(self, graph: Graph):
        place = stage_of(form_stages(graph))
        delivered = {ref for _, ref in graph.outputs}
        for number, stage in enumerate(form_stages(graph)):
            entering = {ref for each in stage.nodes for ref in each.sources if place[ref.node] != number}
            assert set(stage.inputs) == entering
            assert len(set(stage.inputs)) == len(stage.inputs)
            elsewhere = {ref for each in graph if place[each.name] != number for ref in each.sources} | delivered
            assert stage.outputs == tuple(ref for each in stage.nodes for ref in each.refs if ref in elsewhere)

    @given(graphs())
    def test_they_depend_on_the_graph_alone(self, graph: Graph):
        assert form_stages(graph) == form_stages(graph)


def names_of(graph: Graph) -> list[list[str]]:
    return [[each.name for each in stage.nodes] for stage in form_stages(graph)]


def graph_of(*nodes: Node) -> Graph:
    return Graph(nodes, (("0", Ref(nodes[-1].name)),))


class TestStagesOfKnownGraphs:
    def test_a_chain_is_one(self):
        chain = [node("a", Origin()), node("b", Samples(), [Ref("a")]), node("c", Samples(), [Ref("b")])]
        assert names_of(graph_of(*chain)) == [["a", "b", "c"]]

    def test_a_batch_kernel_cuts_it(self):
        assert names_of(
            graph_of(
                node("a", Origin()),
                node("b", Batches(), [Ref("a")]),
                node("c", Samples(), [Ref("b")]),
                node("d", Samples(), [Ref("c")]),
            )
        ) == [["a"], ["b"], ["c", "d"]]

    def test_a_detour_over_a_batch_does_not_return(self):
        """a → b → c and a → c, where b takes batches: c cannot be in the stage of a."""
        detour = graph_of(
            node("a", Origin()), node("b", Batches(), [Ref("a")]), node("c", Samples(), [Ref("a"), Ref("b")])
        )
        assert names_of(detour) == [["a"], ["b"], ["c"]]

    def test_both_arms_of_a_diamond_stay_together(self):
        diamond = graph_of(
            node("a", Origin()),
            node("b", Samples(), [Ref("a")]),
            node("c", Samples(), [Ref("a")]),
            node("d", Samples(), [Ref("b"), Ref("c")]),
        )
        assert names_of(diamond) == [["a", "b", "c", "d"]]

    def test_devices_are_apart(self):
        moved = graph_of(
            node("a", Origin()), node("b", Samples(), [Ref("a")], "cuda:0"), node("c", Samples(), [Ref("b")], "cuda:1")
        )
        assert names_of(moved) == [["a"], ["b"], ["c"]]

    def test_layers_of_batch_kernels_take_no_longer_than_their_number(self):
        """Sixty layers of two kernels that both use both of the layer before: 2**60 paths."""
        nodes = [node("s", Origin())]
        before = [Ref("s")]
        for layer in range(60):
            nodes += [node(f"{layer}{arm}", Batches(), before) for arm in "ab"]
            before = [Ref(f"{layer}{arm}") for arm in "ab"]
        nodes.append(node("end", Samples(), [Ref("s"), *before]))
        assert names_of(graph_of(*nodes))[-1] == ["end"]


class TestPlans:
    def graph(self) -> Graph:
        return trace(lambda: Samples()(Origin()())[0])

    def test_what_it_keeps(self):
        plan = make_plan(self.graph(), "cpu", None)
        assert [each.device for each in plan.traced] == [None, None]
        assert [each.device for each in plan.graph] == ["cpu", "cpu"]
        assert [len(stage.nodes) for stage in plan.stages] == [2]

    def test_a_rewrite_sees_devices_and_what_it_makes_is_placed(self):
        seen: list[str | None] = []

        def rewrite(graph: Graph) -> Graph:
            seen.extend(each.device for each in graph)
            samples = graph["Samples"]
            new = node("fused", Samples(), samples.inputs)
            unplaced = replace(new, device=None)
            return graph.with_node(unplaced, {Ref("Samples"): Ref("fused")})

        plan = make_plan(self.graph(), "cpu", rewrite)
        assert seen == ["cpu", "cpu"]
        assert [(each.name, each.device) for each in plan.graph] == [("Origin", "cpu"), ("fused", "cpu")]
        assert [each.name for each in plan.traced] == ["Origin", "Samples"]


@pytest.mark.parametrize(("operator", "per_sample"), [(Origin(), True), (Samples(), True), (Batches(), False)])
def test_granularity(operator: Operator, per_sample: bool):
    assert is_per_sample(node("n", operator)) is per_sample
