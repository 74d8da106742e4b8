import sys
from importlib import metadata

import numpy as np
import pytest

from pipeplug import (
    ArgumentError,
    Batch,
    DeclarationError,
    GraphError,
    Operator,
    OperatorConflictError,
    PerSample,
    UnknownOperatorError,
    pipeline,
)
from pipeplug.ops import Namespace, Operators, bind, operator_call

SOURCE = '''
from pipeplug import Context, Operator, PerSample, Source, Tensor, TensorSpec

class Gain(Operator):
    """Multiply by a number."""
    by: float
    plus: PerSample[float] = 0.0

    def infer(self, image: TensorSpec) -> TensorSpec:
        return image.with_dtype("float64")

    def cpu(self, image: Tensor, context: Context, *, plus: float) -> Tensor:
        return Tensor(image.numpy() * self.by + plus)

class Exact(Operator):
    value: bool | float | tuple[int | float, ...]

    def infer(self) -> TensorSpec:
        return TensorSpec()

    def cpu(self, context: Context) -> object:
        return self.value

class Named(Operator):
    name: str

class Numbers(Source):
    count: int

    def infer(self) -> TensorSpec:
        return TensorSpec((1,), "int64")

    def reader(self):
        import numpy as np
        return np.arange(self.count)[:, None]

Plain = int
'''

NAMES = ("acme.gain", "acme.exact", "acme.named", "acme.numbers", "acme.plain", "zoo.gain")


@pytest.fixture
def ops(site) -> Operators:
    """The operators of a registry in which nothing is installed but what stands above."""
    site.write("acme_operators", SOURCE)
    targets = {name: f"acme_operators:{name.partition('.')[2].title()}" for name in NAMES}
    site.add("acme", "2.5", operators=targets)
    registry = site.registry()
    return Operators(lambda: registry)


class TestLookingAround:
    def test_namespaces(self, ops: Operators):
        assert dir(ops) == ["acme", "map", "zoo"]

    def test_operators(self, ops: Operators):
        assert dir(ops.acme) == ["exact", "gain", "named", "numbers", "plain"]
        assert repr(ops.zoo) == "<operators zoo.gain>"

    def test_it_imports_nothing(self, ops: Operators):
        assert isinstance(ops.acme, Namespace)
        dir(ops.acme)
        assert "acme_operators" not in sys.modules

    def test_an_operator(self, ops: Operators):
        gain = ops.acme.gain
        assert gain.__name__ == "acme.gain"
        assert gain.__doc__ == "Multiply by a number."
        assert repr(gain) == "<operator acme.gain(image, *, by: float, plus: float = 0.0)>"

    def test_what_was_looked_up_is_kept(self, ops: Operators):
        assert ops.acme is ops.acme
        assert ops.acme.gain is ops.acme.gain

    def test_probes_of_python_and_notebooks_find_nothing(self, ops: Operators):
        for name in ("__wrapped__", "_repr_html_", "_ipython_display_"):
            assert not hasattr(ops, name)
            assert not hasattr(ops.acme, name)


class TestUnknownNames:
    def message(self, look) -> str:
        with pytest.raises(UnknownOperatorError) as caught:
            look()
        assert isinstance(caught.value, AttributeError)
        return str(caught.value)

    def test_an_operator(self, ops: Operators):
        assert self.message(lambda: ops.acme.gian) == "there is no operator 'acme.gian'; did you mean acme.gain?"

    def test_a_namespace(self, ops: Operators):
        assert self.message(lambda: ops.acne.gain) == "there are no operators 'acne'; did you mean ops.acme?"
        assert self.message(lambda: ops.nothing) == "there are no operators 'nothing'; there are map, acme, zoo"

    def test_an_operator_without_its_namespace(self, ops: Operators):
        assert (
            self.message(lambda: ops.gain)
            == "there are no operators 'gain'; did you mean ops.acme.gain or ops.zoo.gain?"
        )

    def test_a_plugin_of_ours_that_is_installed_and_empty(self, ops: Operators):
        message = self.message(lambda: ops.image.resize)
        assert message.startswith(
            "there are no image operators; pipeplug-image 0.1.0 is installed and does not offer it"
        )

    def test_a_plugin_of_ours_that_is_not_installed(self, ops: Operators, monkeypatch: pytest.MonkeyPatch):
        def missing(name: str) -> None:
            raise metadata.PackageNotFoundError(name)

        monkeypatch.setattr(metadata, "distribution", missing)
        expected = "there are no image operators; image operators come with `pip install pipeplug-image`"
        assert self.message(lambda: ops.image.resize) == expected

    def test_with_plugins_installed(self):
        from pipeplug import ops

        assert self.message(lambda: ops.image.nope).startswith("there is no operator 'image.nope'; ")
        assert "did you mean image.resize" in self.message(lambda: ops.image.resise)


def test_a_conflict_names_both(site):
    site.add("acme", "2.5", operators={"image.blur": "acme:Blur"})
    site.add("zeta", "0.2", operators={"image.blur": "zeta:Blur"})
    registry = site.registry()
    ops = Operators(lambda: registry)
    assert dir(ops.image) == ["blur"]
    with pytest.raises(OperatorConflictError, match=r"image\.blur is offered by .* and .*; uninstall all but one"):
        _ = ops.image.blur


