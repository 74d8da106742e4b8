from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest

from pipeplug import (
    ArgumentError,
    Batch,
    Context,
    DeclarationError,
    GraphError,
    Operator,
    PerSample,
    PipeplugError,
    SampleFailed,
    SpecError,
    Tensor,
    TensorSpec,
    eager,
    ops,
    pipeline,
)


class Gain(Operator):
    by: PerSample[float] = 2.0

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image.with_dtype("float64")

    def cpu(self, image: Tensor, context: Context, *, by: float) -> Tensor:
        result = context.empty(image.spec.with_dtype("float64"))
        np.multiply(image.numpy(), by, out=result.numpy())
        return result


class GainBatch(Operator):
    by: PerSample[float] = 2.0

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image.with_dtype("float64")

    def cpu(self, images: Batch, context: Context, *, by: Any) -> Batch:
        results = context.empty_batch([image.spec.with_dtype("float64") for image in images])
        for image, result, factor in zip(images, results, by, strict=True):
            np.multiply(image.numpy(), factor, out=result.numpy())
        return results


class Noise(Operator):
    size: int = 1

    def infer(self, image: TensorSpec) -> TensorSpec:
        return TensorSpec((self.size,), "float64")

    def draw(self, random):
        return {"noise": random.uniform(size=self.size)}

    def cpu(self, image: Tensor, context: Context, *, noise: Any) -> Tensor:
        return Tensor(noise)


