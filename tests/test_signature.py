"""Declarations that cannot work are refused when the class is made, or first used, and say where they are."""

import inspect
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

from pipeplug import Batch, Context, DeclarationError, Operator, PerSample, Tensor, TensorSpec
from pipeplug.signature import declaration_place, user_location


def refused(declare: Callable[[], object]) -> tuple[str, str]:
    """Line and text of the error that a declaration raises, after checking that it is in this file."""
    with pytest.raises(DeclarationError) as caught:
        declare()
    place, text = str(caught.value).split(": ", 1)
    file, line = place.rsplit(":", 1)
    assert file == __file__
    return inspect.getsource(inspect.getmodule(refused)).splitlines()[int(line) - 1].strip(), text  # type: ignore[arg-type]


def test_no_infer():
    def declare():
        class Blur(Operator):
            def cpu(self, image: Tensor, context: Context) -> Tensor:
                return image

    assert refused(declare) == ("class Blur(Operator):", "Blur has a kernel but no infer(self, …) -> TensorSpec")


def test_no_context():
    def declare():
        class Blur(Operator):
            def infer(self, image: TensorSpec) -> TensorSpec:
                return image

            def cpu(self, image: Tensor) -> Tensor:
                return image

    assert refused(declare) == ("def cpu(self, image: Tensor) -> Tensor:", "Blur.cpu needs a parameter `context`")


def test_no_annotation():
    def declare():
        class Blur(Operator):
            def infer(self, image: TensorSpec) -> TensorSpec:
                return image

            def cuda(self, images, context: Context) -> Tensor:
                return images

    line, text = refused(declare)
    assert line == "def cuda(self, images, context: Context) -> Tensor:"
    assert text == "parameter images of Blur.cuda has no annotation"


def test_any_keyword():
    def declare():
        class Blur(Operator):
            def infer(self, image: TensorSpec) -> TensorSpec:
                return image

            def cpu(self, image: Tensor, context: Context, **others: object) -> Tensor:
                return image

    assert refused(declare)[1] == "Blur.cpu takes **others; name each keyword that it takes"


def test_a_mutable_default():
    def declare():
        class Blur(Operator):
            sizes: list[int] = []  # noqa: RUF012 - what is wrong here

    line, text = refused(declare)
    assert line == "class Blur(Operator):"
    assert text == "mutable default <class 'list'> for field sizes is not allowed: use default_factory"


def test_an_annotation_that_has_no_meaning():
    class Blur(Operator):
        size: "Missing"  # type: ignore[name-defined]  # noqa: F821 - what is wrong here

    line, text = refused(lambda: Blur(size=3))
    assert line == "class Blur(Operator):"
    assert text == (
        "an annotation of Blur cannot be evaluated (name 'Missing' is not defined); "
        "import that name at run time, not only for type checking"
    )


class Keywords(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return image


def test_a_keyword_that_nobody_gives():
    class Blur(Keywords):
        def cpu(self, image: Tensor, context: Context, *, box: float) -> Tensor:
            return image

    line, text = refused(lambda: Blur()(np.zeros(3)))
    assert line == "def cpu(self, image: Tensor, context: Context, *, box: float) -> Tensor:"
    assert text == "Blur.cpu takes `box`, which is no PerSample field, and there is no `draw`"


def test_state_without_open():
    class Blur(Keywords):
        def cpu(self, image: Tensor, context: Context, *, state: object) -> Tensor:
            return image

    assert refused(Blur)[1] == "Blur.cpu takes `state`, which a method `open(self)` would give"


def test_open_without_state():
    class Blur(Keywords):
        def open(self):
            return nullcontext()

        def cpu(self, image: Tensor, context: Context) -> Tensor:
            return image

    assert refused(Blur)[1] == "Blur.cpu needs a keyword-only parameter `state`: `open` gives it"


def test_a_field_that_the_kernel_does_not_take():
    class Blur(Keywords):
        sigma: PerSample[float]

        def cpu(self, image: Tensor, context: Context) -> Tensor:
            return image

    assert refused(lambda: Blur(sigma=1))[1] == (
        "Blur.cpu needs a keyword-only parameter `sigma`: it is a PerSample field"
    )


def test_a_base_may_leave_draw_to_its_subclasses():
    class Drawn(Keywords):
        def cpu(self, image: Tensor, context: Context, *, number: float) -> Tensor:
            return Tensor(image.numpy() + number)

    class One(Drawn):
        def draw(self, random):
            return {"number": np.ones(random.rows)}

    assert One()(np.zeros(2)).numpy().tolist() == [1, 1]


class TestWhatSignaturesSay:
    def test_granularity_goes_by_the_annotations(self):
        class Samples(Keywords):
            def cpu(self, image: "Tensor | BatchLike", context: Context) -> Tensor:  # type: ignore[name-defined] # noqa: F821
                raise NotImplementedError

        class Batches(Keywords):
            def cpu(self, images: Batch, context: Context) -> Batch:
                return images

        class Makes(Operator):
            def infer(self) -> TensorSpec:
                return TensorSpec()

            def cpu(self, context: Context) -> dict[str, Batch]:
                raise NotImplementedError

        assert not Samples.kernels["cpu"].batched
        assert Batches.kernels["cpu"].batched
        assert Makes.kernels["cpu"].batched

    def test_inputs_and_keywords(self):
        class Many(Operator):
            weight: PerSample[float]

            def infer(self, first: TensorSpec, *others: TensorSpec) -> TensorSpec:
                return first

            def draw(self, random):
                return {"box": random.uniform()}

            def cpu(self, first: Tensor, *others: Tensor, context: Context, weight: float, box: float) -> Tensor:
                return first

            def cuda(self, first: Batch, context: Context, *, weight: float, box: float) -> Batch:
                return first

        cpu, cuda = Many.kernels["cpu"], Many.kernels["cuda"]
        assert (cpu.inputs, cpu.variadic, cpu.keywords, cpu.batched) == (
            ("first", "others"),
            True,
            ("weight", "box"),
            False,
        )
        assert (cuda.inputs, cuda.variadic, cuda.keywords, cuda.batched) == (("first",), False, ("weight", "box"), True)


def test_places():
    assert declaration_place(Keywords).startswith(f"{__file__}:")
    assert declaration_place(Keywords, "infer").startswith(f"{__file__}:")
    assert declaration_place(type("Made", (), {"__module__": "nowhere"})) == "nowhere"
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    assert user_location() == f"{__file__}:{line}"
