import pytest

from pipeplug import Batch, Context, Graph, GraphError, Operator, Source, Tensor, TensorSpec
from pipeplug.graph import placement
from pipeplug.graph.placement import check_device, kind_of, place
from pipeplug.graph.trace import trace


class Origin(Source):
    def infer(self) -> TensorSpec:
        return TensorSpec()


class Both(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return image

    def cuda(self, images: Batch, context: Context) -> Batch:
        return images


class OnlyCpu(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cpu(self, image: Tensor, context: Context) -> Tensor:
        return image


class OnlyCuda(Operator):
    def infer(self, image: TensorSpec) -> TensorSpec:
        return image

    def cuda(self, images: Batch, context: Context) -> Batch:
        return images


def devices(graph: Graph) -> dict[str, str | None]:
    return {node.name: node.device for node in graph}


def test_everything_runs_on_the_cpu():
    assert devices(place(trace(lambda: Both()(OnlyCpu()(Origin()()))), "cpu")) == {
        "Origin": "cpu",
        "OnlyCpu": "cpu",
        "Both": "cpu",
    }


def test_copies_to_where_a_value_is_already_are_left_out():
    def copied():
        image = OnlyCpu()(Origin()()).to("cpu")
        return {"copy": image, "image": Both()(image.to("cpu")).to("cpu")}

    placed = place(trace(copied), "cpu")
    assert devices(placed) == {"Origin": "cpu", "OnlyCpu": "cpu", "Both": "cpu"}
    assert [(name, str(ref)) for name, ref in placed.outputs] == [("copy", "OnlyCpu"), ("image", "Both")]


class TestDevicesThatAreNotThere:
    def test_of_the_pipeline(self):
        with pytest.raises(GraphError) as caught:
            place(trace(lambda: Both()(Origin()())), "cuda:0")
        assert str(caught.value) == (
            "the pipeline asks for device 'cuda:0'; this version of pipeplug runs on 'cpu' only"
        )

    def test_of_a_call(self):
        with pytest.raises(GraphError) as caught:
            place(trace(lambda: Both()(Origin()(), device="cuda:0")), "cpu")
        assert str(caught.value).startswith(f"Both at {__file__}:")
        assert "asks for device 'cuda:0'; this version of pipeplug runs on 'cpu' only" in str(caught.value)

    def test_of_a_copy(self):
        with pytest.raises(GraphError, match=r"Origin\.to at .* asks for device 'cuda:1'"):
            place(trace(lambda: Origin()().to("cuda:1")), "cpu")

    def test_that_nobody_knows(self):
        with pytest.raises(GraphError, match="here asks for device 'gpu'"):
            check_device("gpu", "here")


def test_a_device_without_kernel():
    with pytest.raises(GraphError) as caught:
        place(trace(lambda: OnlyCuda()(Origin()())), "cpu")
    assert str(caught.value).startswith(f"OnlyCuda at {__file__}:")
    assert str(caught.value).endswith("has no kernel for cpu, only for: cuda")


def test_an_operator_without_kernels():
    class Nothing(Operator):
        def infer(self, image: TensorSpec) -> TensorSpec:
            return image

    with pytest.raises(GraphError, match="has no kernel for cpu, only for: nothing"):
        place(trace(lambda: Nothing()(Origin()())), "cpu")


class TestWithAGpu:
    """The rules as they are where there is a device to choose."""

    @pytest.fixture(autouse=True)
    def gpu(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(placement, "check_device", lambda device, who: None)

    def test_the_pipelines_device_if_there_is_a_kernel(self):
        placed = place(trace(lambda: Both()(OnlyCpu()(Origin()()))), "cuda:0")
        assert devices(placed) == {"Origin": "cpu", "OnlyCpu": "cpu", "Both": "cuda:0"}

    def test_the_one_that_a_call_asks_for(self):
        placed = place(trace(lambda: Both()(Origin()(), device="cpu")), "cuda:0")
        assert devices(placed) == {"Origin": "cpu", "Both": "cpu"}
        with pytest.raises(GraphError, match="has no kernel for cuda:0, only for: cpu"):
            place(trace(lambda: OnlyCpu()(Origin()(), device="cuda:0")), "cpu")

    def test_kinds(self):
        assert (kind_of("cuda:1"), kind_of("cpu")) == ("cuda", "cpu")
