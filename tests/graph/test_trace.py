import re
from collections.abc import Callable

import numpy as np
import pytest

from pipeplug import (
    Batch,
    Context,
    Graph,
    GraphError,
    Operator,
    PerSample,
    Source,
    SpecError,
    Tensor,
    TensorSpec,
    ops,
    pipeline,
)
from pipeplug.graph.derived import Draw, InferShape, Peek, ShapeOf
from pipeplug.graph.trace import trace
from pipeplug.graph.transfer import Copy
from pipeplug.operator import Value

IMAGE = TensorSpec((None, None, 3), "uint8", "HWC")


class Origin(Source):
    def infer(self) -> tuple[TensorSpec, TensorSpec]:
        return TensorSpec.object(), TensorSpec((), "int64")

    def reader(self):
        return [(b"", 0)]


class Pictures(Source):
    """A source of images of known or unknown size."""

    size: tuple[int, int] | None = None

    def infer(self) -> TensorSpec:
        return IMAGE.with_shape((*self.size, 3)) if self.size else IMAGE

    def reader(self):
        return [np.zeros((4, 5, 3), np.uint8)]


class Decode(Operator):
    def infer(self, encoded: TensorSpec) -> TensorSpec:
        return IMAGE

    def peek(self, encoded: bytes) -> TensorSpec:
        return IMAGE.with_shape((4, 5, 3))

    def cpu(self, encoded: bytes, context: Context) -> Tensor:
        return Tensor(np.zeros((4, 5, 3), np.uint8))


