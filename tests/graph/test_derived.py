"""What the nodes that the graph adds by itself compute."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pipeplug import Context, DeclarationError, Draws, Operator, SampleFailed, Tensor, TensorSpec, ops, pipeline
from pipeplug.graph.derived import draw_arguments
from pipeplug.runtime.randomness import key_hash

IMAGE = TensorSpec((None, None), "int64", "HW")
IMAGES = [np.arange(height * width).reshape(height, width) for height, width in [(4, 6), (2, 8), (6, 2), (8, 8)]]


class Encoded(Operator):
    """'Decodes' an array that is wrapped in a tuple, whose shape can be peeked at."""

    peeks: bool = True

    def infer(self, wrapped: TensorSpec) -> TensorSpec:
        return IMAGE

    def cpu(self, wrapped: tuple[Any], context: Context) -> Tensor:
        return Tensor(wrapped[0], "HW")


class Peeked(Encoded):
    def peek(self, wrapped: tuple[Any]) -> TensorSpec:
        return IMAGE.with_shape(wrapped[0].shape)


class Halve(Operator):
    def infer(self, image: TensorSpec) -> dict[str, TensorSpec]:
        assert image.shape is not None
        return {"half": image.with_shape(None if size is None else size // 2 for size in image.shape)}

    def cpu(self, image: Tensor, context: Context) -> dict[str, Tensor]:
        return {"half": Tensor(image.numpy()[::2, ::2])}


class Corner(Operator):
    """Gives a random place in the image, and its shape as `draw` was told it."""

    def infer(self, image: TensorSpec) -> TensorSpec:
        return TensorSpec((4,), "float64")

    def draw(self, random, image):
        return {"corner": random.uniform(0, image, size=2), "told": image}

    def cpu(self, image: Tensor, context: Context, *, corner: Any, told: Any) -> Tensor:
        return Tensor(np.concatenate([corner, told]).astype(np.float64))


@pipeline(batch_size=3, threads=2, seed=5)
def corners(decode: Operator, *, halve: bool = False, extra: bool = False):
    image = decode(ops.read.items([(image,) for image in IMAGES]))
    if halve:
        image = Halve()(image)["half"]
    if extra:
        image = ops.map(lambda array: array, image, spec=IMAGE)
    return Corner()(image)


@pipeline(batch_size=3, threads=2, seed=5)
def static_corners():
    return Corner()(ops.read.arrays(np.zeros((4, 4, 6))))


def rows(made: Any) -> Any:
    with made as batches:
        return np.concatenate([batch["0"].numpy() for batch in batches])


def expected(shapes: Sequence[tuple[int, ...]]) -> Any:
    corner = Draws(5, key_hash("Corner"), 0, range(4)).uniform(size=2) * np.array(shapes)
    return np.concatenate([corner, shapes], axis=1)


@pytest.mark.parametrize("decode", [Peeked(), Encoded()])
def test_shapes_are_those_of_the_data(decode: Operator):
    shapes = [image.shape for image in IMAGES]
    np.testing.assert_array_equal(rows(corners(decode)), expected(shapes))
    np.testing.assert_array_equal(corners(decode).samples([2, 1])["0"].numpy(), expected(shapes)[[2, 1]])


@pytest.mark.parametrize("decode", [Peeked(), Encoded()])
def test_shapes_are_inferred(decode: Operator):
    shapes = [tuple(size // 2 for size in image.shape) for image in IMAGES]
    np.testing.assert_array_equal(rows(corners(decode, halve=True)), expected(shapes))


def test_shapes_come_from_data_that_nobody_tells_of():
    np.testing.assert_array_equal(rows(corners(Peeked(), extra=True)), expected([image.shape for image in IMAGES]))


def test_shapes_that_are_known():
    np.testing.assert_array_equal(rows(static_corners()), expected([(4, 6)] * 4))


class Draw(Operator):
    given: str = "box"
    rows: int | None = None

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def draw(self, random):
        return {self.given: np.zeros(self.rows)} if self.rows is not None else {self.given: 0.5}

    def cpu(self, image: Tensor, context: Context, *, box: float) -> Tensor:
        return image


class TestWhatDrawGives:
    def refused(self, operator: Operator) -> str:
        with pytest.raises(DeclarationError) as caught:
            draw_arguments(operator, Draws(0, 0, 0, range(3)), [])
        return str(caught.value)

    def test_a_row_a_sample(self):
        assert draw_arguments(Draw(rows=3), Draws(0, 0, 0, range(3)), [])["box"].tolist() == [0, 0, 0]

    def test_another_name(self):
        assert self.refused(Draw(given="bax", rows=3)) == "Draw.draw gives bax, but its kernels take box"

    @pytest.mark.parametrize("count", [2, 4, None])
    def test_another_number_of_rows(self, count: int | None):
        shape = () if count is None else (count,)
        assert self.refused(Draw(rows=count)) == (
            f"Draw.draw gives box of shape {shape}, which does not have a row for each of 3 samples"
        )

    def test_a_pipeline_says_which_node(self):
        made = pipeline(batch_size=2)(lambda: Draw(given="bax", rows=1)(ops.read.items([np.zeros(2)])))
        with pytest.raises(SampleFailed, match=r"Draw\.draw failed on item 0 .*: Draw\.draw gives bax, but"):
            made().samples([0])


def test_a_broken_header_fails_its_sample():
    class Broken(Peeked):
        def peek(self, wrapped: tuple[Any]) -> TensorSpec:
            raise ValueError("no header")

    with pytest.raises(SampleFailed, match=r"Broken\.shape failed on item 1 .*: ValueError: no header"):
        corners(Broken()).samples([1])
