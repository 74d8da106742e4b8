import re
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path

import numpy as np
import pytest

from pipeplug.batch import Batch
from pipeplug.contexts import Context
from pipeplug.graph.graph import Graph, Node, Ref
from pipeplug.graph.placement import place
from pipeplug.graph.plan import Plan, form_stages, make_plan
from pipeplug.graph.render import as_mermaid, as_text, changed_arguments
from pipeplug.graph.trace import trace
from pipeplug.graph.transfer import Copy
from pipeplug.mapping import map_values
from pipeplug.operator import Operator, PerSample
from pipeplug.runtime.randomness import Draws, Shapes
from pipeplug.source import Source
from pipeplug.spec import TensorSpec
from pipeplug.tensor import Array, Tensor

IMAGE = TensorSpec((None, None, 3), "uint8", "HWC")


class Read(Source):
    root: str = "photos"

    def infer(self) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec.object(), TensorSpec((), "int64")


class Decode(Operator):
    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return IMAGE

    def peek(self, encoded: bytes) -> TensorSpec:
        return IMAGE

    def cpu(self, encoded: bytes, context: Context) -> Tensor:
        raise NotImplementedError


class Load(Operator):
    spec: TensorSpec = IMAGE

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return self.spec

    def cpu(self, encoded: bytes, context: Context) -> Tensor:
        raise NotImplementedError


class Crop(Operator):
    size: tuple[int, int]
    scale: tuple[float, float] = (0.08, 1)

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image.with_shape((*self.size, 3))

    def draw(self, random: Draws, image: Shapes) -> dict[str, Array]:
        raise NotImplementedError

    def cpu(self, image: Tensor, context: Context, *, box: Array) -> Tensor:
        raise NotImplementedError


class Flip(Operator):
    probability: PerSample[float] = 0.5

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def draw(self, random: Draws) -> dict[str, Array]:
        raise NotImplementedError

    def cpu(self, image: Tensor, context: Context, *, flipped: Array, probability: float) -> Tensor:
        raise NotImplementedError

    def cuda(self, image: Batch, context: Context, *, flipped: Array, probability: float) -> Batch:
        raise NotImplementedError