class Halve(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        assert image.shape is not None
        return image.with_shape((*(None if size is None else size // 2 for size in image.shape[:2]), 3))

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return Tensor(image.numpy()[::2, ::2])


class Opaque(Operator):
    """Gives no word about its output's shape before it exists."""

    def infer(self, image: TensorSpec) -> TensorSpec:
        return IMAGE

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return image


class Flip(Operator):
    probability: float = 0.5

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def draw(self, random):
        return {"flipped": random.boolean(self.probability)}

    def cpu(self, image: Tensor, context: Context, *, flipped: bool) -> Tensor:
        return image


class Crop(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return image.with_shape((2, 2, 3))

    def draw(self, random, image):
        return {"corner": image[:, :2]}

    def cpu(self, image: Tensor, context: Context, *, corner: tuple[int, int]) -> Tensor:
        return image


class Gain(Operator):
    by: PerSample[float]

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context, *, by: float) -> Tensor:
        return image


class Split(Operator):
    def infer(self, image: TensorSpec) -> dict[str, TensorSpec]:
        return {"left": image, "right": image}

    def cpu(self, image: Tensor, context: Context) -> dict[str, Tensor]:
        return {"right": image, "left": image}


class Join(Operator):
    def infer(self, first: TensorSpec, *others: TensorSpec) -> TensorSpec:
        return first

    def cpu(self, first: Batch, *others: Batch, context: Context) -> Batch:
        return first


def names(function: Callable[[], object]) -> list[str]:
    return [node.name for node in trace(function)]


def flips_and_crops(*extra: str):
    encoded, label = Origin()()
    image = Decode()(encoded)
    if "first" in extra:
        image = Halve()(image)
    image = Flip()(image)
    if "between" in extra:
        image = Gain(by=2)(image)
        image = Opaque()(image)
    image = Flip()(image)
    return {"image": image, "label": label}


class TestNodes:
    def test_every_call_leaves_one(self):
        graph = trace(flips_and_crops)
        assert [node.name for node in graph] == ["Origin", "Decode", "Flip.draw", "Flip", "Flip_2.draw", "Flip_2"]
        assert dict(graph.outputs).keys() == {"image", "label"}
        assert [str(ref) for _, ref in graph.outputs] == ["Flip_2", "Origin[1]"]

    def test_they_know_where_they_were_called(self):
        node = trace(flips_and_crops)["Decode"]
        file, line = node.location.rsplit(":", 1)
        assert file == __file__
        with open(__file__, encoding="utf-8") as source:
            assert "Decode()(encoded)" in source.readlines()[int(line) - 1]

    def test_names_are_the_operators_and_an_ordinal(self):
        def three():
            image = Pictures()()
            return Halve()(Halve()(Halve()(image)))

        assert names(three) == ["Pictures", "Halve", "Halve_2", "Halve_3"]

    def test_names_can_be_pinned(self):
        def pinned():
            image = Halve()(Pictures()(), name="Halve_2")
            return Halve()(Halve()(Halve()(image)), name="last")

        assert names(pinned) == ["Pictures", "Halve_2", "Halve", "Halve_3", "last"]

    def test_a_name_that_is_taken(self):
        def twice():
            image = Halve()(Pictures()(), name="half")
            return Halve()(image, name="half")

        with pytest.raises(GraphError, match=rf"{re.escape(__file__)}:\d+: name='half' is taken by the node at .*:\d+"):
            trace(twice)

    def test_a_name_like_that_of_a_draw(self):
        assert names(lambda: Flip()(Halve()(Pictures()(), name="Flip.draw"))) == [
            "Pictures",
            "Flip.draw",
            "Flip.draw_2",
            "Flip",
        ]

    def test_what_contributes_to_no_output_is_left_out(self):
        def unused():
            image = Pictures()()
            Flip()(image)
            return Halve()(image)

        assert names(unused) == ["Pictures", "Halve"]

    def test_copies_are_nodes(self):
        graph = trace(lambda: Halve()(Pictures()().to("cuda:0")))
        copy = graph["Pictures.to"]
        assert isinstance(copy.operator, Copy)
        assert (copy.device, copy.specs) == ("cuda:0", (IMAGE,))

    def test_a_call_may_name_its_device(self):
        assert trace(lambda: Halve()(Pictures()(), device="cuda:0"))["Halve"].device == "cuda:0"


class TestOutputs:
    def test_several_values_of_one_operator(self):
        def split():
            parts = Split()(Pictures()())
            assert list(parts) == ["left", "right"]
            return parts

        graph = trace(split)
        assert graph.outputs[1][0] == "right"
        assert graph["Split"].output_names == ("left", "right")

    @pytest.mark.parametrize(
        ("give", "expected"),
        [
            (lambda image: image, ["0"]),
            (lambda image: (image, image), ["0", "1"]),
            (lambda image: [image], ["0"]),
            (lambda image: {"a": image, 3: image}, ["a", "3"]),
        ],
    )
    def test_what_a_function_may_return(self, give, expected: list[str]):
        assert [name for name, _ in trace(lambda: give(Pictures()())).outputs] == expected

    @pytest.mark.parametrize("nothing", [None, {}, (), []])
    def test_nothing(self, nothing: object):
        with pytest.raises(GraphError) as caught:
            trace(lambda: nothing)
        expected = 'the pipeline function returns nothing; return values by name: {"image": image}'
        assert str(caught.value) == expected

    @pytest.mark.parametrize("wrong", [3, {"image": {"nested": 1}}, np.zeros(2)])
    def test_anything_else(self, wrong: object):
        with pytest.raises(GraphError, match=r"output '(0|image)' is not a value of this pipeline: "):
            trace(lambda: wrong)

    def test_a_value_of_another_pipeline(self):
        other = value_of_another_pipeline()
        with pytest.raises(GraphError, match=r"output 'a' is not a value of this pipeline: Value\(Pictures"):
            trace(lambda: {"a": other})


class TestInputs:
    def refused(self, function: Callable[[], object]) -> str:
        with pytest.raises(GraphError) as caught:
            trace(function)
        place, message = str(caught.value).split(": ", 1)
        assert place.startswith(f"{__file__}:")
        return message

    @pytest.mark.parametrize(
        ("data", "kind"), [(np.zeros(3), "ndarray"), (Tensor(np.zeros(3)), "Tensor"), ((), "tuple"), (None, "NoneType")]
    )
    def test_data(self, data: object, kind: str):
        message = self.refused(lambda: Halve()(data))
        assert message == f"Halve got {kind} data; inside a pipeline operators take values of its graph"

    def test_a_value_of_another_pipeline(self):
        other = value_of_another_pipeline()
        message = self.refused(lambda: Halve()(other))
        assert message == "Halve got a value of another pipeline; inside a pipeline operators take values of its graph"

    def test_a_number(self):
        message = self.refused(lambda: Halve()(3))
        assert message == "Halve got the number 3; inputs are values of the graph, arguments go by name"

    def test_several_values_at_once(self):
        message = self.refused(lambda: Halve()((Pictures()(),) * 2))
        assert message == "Halve got 2 values at once; take them apart: first, second = …"
        message = self.refused(lambda: Halve()({"image": Pictures()()}))
        assert message == "Halve got 1 values at once; take them by name: value['image']"

    def test_data_as_an_argument_that_varies(self):
        message = self.refused(lambda: Gain(by=Batch.equal(np.zeros(3)))(Pictures()()))  # type: ignore[arg-type]
        assert message == "Gain got Batch data; inside a pipeline operators take values of its graph"

    def test_the_wrong_number(self):
        with pytest.raises(SpecError, match=r"Halve at .*: takes 1 input\(s\) \(image\), got 2"):
            trace(two_inputs)

    def test_any_number(self):
        def join():
            image = Pictures()()
            return Join()(image, Halve()(image), image)

        assert [str(ref) for ref in trace(join)["Join"].inputs] == ["Pictures", "Halve", "Pictures"]

    def test_a_second_source(self):
        def two():
            Pictures()()
            return Pictures(size=(2, 2))()

        message = self.refused(two)
        assert re.fullmatch(
            r"Pictures_2 is a second source beside Pictures \(.*:\d+\); a pipeline reads from one", message
        )

    def test_no_source(self):
        with pytest.raises(GraphError, match=r"the pipeline reads from nothing; begin with a source such as ops\.read"):
            pipeline(batch_size=2)(lambda: ops.random.uniform())()

    def test_decisions_about_data(self):
        def decide():
            image, label = Origin()()
            return image if label else None

        message = self.refused(decide)
        assert message.startswith(
            "Origin has no data while the pipeline function is traced, so its truth cannot be used"
        )


def value_of_another_pipeline() -> Value:
    values: list[Value] = []

    def other():
        values.append(Pictures()())
        return values[0]

    trace(other)
    return values[0]


def two_inputs():
    image = Pictures()()
    return Halve()(image, image)


class TestArguments:
    def test_one_that_varies_is_an_edge(self):
        def gain():
            encoded, label = Origin()()
            return Gain(by=label)(Decode()(encoded))

        node = trace(gain)["Gain"]
        assert [(name, str(ref)) for name, ref in node.arguments] == [("by", "Origin[1]")]
        assert repr(node.operator) == "Gain(by=per sample)"

    def test_a_constant_is_not(self):
        node = trace(lambda: Gain(by=2)(Pictures()()))["Gain"]
        assert node.arguments == ()
        assert node.operator == Gain(by=2)


class TestDraws:
    def draw(self, function: Callable[[], object], name: str = "Flip.draw") -> Draw:
        operator = trace(function)[name].operator
        assert isinstance(operator, Draw)
        return operator

    def test_they_are_nodes_of_their_own(self):
        graph = trace(lambda: Flip(probability=1)(Pictures()()))
        assert graph["Flip.draw"].operator == Draw(of=Flip(probability=1), key="Flip")
        assert graph["Flip.draw"].output_names == ("flipped",)
        assert [(name, str(ref)) for name, ref in graph["Flip"].arguments] == [("flipped", "Flip.draw")]

    def test_their_key_is_the_name_of_the_node(self):
        assert self.draw(flips_and_crops, "Flip_2.draw").key == "Flip_2"
        assert self.draw(lambda: Flip()(Pictures()(), name="mirror"), "mirror.draw").key == "mirror"

    def test_a_key_is_shared_by_those_who_name_it(self):
        def both():
            image = Pictures()()
            return {"image": Flip()(image, key="geometry"), "mask": Flip()(image, key="geometry")}

        assert self.draw(both).key == self.draw(both, "Flip_2.draw").key == "geometry"

    @pytest.mark.parametrize("extra", [("first",), ("between",), ("first", "between")])
    def test_another_operator_changes_nothing_elsewhere(self, extra: tuple[str, ...]):
        plain = {node.name: node.operator for node in trace(flips_and_crops) if isinstance(node.operator, Draw)}
        more = {node.name: node.operator for node in trace(lambda: flips_and_crops(*extra))}
        assert plain.items() <= more.items()


class TestShapesOfDraws:
    def graph(self, function: Callable[[], object]) -> Graph:
        return trace(lambda: Crop()(function()))

    def test_a_known_shape_is_part_of_the_draw(self):
        graph = self.graph(Pictures(size=(4, 5)))
        assert [node.name for node in graph] == ["Pictures", "Crop.draw", "Crop"]
        assert graph["Crop.draw"].operator == Draw(of=Crop(), key="Crop", shapes=((4, 5, 3),))

    def test_a_header_tells_it_before_decoding(self):
        graph = self.graph(lambda: Decode()(Origin()()[0]))
        node = graph["Decode.shape"]
        assert node.operator == Peek(of=Decode(), rank=3)
        assert [str(ref) for ref in node.inputs] == ["Origin"]
        assert graph["Crop.draw"].inputs == node.refs

    def test_it_is_inferred_through_operators_that_tell(self):
        graph = self.graph(lambda: Halve()(Halve()(Decode()(Origin()()[0]))))
        kinds = {node.name: type(node.operator) for node in graph if node.name.endswith(".shape")}
        assert kinds == {"Decode.shape": Peek, "Halve.shape": InferShape, "Halve_2.shape": InferShape}
        assert [str(ref) for ref in graph["Halve_2.shape"].inputs] == ["Halve.shape"]
        assert graph["Halve_2.shape"].operator_name == "Halve"

    def test_else_the_data_tell_it(self):
        graph = self.graph(lambda: Halve()(Opaque()(Decode()(Origin()()[0]))))
        kinds = {node.name: type(node.operator) for node in graph if node.name.endswith(".shape")}
        assert kinds == {"Opaque.shape": ShapeOf, "Halve.shape": InferShape}
        assert [str(ref) for ref in graph["Opaque.shape"].inputs] == ["Opaque"]

    def test_of_a_second_output_the_data_tell_it(self):
        graph = self.graph(lambda: Split()(Halve()(Decode()(Origin()()[0])))["right"])
        (node,) = (node for node in graph if node.name.endswith(".shape"))
        assert node.operator == ShapeOf(rank=3)
        assert [str(ref) for ref in node.inputs] == ["Split[1]"]

    def test_two_draws_share_what_they_need(self):
        def twice():
            image = Decode()(Origin()()[0])
            return {"a": Crop()(image), "b": Crop()(image)}

        assert [node.name for node in trace(twice) if "shape" in node.name] == ["Decode.shape"]
