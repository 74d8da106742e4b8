import re

import pytest

from pipeplug import ArgumentError, Context, DeclarationError, Operator, Source, SpecError, Tensor, TensorSpec
from pipeplug.graph.inference import infer, infer_call, infers_shape

IMAGE = TensorSpec((None, None, 3), "uint8", "HWC")


class Infers(Operator):
    """Infers whatever it is told."""

    result: object = IMAGE

    def infer(self, image: TensorSpec) -> object:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return image


class Halve(Infers):
    def infer(self, image: TensorSpec) -> TensorSpec:
        if image.shape is None:
            raise SpecError("needs a shape")
        height, width = (None if size is None else size // 2 for size in image.shape[:2])
        return image.with_shape((height, width, 3))


class Several(Infers):
    def infer(self, image: TensorSpec) -> dict[str, TensorSpec]:
        return {"known": image, "unknown": TensorSpec()}


class Joins(Operator):
    def infer(self, first: TensorSpec, *others: TensorSpec) -> TensorSpec:
        return first

    def cpu(self, first: Tensor, *others: Tensor, context: Context) -> Tensor:
        return first


class Origin(Source):
    def infer(self) -> TensorSpec:
        return IMAGE


class TestResults:
    def test_one_output(self):
        assert infer(Infers(), [IMAGE]) == ((IMAGE,), None)

    def test_several(self):
        assert infer(Infers(result=(IMAGE, TensorSpec())), [IMAGE]) == ((IMAGE, TensorSpec()), ())
        assert infer(Infers(result={"a": IMAGE}), [IMAGE]) == ((IMAGE,), ("a",))
        assert infer(Infers(result=()), [IMAGE]) == ((), ())

    @pytest.mark.parametrize("result", [None, [IMAGE], (IMAGE, None), {"a": (1, 2)}, "uint8"])
    def test_anything_else(self, result: object):
        message = f"Infers.infer gives a TensorSpec, or a tuple or dict of them, not {result!r:.80}"
        with pytest.raises(DeclarationError, match=re.escape(message)):
            infer(Infers(result=result), [IMAGE])

    def test_nothing_to_ask(self):
        with pytest.raises(DeclarationError, match=r"Operator has no infer\(self, …\) -> TensorSpec"):
            infer(Operator(), [])


class TestCalls:
    def refused(self, operator: Operator, *inputs: TensorSpec) -> Exception:
        with pytest.raises(Exception) as caught:
            infer_call(operator, "image.op", "train.py:7", inputs)
        return caught.value

    @pytest.mark.parametrize("kind", [SpecError, DeclarationError])
    def test_errors_name_the_call(self, kind: type[Exception]):
        error = self.refused(Infers(result=kind("needs a layout with C")), IMAGE)
        assert type(error) is kind
        assert str(error) == "image.op at train.py:7: needs a layout with C"

    def test_other_errors_of_ours_are_of_the_spec(self):
        error = self.refused(Infers(result=ArgumentError("too large")), IMAGE)
        assert isinstance(error, SpecError)

    def test_other_errors_get_a_note(self):
        error = self.refused(Infers(result=ZeroDivisionError()), IMAGE)
        assert isinstance(error, ZeroDivisionError)
        assert error.__notes__ == ["in infer of image.op at train.py:7, for inputs uint8 (?, ?, 3) HWC"]

    @pytest.mark.parametrize(
        ("operator", "count", "message"),
        [
            (Infers(), 0, "image.op at train.py:7: takes 1 input(s) (image), got 0"),
            (Infers(), 2, "image.op at train.py:7: takes 1 input(s) (image), got 2"),
            (Joins(), 0, "image.op at train.py:7: takes at least 1 input(s) (first, others), got 0"),
            (Origin(), 1, "image.op at train.py:7: a source takes arguments and no inputs, got 1"),
        ],
    )
    def test_the_number_of_inputs(self, operator: Operator, count: int, message: str):
        error = self.refused(operator, *[IMAGE] * count)
        assert isinstance(error, SpecError)
        assert str(error) == message

    def test_any_number_of_inputs(self):
        for count in (1, 2, 5):
            assert infer_call(Joins(), "join", "", [IMAGE] * count) == ((IMAGE,), None)


class TestShapesFromShapes:
    def test_when_they_are_enough(self):
        assert infers_shape(Halve(), [IMAGE], 0)
        assert infers_shape(Several(), [IMAGE], 0)
        assert not infers_shape(Several(), [IMAGE], 1)

    @pytest.mark.parametrize("spec", [TensorSpec(None, "uint8"), TensorSpec((None, 3)), TensorSpec.object()])
    def test_when_the_number_of_dimensions_or_the_dtype_is_not_known(self, spec: TensorSpec):
        assert not infers_shape(Halve(), [spec], 0)

    @pytest.mark.parametrize("error", [SpecError("too small"), ZeroDivisionError()])
    def test_when_infer_refuses_the_probe(self, error: Exception):
        assert not infers_shape(Infers(result=error), [IMAGE], 0)
