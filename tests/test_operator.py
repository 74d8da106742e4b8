from typing import Any

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
    Tensor,
    TensorSpec,
)
from pipeplug.graph.trace import Tracer
from pipeplug.operator import (
    PER_SAMPLE,
    Value,
    calling,
    current_caller,
    drawn_arguments,
    field_types,
    per_sample_fields,
    shapes_drawn_from,
)
from pipeplug.runtime.eager import SINGLE_CALLS


class Rotate(Operator):
    """Rotates."""

    angle: PerSample[float]
    center: PerSample[tuple[float, float]] = (0.5, 0.5)
    fill: int = 0

    def check(self) -> None:
        if self.fill < 0:
            raise ArgumentError("fill is at least 0")

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context, *, angle: float, center: tuple[float, float]) -> Tensor:
        return Tensor(image.numpy() + np.float64(angle))


class Cut(Operator):
    def infer(self, image: TensorSpec, mask: TensorSpec) -> TensorSpec:
        return image

    def draw(self, random, mask):
        return {"box": random.uniform(size=4)}

    def cpu(self, image: Tensor, mask: Tensor, context: Context, *, box: float) -> Tensor:
        return image


class TestValuesOfOperators:
    def test_it_is_a_frozen_value(self):
        assert Rotate(angle=1) == Rotate(angle=1.0)
        assert hash(Rotate(angle=1)) == hash(Rotate(angle=1.0))
        assert Rotate(angle=1) != Rotate(angle=2)
        assert Rotate(angle=1).angle.__class__ is float
        with pytest.raises(AttributeError):
            Rotate(angle=1).fill = 3  # type: ignore[misc]

    def test_its_arguments_come_by_name(self):
        with pytest.raises(TypeError):
            Rotate(3)  # type: ignore[call-arg]

    def test_what_varies_is_kept_apart(self):
        angles = Batch.equal(np.arange(3.0))
        rotate = Rotate(angle=angles)  # type: ignore[arg-type]
        assert vars(rotate)["angle"] is PER_SAMPLE
        assert dict(rotate.varying) == {"angle": angles}
        assert Rotate(angle=1).varying == {}
        assert repr(rotate) == "Rotate(angle=per sample, center=(0.5, 0.5), fill=0)"

    def test_an_ill_typed_argument(self):
        with pytest.raises(ArgumentError) as caught:
            Rotate(angle="left")  # type: ignore[arg-type]
        assert str(caught.value) == "Rotate(angle=…) takes float, got 'left'"

    def test_arguments_that_do_not_fit_together(self):
        with pytest.raises(ArgumentError, match="fill is at least 0"):
            Rotate(angle=1, fill=-1)

    def test_one_for_all_samples_cannot_vary(self):
        with pytest.raises(ArgumentError) as caught:
            Rotate(angle=1, fill=Batch.equal(np.arange(3)))  # type: ignore[arg-type]
        assert str(caught.value) == "Rotate(fill=…) is one for all samples, got Batch(3 x int64 (), cpu)"

    def test_a_subclass_is_another_operator(self):
        class Base(Operator):
            pass

        Base.registered_name = "image.base"

        class Derived(Base):
            pass

        assert Base().title() == "image.base"
        assert Derived().title() == "Derived"


class TestWhatTheClassSays:
    def test_fields(self):
        assert list(field_types(Rotate)) == ["angle", "center", "fill"]
        assert per_sample_fields(Rotate) == {"angle", "center"}

    def test_what_is_drawn(self):
        assert drawn_arguments(Cut) == ("box",)
        assert drawn_arguments(Rotate) == ()
        assert shapes_drawn_from(Cut) == (1,)

    def test_draw_asks_for_an_input_that_there_is_not(self):
        class Wrong(Operator):
            def infer(self, image: TensorSpec) -> TensorSpec:
                return image

            def draw(self, random, picture):
                return {"box": random.uniform()}

            def cpu(self, image: Tensor, context: Context, *, box: float) -> Tensor:
                return image

        with pytest.raises(DeclarationError) as caught:
            shapes_drawn_from(Wrong)
        assert str(caught.value).startswith(f"{__file__}:")
        assert str(caught.value).endswith("draw asks for the shapes of picture, but the kernel's inputs are image")


REFUSED: dict[str, list[Any]] = {
    "its truth": [bool, lambda value: value and 1, lambda value: not value],
    "its elements": [iter, list, lambda value: value[0], lambda value: [*value]],
    "its length": [len],
    "its numbers": [
        np.asarray,
        np.mean,
        lambda value: value == 3,
        lambda value: value != 3,
        lambda value: value < 3,
        lambda value: value >= 3,
        lambda value: value + 1,
        lambda value: 1 - value,
        lambda value: value / 255,
        lambda value: 2 * value,
        lambda value: value @ value,
        lambda value: -value,
        abs,
        float,
        int,
    ],
    ".shape": [lambda value: value.shape],
    ".numpy": [lambda value: value.numpy()],
}


class TestValuesWhileTracing:
    value = Value(Tracer(), "image.decode", 0, TensorSpec())

    @pytest.mark.parametrize(("what", "use"), [(what, use) for what, uses in REFUSED.items() for use in uses])
    def test_they_have_no_data(self, what: str, use):
        with pytest.raises(GraphError) as caught:
            use(self.value)
        assert str(caught.value).startswith(f"{__file__}:") or "numpy" in str(caught.value)
        assert str(caught.value).endswith(
            f"image.decode has no data while the pipeline function is traced, so {what} cannot be used; write the "
            "Python code as a function and apply it with ops.map(function, value)"
        )

    def test_they_can_be_looked_at_and_kept(self):
        assert repr(self.value) == "Value(image.decode, ? (…))"
        assert {self.value: 1}[self.value] == 1
        assert not hasattr(self.value, "shape")
        assert not hasattr(self.value, "__array_interface__")


def test_who_listens_to_calls():
    assert current_caller() is SINGLE_CALLS
    tracer = Tracer()
    with calling(tracer):
        assert current_caller() is tracer
    assert current_caller() is SINGLE_CALLS