class TestEntryPointsThatAreWrong:
    def test_no_operator(self, ops: Operators):
        with pytest.raises(DeclarationError) as caught:
            _ = ops.acme.plain
        assert str(caught.value) == (
            "acme_operators:Plain, the entry point of acme.plain, is <class 'int'>, not a subclass of Operator"
        )

    def test_a_field_that_no_call_could_give(self, ops: Operators):
        with pytest.raises(
            DeclarationError, match=r"acme_operators\.py:\d+: acme\.named has a field 'name', which calls"
        ):
            _ = ops.acme.named


class TestCalls:
    def test_they_compute(self, ops: Operators):
        assert ops.acme.gain(np.array([1, 2]), by=3, plus=1).numpy().tolist() == [4, 7]

    def test_arguments_are_checked(self, ops: Operators):
        with pytest.raises(ArgumentError, match=r"^acme\.gain has no argument 'bye'; it has by, plus$"):
            ops.acme.gain(np.ones(2), bye=1)
        with pytest.raises(ArgumentError, match=r"^acme\.gain needs the argument by: float$"):
            ops.acme.gain(np.ones(2))
        with pytest.raises(ArgumentError, match=r"^acme\.gain: Gain\(by=…\) takes float, got 'x'$"):
            ops.acme.gain(np.ones(2), by="x")

    def test_arguments_that_are_equal_are_told_apart(self, ops: Operators):
        values = [1.0, True, 1.0, False, 0.0, (1, 2), (1.0, 2), (1, 2), [1, 2]]
        got = [ops.acme.exact(value=value) for value in values]
        assert [repr(value) for value in got] == [repr(tuple(v) if isinstance(v, list) else v) for v in values]
        with pytest.raises(ArgumentError, match=r"got \(True, 2\)"):
            ops.acme.exact(value=(True, 2))

    def test_arguments_without_hash(self, ops: Operators):
        assert ops.acme.exact(value=np.array([3, 4])) == (3, 4)
        assert ops.acme.exact(value=[5]) == (5,)

    def test_many_arguments(self, ops: Operators):
        assert [ops.acme.exact(value=float(number)) for number in range(300)] == list(range(300))

    def test_operators_of_one_call_are_kept(self, ops: Operators):
        gain = ops.acme.gain
        assert gain._bind({"by": 3}) is gain._bind({"by": 3})
        assert gain._bind({"by": 3}) is not gain._bind({"by": 3.5})

    def test_sources_are_read_by_pipelines(self, ops: Operators):
        with pytest.raises(GraphError, match=r"acme\.numbers is a source, which only a pipeline reads; see @pipeline"):
            ops.acme.numbers(3)

        @pipeline(batch_size=2)
        def numbers():
            return ops.acme.gain(ops.acme.numbers(3), by=2, name="twice")

        assert numbers().samples([2])["0"].numpy().tolist() == [[4]]

    def test_a_source_needs_its_arguments(self, ops: Operators):
        with pytest.raises(ArgumentError, match=r"acme\.numbers needs the argument count: int"):
            ops.acme.numbers()

    def test_the_registered_name_is_the_title(self, ops: Operators):
        assert ops.acme.gain._bind({"by": 1}).title() == "acme.gain"


def test_operator_call(ops: Operators, site):
    assert operator_call(site.registry(), "acme.gain")(np.ones(1), by=2).numpy().tolist() == [2]


class Rotate(Operator):
    angle: PerSample[float]
    center: PerSample[tuple[float, float]] = (0.5, 0.5)
    fill: int = 0

    def check(self) -> None:
        if self.fill < 0:
            raise ArgumentError("fill is at least 0")


class Nothing(Operator):
    pass


class TestBinding:
    def test_arguments(self):
        bound = bind(Rotate, "image.rotate", {"angle": np.float32(0.5), "center": np.array([0, 1])})
        assert bound == Rotate(angle=0.5, center=(0.0, 1.0))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"angel": 1}, "image.rotate has no argument 'angel'; it has angle, center, fill"),
            ({"fill": 1}, "image.rotate needs the argument angle: float"),
            ({"angle": "left"}, "image.rotate: Rotate(angle=…) takes float, got 'left'"),
            ({"angle": 1, "center": [1]}, "image.rotate: Rotate(center=…) takes tuple[float, float], got [1]"),
            ({"angle": 1, "fill": -1}, "image.rotate: fill is at least 0"),
            ({"angle": 1, "fill": Batch.objects([])}, "image.rotate: Rotate(fill=…) is one for all samples, got Batch"),
        ],
    )
    def test_arguments_that_do_not_fit(self, arguments: dict[str, object], message: str):
        with pytest.raises(ArgumentError) as caught:
            bind(Rotate, "image.rotate", arguments)
        assert str(caught.value).startswith(message)

    def test_an_operator_without_arguments(self):
        with pytest.raises(ArgumentError, match="nothing has no argument 'x'; it has none"):
            bind(Nothing, "nothing", {"x": 1})