class Sharpen(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        raise NotImplementedError


class Arguments(Operator):
    data: object = None
    names: tuple[str, ...] = ()
    weight: float = 1
    hidden: int = field(default=0, repr=False)


def train() -> object:
    encoded, label = Read()()
    image = Crop(size=(8, 6))(Decode()(encoded))
    return {"image": Flip(probability=0.25)(image), "label": label}


def plan_of(function: Callable[[], object], rewrite: Callable[[Graph], Graph] | None = None) -> Plan:
    return make_plan(trace(function), "cpu", rewrite)


def text_of(function: Callable[[], object], rewrite: Callable[[Graph], Graph] | None = None) -> str:
    return as_text(plan_of(function, rewrite))


def test_a_whole_plan_as_text():
    assert re.sub(r"\.py:\d+", ".py:7", text_of(train)) == (
        "What the function says\n"
        "  Read()                        test_render.py:7\n"
        "  Decode(Read)                  test_render.py:7\n"
        "  Crop(Decode, size=(8, 6))     test_render.py:7\n"
        "  Flip(Crop, probability=0.25)  test_render.py:7\n"
        "  returns image: Flip, label: Read[1]\n"
        "\n"
        "What runs, in 4 stages (-> a value that leaves one, as a batch)\n"
        "  1. each sample through 3 operators in one pass, samples in parallel, on cpu\n"
        "     Read\n"
        "     Decode\n"
        "     Decode.shape  the shape of Decode, from the header of its input\n"
        "     -> Read[1]       int64 ()             batch built in place"
        "                             1 use: output 'label'\n"
        "     -> Decode        uint8 (?, ?, 3) HWC  not built in place: H, W unknown before it runs  1 use: Crop\n"
        "     -> Decode.shape  int64 (3)            batch built in place"
        "                             1 use: Crop.draw\n"
        "  2. the whole batch in one call, on cpu\n"
        "     Crop.draw  random numbers: box; for the shape of Decode, from the header of its input\n"
        "     -> Crop.draw  numbers  a row a sample  1 use: Crop\n"
        "  3. the whole batch in one call, on cpu\n"
        "     Flip.draw  random numbers: flipped; no shapes needed\n"
        "     -> Flip.draw  numbers  a row a sample  1 use: Flip\n"
        "  4. each sample through 2 operators in one pass, samples in parallel, on cpu\n"
        "     Crop\n"
        "     Flip\n"
        "     -> Flip  uint8 (8, 6, 3) HWC  batch built in place  1 use: output 'image'\n"
        "\n"
        "No value is copied between devices.\n"
        "No plugin rewrote anything: the operators run as the function says.\n"
    )


class TestWhatTheFunctionSays:
    def test_the_line_of_a_call(self):
        line = train.__code__.co_firstlineno + 2
        assert f"Crop(Decode, size=(8, 6))     test_render.py:{line}\n" in text_of(train)

    def test_a_second_call_and_a_pinned_name_are_told_apart(self):
        def twice() -> object:
            image = Decode()(Read()()[0])
            return Flip()(Flip()(image), name="last"), Flip()(image)

        text = text_of(twice)
        assert "  last = Flip(Flip)  " in text
        assert "  Flip_2 = Flip(Decode)  " in text
        assert "  returns 0: last, 1: Flip_2\n" in text

    def test_an_argument_that_varies_by_sample_is_the_value_that_gives_it(self):
        from pipeplug.ops import OperatorCall

        def varying() -> object:
            encoded, label = Read()()
            return OperatorCall("Flip", Flip)(Decode()(encoded), probability=map_values(float, label))

        assert "  Flip(Decode, probability=map.float)  " in text_of(varying)

    def test_arguments_are_cut(self):
        def shown(data: object) -> str:
            [argument] = changed_arguments(Arguments(data=data))
            return argument.removeprefix("data=")

        assert changed_arguments(Arguments(weight=1.0, hidden=7)) == []
        assert changed_arguments(Arguments(names=("a", "b"), weight=2)) == ["names=('a', 'b')", "weight=2.0"]
        assert changed_arguments(Arguments(names=("a",))) == ["names=('a',)"]
        assert shown(np.zeros((5, 2), np.uint8)) == "<uint8 array (5, 2)>"
        assert shown(IMAGE) == "<uint8 (?, ?, 3) HWC>"
        assert shown([np.zeros(2)]) == "[<float64 array (2,)>]"
        assert shown(list(range(9))) == "<list of 9>"
        assert shown({"a": 1}) == "<dict of 1>"
        assert shown(len) == "len"
        assert shown(object()) == "<object>"
        assert shown(Path("photos")) == "'photos'"
        assert shown("a" * 40 + "b" * 40) == f"'…{'a' * 7}{'b' * 40}'"
        assert shown(range(10**50)) == f"range(0, 1{'0' * 37}…"
        assert shown(complex(1, 2)) == "(1+2j)"

    def test_own_arguments_come_before_inherited_ones(self):
        assert changed_arguments(Read(root="p", shuffle=True)) == ["root='p'", "shuffle=True"]


class TestWhatRuns:
    def test_manners(self):
        def manners() -> object:
            _, label = Read()()
            one = map_values(float, label, parallel=False)
            return map_values(list, one, batch=True), map_values(list, one, batch=True, parallel=False)

        text = text_of(manners)
        assert "What runs, in 4 stages (" in text
        assert "  1. sample by sample, samples in parallel, on cpu\n     Read\n" in text
        assert "  2. sample by sample, one at a time and in order, on cpu\n     map.float\n" in text
        assert "  3. the whole batch in one call, on cpu\n     map.list\n" in text
        assert "  4. the whole batch in one call, batch after batch, on cpu\n     map.list_2\n" in text
        assert "2 uses: map.list, map.list_2" in text
        assert "batch as the kernel gives it" in text

    def test_one_stage(self):
        assert "What runs, in 1 stage (" in text_of(lambda: Read()()[1])

    @pytest.mark.parametrize(
        ("spec", "why"),
        [
            (TensorSpec((None, 4), "uint8", "HW"), "not built in place: H unknown before it runs"),
            (TensorSpec((None, None), "uint8"), "not built in place: some sizes unknown before it runs"),
            (TensorSpec((None, 4), None, "HW"), "not built in place: H and dtype unknown before it runs"),
            (TensorSpec((2, 4)), "not built in place: dtype unknown before it runs"),
            (TensorSpec(None, "uint8"), "not built in place: shape unknown before it runs"),
            (TensorSpec(), "not built in place: shape and dtype unknown before it runs"),
            (TensorSpec.object(), "a list of Python objects"),
            (TensorSpec((2, 4), "uint8"), "batch built in place"),
        ],
    )
    def test_why_a_batch_is_built_in_place_or_not(self, spec: TensorSpec, why: str):
        text = text_of(lambda: {"x": Load(spec=spec)(Read()()[0])})
        assert f"-> Load  {spec}  {why}  1 use: output 'x'\n" in text

    def test_many_uses_are_counted(self):
        def many() -> object:
            image = Decode()(Read()()[0])
            return {"raw": image, **{f"{number}": Sharpen()(image) for number in range(3)}}

        text = as_text(plan_of(many))
        lines = [line for line in text.splitlines() if "-> Decode" in line]
        assert ["4 uses: Sharpen, Sharpen_2, …" in line for line in lines] == [True]

    def test_shapes_by_inference_and_from_data(self):
        def inferred() -> object:
            return Crop(size=(2, 2))(Sharpen()(Decode()(Read()()[0])))

        def measured() -> object:
            return Crop(size=(2, 2))(Load()(Read()()[0]))

        assert "random numbers: box; for the shape of Sharpen, by inference from Decode.shape\n" in text_of(inferred)
        assert "random numbers: box; for the shape of Load, from the data once all of it is there\n" in text_of(
            measured
        )

    def test_constant_shapes(self):
        def constant() -> object:
            return Crop(size=(2, 2))(Load(spec=TensorSpec((4, 5, 3), "uint8", "HWC"))(Read()()[0]))

        assert "random numbers: box; for the constant shape (4, 5, 3)\n" in text_of(constant)

    def test_shared_numbers(self):
        def shared() -> object:
            image = Decode()(Read()()[0])
            return Flip()(image, key="both"), Flip()(image, key="both")

        assert text_of(shared).count("random numbers: flipped; no shapes needed; shared by key 'both'\n") == 2


class Move(Copy):
    """A copy that a GPU can make."""

    def cuda(self, value: Batch, context: Context) -> Batch:
        raise NotImplementedError


def copied() -> Plan:
    """A plan with a copy to a GPU, written out, since placement knows one device yet."""
    placed = place(trace(lambda: {"image": Flip()(Load(spec=TensorSpec((4, 5, 3), "uint8"))(Read()()[0]))}), "cpu")
    copy = Node("Load.to", Move(), "to", (Ref("Load"),), (), placed["Load"].specs, None, "cuda:0", "photos.py:3")
    flip = replace(placed["Flip"].renamed({Ref("Load"): Ref("Load.to")}), device="cuda:0")
    graph = Graph((*(node for node in placed if node.name != "Flip"), copy, flip), placed.outputs)
    return Plan(graph, graph, form_stages(graph))


def test_copies_are_listed():
    text = as_text(copied())
    assert "  Load.to = Load.to('cuda:0')  " in text
    assert "  Flip(Load.to, device='cuda:0')  " in text
    assert "Copies between devices\n  Load.to  copy of Load from cpu to cuda:0\n" in text
    assert "  4. the whole batch in one call, on cuda:0\n     Flip\n" in text
    assert '[/"Load.to"/]\n' in as_mermaid(copied())


class Region(Operator):
    """Stands for a decode and a crop."""

    size: tuple[int, int]

    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return TensorSpec((*self.size, 3), "uint8", "HWC")

    def draw(self, random: Draws) -> dict[str, Array]:
        raise NotImplementedError

    def cpu(self, encoded: bytes, context: Context, *, box: Array) -> Tensor:
        raise NotImplementedError


def fuse(graph: Graph) -> Graph:
    crop, decode = graph["Crop"], graph["Decode"]
    region = replace(
        crop, name="Region", operator=Region(size=(8, 6)), inputs=decode.inputs, reason="only the region is decoded"
    )
    return graph.with_node(region, {Ref("Crop"): Ref("Region")})


def test_rewrites_are_explained():
    text = text_of(train, fuse)
    assert "     Region  made by a rewrite, see below\n" in text
    assert "What plugins rewrote\n  Region  only the region is decoded\n  in the place of Decode, Crop\n" in text
    assert "  Crop(Decode, size=(8, 6))  " in text


class TestMermaid:
    def test_a_subgraph_a_stage(self):
        lines = as_mermaid(plan_of(train)).splitlines()
        assert lines[0] == "flowchart TD"
        assert lines[1:6] == [
            '  subgraph stage1["stage 1: each sample through 3 operators in one pass, samples in parallel, on cpu"]',
            '    n0["Read"]',
            '    n1["Decode"]',
            '    n2["Decode.shape"]',
            "  end",
        ]
        assert sum(line.startswith("  subgraph") for line in lines) == sum(line == "  end" for line in lines) == 4

    def test_edges_carry_specs_and_names_of_random_numbers(self):
        text = as_mermaid(plan_of(train))
        assert '    n3{{"Crop.draw"}}\n' in text
        assert '  n0 -- "object" --> n1\n' in text
        assert '  n3 -. "box" .-> n4\n' in text
        assert '  n6 -- "uint8 (8, 6, 3) HWC" --> output0(["image"])\n' in text
        assert '  n0 -- "int64 ()" --> output1(["label"])\n' in text

    def test_letters_that_mean_something_to_mermaid(self):
        text = as_mermaid(plan_of(lambda: {'<a> "b" #1': Read()()[1]}))
        assert 'output0(["#lt;a#gt; #quot;b#quot; #35;1"])' in text