class Corner(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return TensorSpec((2,), "int64")

    def draw(self, random, image):
        return {"told": image}

    def cpu(self, image: object, context: Context, *, told: Any) -> Any:
        return told


class Split(Operator):
    named: bool = False

    def infer(self, image: TensorSpec) -> dict[str, TensorSpec] | tuple[TensorSpec, ...]:
        return {"first": TensorSpec(), "kind": TensorSpec.object()} if self.named else (TensorSpec(),) * 2

    def cpu(self, image: Tensor, context: Context) -> Any:
        parts = (image.numpy()[0], type(image).__name__)
        return dict(zip(("kind", "first"), parts[::-1], strict=True)) if self.named else parts


class Add(Operator):
    def infer(self, first: TensorSpec, *others: TensorSpec) -> TensorSpec:
        return first

    def cpu(self, first: Tensor, *others: Tensor, context: Context) -> Any:
        return sum((other.numpy() for other in others), first.numpy())


class Open(Operator):
    """Gives its state, which notes what happens to it."""

    label: str = "a"
    events: ClassVar[list[str]] = []

    def infer(self) -> TensorSpec:
        return TensorSpec.object()

    @contextmanager
    def open(self) -> Iterator[object]:
        self.events.append(f"open {self.label}")
        try:
            yield object()
        finally:
            self.events.append(f"close {self.label}")

    def cpu(self, context: Context, *, state: object) -> object:
        self.events.append(f"call {self.label}")
        return state


class Broken(Operator):
    batched: bool = False

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        raise ZeroDivisionError("too small")


class Fails(Operator):
    def infer(self, images: TensorSpec) -> TensorSpec:
        return images

    def cpu(self, images: Batch, context: Context) -> Batch:
        context.fail(1, ValueError("row 1"))
        return images.take([0])


class Picture:
    """As other libraries have them: an array to NumPy."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.array


IMAGES = np.arange(24).reshape(2, 3, 4)


class TestData:
    @pytest.mark.parametrize("gain", [Gain, GainBatch])
    @pytest.mark.parametrize("image", [IMAGES[0], Tensor(IMAGES[0]), Picture(IMAGES[0])])
    def test_an_array_is_one_sample(self, gain: type[Gain], image: Any):
        result = gain()(image)
        assert isinstance(result, Tensor)
        np.testing.assert_array_equal(result.numpy(), IMAGES[0] * 2)

    @pytest.mark.parametrize("gain", [Gain, GainBatch])
    def test_a_batch_is_a_batch(self, gain: type[Gain]):
        result = gain(by=3)(Batch.equal(IMAGES, "HW"))
        assert result.is_equal
        assert result.spec == TensorSpec((3, 4), "float64", "HW")
        np.testing.assert_array_equal(result.numpy(), IMAGES * 3)

    @pytest.mark.parametrize("gain", [Gain, GainBatch])
    def test_so_is_a_ragged_one(self, gain: type[Gain]):
        result = gain()(Batch.ragged([np.ones((1, 2)), np.ones((2, 2))]))
        assert result.spec == TensorSpec((None, 2), "float64")
        assert [array.tolist() for array in result.list()] == [[[2, 2]], [[2, 2], [2, 2]]]

    @pytest.mark.parametrize("gain", [Gain, GainBatch])
    def test_an_empty_one_stays_empty(self, gain: type[Gain]):
        result = gain()(Batch.equal(IMAGES[:0]))
        assert result.numpy().shape == (0, 3, 4)
        assert gain()(Batch.ragged([])).list() == []

    def test_objects(self):
        assert ops.map(len, b"four") == 4
        assert ops.map(str.upper, Batch.objects(["a", "b"])).list() == ["A", "B"]

    @pytest.mark.parametrize(
        ("number", "dtype"), [(3, "int64"), (0.5, "float64"), (True, "bool"), (np.uint8(3), "uint8")]
    )
    def test_numbers_are_tensors(self, number: Any, dtype: str):
        seen = []
        ops.map(lambda value: seen.append(value.dtype.name), number)
        assert seen == [dtype]

    def test_several_inputs(self):
        assert Add()(np.ones(2), np.ones(2), np.ones(2)).numpy().tolist() == [3, 3]
        ones = Batch.equal(np.ones((3, 2)))
        assert Add()(ones, ones).numpy().tolist() == [[2, 2]] * 3

    @pytest.mark.parametrize(
        "inputs",
        [
            (Batch.equal(np.ones((3, 2))), Batch.equal(np.ones((4, 2)))),
            (Batch.equal(np.ones((3, 2))), np.ones(2)),
        ],
    )
    def test_inputs_that_do_not_go_together(self, inputs: tuple[Any, ...]):
        with pytest.raises(SpecError, match="the inputs are neither all single samples nor all batches of one length"):
            Add()(*inputs)

    def test_outputs_in_a_tuple_or_by_name(self):
        first, kind = Split()(np.arange(3))
        assert (first, kind) == (0, "Tensor")
        assert Split(named=True)(np.arange(3)) == {"first": 0, "kind": "Tensor"}
        firsts = Split(named=True)(Batch.equal(IMAGES))
        assert list(firsts) == ["first", "kind"]
        np.testing.assert_array_equal(firsts["first"].numpy(), IMAGES[:, 0])
        assert firsts["kind"].list() == ["Tensor", "Tensor"]


class TestArgumentsThatVary:
    @pytest.mark.parametrize("gain", [Gain, GainBatch])
    def test_a_batch_of_them(self, gain: type[Gain]):
        by = Batch.equal(np.array([1.0, 10.0]))
        result = gain(by=by)(Batch.equal(IMAGES))  # type: ignore[arg-type]
        np.testing.assert_array_equal(result.numpy(), IMAGES * [[[1]], [[10]]])

    def test_that_of_one_sample(self):
        for by in (np.float32(3), np.array(3), Tensor(np.array(3.0))):
            assert Gain(by=by)(np.ones(1)).numpy().tolist() == [3]  # type: ignore[arg-type]

    def test_a_random_one(self):
        with eager(seed=1):
            by = ops.random.uniform(low=5, high=6)
            (result,) = Gain(by=by)(np.ones(1)).numpy()
        assert 5 <= result < 6

    def test_another_number_of_them(self):
        with pytest.raises(ArgumentError, match=r"by has 3 entries for 2 sample\(s\)"):
            Gain(by=Batch.equal(np.ones(3)))(Batch.equal(IMAGES))  # type: ignore[arg-type]


class TestRandomNumbers:
    image = np.zeros(1)

    def test_the_same_block_draws_the_same(self):
        runs = []
        for _ in range(2):
            with eager(seed=3):
                runs.append([Noise(size=2)(self.image).numpy().tolist() for _ in range(3)])
        assert runs[0] == runs[1]
        assert len({tuple(numbers) for numbers in runs[0]}) == 3

    def test_another_seed_draws_others(self):
        drawn = []
        for seed in (3, 4):
            with eager(seed=seed):
                drawn.append(Noise()(self.image).numpy().tolist())
        assert drawn[0] != drawn[1]

    def test_calls_of_operators_that_draw_nothing_do_not_count(self):
        drawn = []
        for other in (False, True):
            with eager():
                if other:
                    Gain()(self.image)
                drawn.append(Noise()(self.image).numpy().tolist())
        assert drawn[0] == drawn[1]

    def test_a_batch_draws_what_its_samples_would(self):
        with eager(seed=3):
            single = [Noise()(self.image).numpy().tolist() for _ in range(3)]
        with eager(seed=3):
            assert Noise()(Batch.equal(np.zeros((3, 1)))).numpy().tolist() == single

    def test_a_key_is_shared(self):
        with eager(seed=3):
            first, other = (Noise()(self.image, key=key).numpy() for key in ("a", "b"))
            again = ops.map(lambda value: value, Noise(size=2)(self.image, key="a")).numpy()
        assert first[0] == again[0]
        assert first[0] != other[0]

    def test_outside_of_a_block_they_are_fresh(self):
        assert Noise()(self.image).numpy() != Noise()(self.image).numpy()
        rows = Noise()(Batch.equal(np.zeros((3, 1)))).numpy()
        assert len(set(rows[:, 0])) == 3

    def test_they_may_depend_on_shapes(self):
        assert Corner()(IMAGES[0]).numpy().tolist() == [3, 4]
        ragged = Batch.ragged([np.zeros((1, 2)), np.zeros((5, 6))])
        assert Corner()(ragged).numpy().tolist() == [[1, 2], [5, 6]]

    def test_which_objects_do_not_have(self):
        with pytest.raises(SpecError, match="random numbers that depend on an input's shape need a tensor, not an obj"):
            Corner()(b"encoded")

    def test_a_seed_that_is_none(self):
        with pytest.raises(ArgumentError, match="seed"), eager(seed=-1):
            pass


class TestState:
    @pytest.fixture(autouse=True)
    def events(self) -> list[str]:
        Open.events.clear()
        return Open.events

    def test_outside_of_a_block_it_lives_for_the_call(self, events: list[str]):
        assert Open()() is not Open()()
        assert events == ["open a", "call a", "close a"] * 2

    def test_inside_it_lives_as_long_as_the_block(self, events: list[str]):
        with eager():
            assert Open()() is Open()()
            assert Open(label="b")() is not Open()()
            assert events == ["open a", "call a", "call a", "open b", "call b", "call a"]
        assert events[-2:] == ["close b", "close a"]

    def test_it_is_closed_after_an_error(self, events: list[str]):
        with pytest.raises(ZeroDivisionError), eager():
            Open()()
            raise ZeroDivisionError
        assert events == ["open a", "call a", "close a"]

    def test_of_an_operator_that_cannot_be_hashed(self):
        class Unhashable(Open):
            options: dict[str, int]

        with eager():
            unhashable = Unhashable(options={"a": 1})
            assert unhashable() is unhashable()
            assert unhashable() is not Unhashable(options={"a": 1})()

    def test_blocks_may_be_nested(self, events: list[str]):
        with eager():
            outer = Open()()
            with eager():
                assert Open()() is not outer
            assert Open()() is outer
        assert events.count("close a") == 2

    def test_open_that_is_no_context_manager(self):
        class Wrong(Open):
            def open(self) -> Any:
                return 3

        with pytest.raises(PipeplugError, match=r"Wrong: open\(\) gives 3, which is not a context manager"):
            Wrong()()


class TestErrors:
    def test_those_of_kernels_say_which_and_on_what(self):
        with pytest.raises(ZeroDivisionError) as caught:
            Broken()(np.zeros((2, 3), np.uint8))
        assert caught.value.__notes__ == ["in Broken, called on Tensor(uint8 (2, 3), cpu)"]

    def test_and_in_which_row(self):
        with pytest.raises(ZeroDivisionError) as caught:
            Broken()(Batch.equal(np.zeros((2, 3), np.uint8)))
        assert caught.value.__notes__ == ["in row 0 of the batch", "in Broken, called on Batch(2 x uint8 (3), cpu)"]

    def test_the_first_failure_of_a_batch_kernel(self):
        with pytest.raises(ValueError, match="row 1") as caught:
            Fails()(Batch.equal(np.zeros((2, 3))))
        assert caught.value.__notes__ == ["in Fails, called on Batch(2 x float64 (3), cpu)"]

    def test_those_of_infer_say_where(self):
        with pytest.raises(SpecError, match=rf"Gain at {__file__}:\d+: takes 1 input\(s\) \(image\), got 2"):
            Gain()(IMAGES, IMAGES)

    def test_a_result_that_infer_did_not_promise(self):
        class Wrong(Gain):
            def cpu(self, image: Tensor, context: Context, *, by: float) -> Tensor:
                return image

        for wrong in (IMAGES[0], Batch.equal(IMAGES)):
            with pytest.raises(
                DeclarationError, match=r"infer says float64 \(3, 4\), but the kernel gave int64 \(3, 4\)"
            ):
                Wrong()(wrong)

    def test_a_source(self):
        with pytest.raises(GraphError, match=r"read\.items is a source, which only a pipeline reads; see @pipeline"):
            ops.read.items([1])

    def test_a_device_that_is_not_there(self):
        with pytest.raises(GraphError, match="Gain asks for device 'gpu'; there are 'cpu' and 'cuda:0'"):
            Gain()(IMAGES, device="gpu")

    def test_a_device_without_kernel(self):
        class OnlyCuda(Operator):
            def infer(self, image: TensorSpec) -> TensorSpec:
                return image

            def cuda(self, images: Batch, context: Context) -> Batch:
                return images

        with pytest.raises(GraphError, match="OnlyCuda has no kernel for cpu, only for: cuda"):
            OnlyCuda()(IMAGES)

    def test_a_value_that_outlived_its_pipeline(self):
        kept = []

        @pipeline(batch_size=1)
        def leaking():
            kept.append(ops.read.items([1]))
            return kept[0]

        leaking()
        with pytest.raises(GraphError, match=r"read\.items has no data while the pipeline function is traced"):
            Gain()(kept[0])


class TestAgreement:
    """What is not random is what a pipeline delivers."""

    @pytest.mark.parametrize("gain", [Gain, GainBatch])
    def test_with_samples(self, gain: type[Gain]):
        @pipeline(batch_size=2)
        def gained():
            image, by = ops.read.arrays((IMAGES, np.array([2.5, -1])))
            return gain(by=by)(image)

        expected = gained().samples([0, 1])["0"].numpy()
        by = Batch.equal(np.array([2.5, -1]))
        np.testing.assert_array_equal(gain(by=by)(Batch.equal(IMAGES)).numpy(), expected)  # type: ignore[arg-type]
        for image, factor, row in zip(IMAGES, (2.5, -1), expected, strict=True):
            np.testing.assert_array_equal(gain(by=factor)(image).numpy(), row)

    def test_of_operators_used_within_functions(self):
        @pipeline(batch_size=2)
        def nested():
            return ops.map(lambda image: Gain()(image).numpy(), ops.read.arrays(IMAGES))

        np.testing.assert_array_equal(nested().samples([1])["0"].numpy(), IMAGES[1:] * 2)


def test_specs_of_many_shapes_are_told_apart():
    gain = Gain()
    for size in (*range(300), 3):
        assert gain(np.ones(size)).shape == (size,)


class TestInsideOfKernels:
    """Operators that are called in the functions which a pipeline runs."""

    def through(self, function: Any) -> Any:
        @pipeline(batch_size=3, threads=2)
        def mapped():
            return ops.map(function, ops.read.arrays(np.arange(6.0)))

        with mapped() as batches:
            return np.concatenate([batch["0"].numpy() for batch in batches])

    def test_those_without_random_numbers_compute(self):
        image = np.zeros((4, 4, 3), np.uint8)
        shapes = self.through(lambda _: np.array(ops.image.resize(image, size=(2, 3)).shape))
        assert shapes.tolist() == [[2, 3, 3]] * 6

    def test_random_ones_are_refused_as_they_would_differ_in_every_run(self):
        image = np.zeros((4, 4, 3), np.uint8)
        message = "image.flip draws random numbers, which inside of a function of ops.map, .* apply it in the pipeline"
        with pytest.raises(SampleFailed, match=message):
            self.through(lambda _: ops.image.flip(image))
        mapped = pipeline(batch_size=1)(lambda: ops.map(lambda _: ops.image.flip(image), ops.read.arrays(np.zeros(2))))
        with pytest.raises(SampleFailed, match=message):
            mapped().samples([0])

    def test_unless_they_have_a_seed(self):
        image = np.arange(12, dtype=np.uint8).reshape(2, 2, 3)

        def flipped(number: Any) -> Any:
            with eager(seed=int(number)):
                return ops.image.flip(image).numpy()

        assert np.array_equal(self.through(flipped), self.through(flipped))
