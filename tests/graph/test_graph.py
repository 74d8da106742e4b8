import pytest

from pipeplug import Graph, GraphError, Node, Operator, Ref, TensorSpec


def node(name: str, *inputs: str, argument: str | None = None, outputs: int = 1) -> Node:
    arguments = () if argument is None else (("by", Ref(argument)),)
    specs = tuple(TensorSpec((number,)) for number in range(outputs))
    return Node(name, Operator(), name, tuple(Ref(each) for each in inputs), arguments, specs)


@pytest.fixture
def graph() -> Graph:
    """a → b → d, a → c as an argument of d; b is used twice by d."""
    nodes = (node("a", outputs=2), node("b", "a"), node("c", "a"), node("d", "b", "b", argument="c"))
    return Graph(nodes, (("image", Ref("d")), ("label", Ref("a", 1))))


def names(graph: Graph) -> list[str]:
    return [each.name for each in graph]


def test_refs():
    assert (str(Ref("a")), str(Ref("a", 1))) == ("a", "a[1]")
    assert sorted([Ref("b"), Ref("a", 1), Ref("a")]) == [Ref("a"), Ref("a", 1), Ref("b")]


def test_what_nodes_use_and_make(graph: Graph):
    assert graph["d"].sources == (Ref("b"), Ref("b"), Ref("c"))
    assert graph["a"].refs == (Ref("a", 0), Ref("a", 1))


def test_looking_things_up(graph: Graph):
    assert graph.spec(Ref("a", 1)) == TensorSpec((1,))
    assert graph.producer(Ref("a", 1)) is graph["a"]
    assert graph.consumers(graph["a"]) == (graph["b"], graph["c"])
    with pytest.raises(KeyError):
        graph["e"]


def test_who_alone_uses_a_value(graph: Graph):
    assert graph.only_consumer(Ref("b")) is graph["d"]
    assert graph.only_consumer(Ref("c")) is graph["d"]
    assert graph.only_consumer(Ref("a")) is None
    assert graph.only_consumer(Ref("a", 1)) is None
    assert graph.only_consumer(Ref("d")) is None


def test_renaming(graph: Graph):
    renamed = graph["d"].renamed({Ref("b"): Ref("x"), Ref("c"): Ref("y", 1)})
    assert renamed.inputs == (Ref("x"), Ref("x"))
    assert renamed.arguments == (("by", Ref("y", 1)),)


def test_pruning(graph: Graph):
    assert names(graph.pruned()) == ["a", "b", "c", "d"]
    assert names(Graph(graph.nodes, (("0", Ref("b")),)).pruned()) == ["a", "b"]
    assert names(Graph(graph.nodes, ()).pruned()) == []


class TestReplacing:
    def test_what_nobody_uses_then_is_left_out(self, graph: Graph):
        new = graph.with_node(node("fused", "a", argument="c"), {Ref("d"): Ref("fused")})
        assert names(new) == ["a", "c", "fused"]
        assert new.outputs == (("image", Ref("fused")), ("label", Ref("a", 1)))

    def test_nodes_after_it_stay_after_it(self, graph: Graph):
        new = graph.with_node(node("early", "a"), {Ref("b"): Ref("early")})
        assert new["d"].inputs == (Ref("early"), Ref("early"))
        order = names(new)
        assert order.index("a") < order.index("early") < order.index("d")

    def test_the_old_graph_is_left_alone(self, graph: Graph):
        graph.with_node(node("early", "a"), {Ref("b"): Ref("early")})
        assert names(graph) == ["a", "b", "c", "d"]

    def test_a_cycle(self, graph: Graph):
        with pytest.raises(GraphError, match=r"these nodes wait for one another: .*loop"):
            graph.with_node(node("loop", "d"), {Ref("b"): Ref("loop")})

    def test_a_node_that_there_is_not(self, graph: Graph):
        with pytest.raises(GraphError, match="a node uses 'ghost', which the graph does not have"):
            graph.with_node(node("new", "ghost"), {Ref("b"): Ref("new")})

    def test_a_name_that_is_taken(self, graph: Graph):
        with pytest.raises(GraphError, match="the graph has a node b already; give the new one another name"):
            graph.with_node(node("b", "a"), {Ref("b"): Ref("b")})


def test_graphs_are_values(graph: Graph):
    assert graph == Graph(graph.nodes, graph.outputs)
    assert hash(graph) == hash(Graph(graph.nodes, graph.outputs))
