from dataclasses import field

from pipeplug import Context, Operator, PerSample, Tensor, TensorSpec
from pipeplug.description import Argument, describe
from pipeplug.drawing import Uniform


class Paste(Operator):
    """Paste images onto one.

    More words.
    """

    at: tuple[int, int]
    opacity: PerSample[float] = 1.0
    names: tuple[str, ...] = field(default_factory=tuple)
    nothing: str = ""

    def infer(self, image: TensorSpec, *others: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        return image, image

    def cpu(self, image: Tensor, *others: Tensor, context: Context, opacity: float) -> tuple[Tensor, Tensor]:
        return image, image

    def cuda(self, image: Tensor, *others: Tensor, context: Context, opacity: float) -> tuple[Tensor, Tensor]:
        return image, image


class Bare(Operator):
    def infer(self, image):
        return image


def test_a_description():
    description = describe(Paste)
    assert description.summary == "Paste images onto one."
    assert description.doc == "Paste images onto one.\n\nMore words."
    assert description.signature == (
        "(image, *others, at: tuple[int, int], opacity: float = 1.0, names: tuple[str, ...] = (), nothing: str = '')"
    )
    assert description.arguments == (
        Argument("at", "tuple[int, int]", None, True, False),
        Argument("opacity", "float", "1.0", False, True),
        Argument("names", "tuple[str, ...]", "()", False, False),
        Argument("nothing", "str", "''", False, False),
    )
    assert description.inputs == ("image", "*others")
    assert description.outputs == "tuple[pipeplug.spec.TensorSpec, pipeplug.spec.TensorSpec]"
    assert description.devices == ("cpu", "cuda")
    assert description.source.startswith(f"{__file__}:")


def test_an_operator_that_says_little():
    description = describe(Bare)
    assert (description.summary, description.doc) == ("", "")
    assert (description.signature, description.outputs, description.devices) == ("()", "", ("cpu",))


def test_postponed_annotations_are_shown_as_written():
    description = describe(Uniform)
    assert description.outputs == "TensorSpec"
    assert description.signature == "(*, low: float = 0.0, high: float = 1.0)"
