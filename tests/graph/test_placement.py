import pytest

from pipeplug import Batch, Context, Graph, GraphError, Operator, Source, Tensor, TensorSpec
from pipeplug.graph.placement import device_named, kind_of, place
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


class TestNamesOfDevices:
    def test_the_first_gpu_has_a_short_one(self):
        assert [device_named(name, "here") for name in ("cpu", "cuda", "cuda:3")] == ["cpu", "cuda:0", "cuda:3"]

    @pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", ""])
    def test_others_are_refused(self, name):
        with pytest.raises(GraphError, match=f"here asks for device '{name}'; there are 'cpu' and 'cuda:0'"):
            device_named(name, "here")

    def test_of_a_call_and_of_a_copy(self):
        with pytest.raises(GraphError) as caught:
            place(trace(lambda: Both()(Origin()(), device="gpu")), "cpu")
        assert str(caught.value).startswith(f"Both at {__file__}:")
        with pytest.raises(GraphError, match=r"Origin\.to at .* asks for device 'tpu'"):
            place(trace(lambda: Origin()().to("tpu")), "cpu")

    def test_kinds(self):
        assert (kind_of("cuda:1"), kind_of("cpu")) == ("cuda", "cpu")


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


def edges(graph: Graph) -> dict[str, list[str]]:
    return {node.name: [str(ref) for ref in node.sources] for node in graph}


class TestWithAGpu:
    def test_what_has_a_kernel_runs_there_and_what_it_takes_is_copied(self):
        placed = place(trace(lambda: Both()(OnlyCpu()(Origin()()))), "cuda")
        assert devices(placed) == {"Origin": "cpu", "OnlyCpu": "cpu", "OnlyCpu.to": "cuda:0", "Both": "cuda:0"}
        assert edges(placed)["Both"] == ["OnlyCpu.to"]

    def test_a_value_is_copied_once(self):
        def twice():
            image = OnlyCpu()(Origin()())
            return {"a": Both()(image), "b": Both()(image)}

        placed = place(trace(twice), "cuda:0")
        assert [name for name in devices(placed) if name.endswith(".to")] == ["OnlyCpu.to"]

    def test_the_cpu_takes_nothing_from_it_unasked(self):
        with pytest.raises(GraphError) as caught:
            place(trace(lambda: OnlyCpu()(Both()(Origin()()))), "cuda:0")
        assert str(caught.value).startswith(f"OnlyCpu at {__file__}:")
        assert "runs on the CPU, but Both is on cuda:0: write .to('cpu') behind it" in str(caught.value)

    def test_there_and_back(self):
        placed = place(trace(lambda: Both()(OnlyCpu()(Both()(Origin()()).to("cpu")))), "cuda:0")
        assert edges(placed) == {
            "Origin": [],
            "Origin.to": ["Origin"],
            "Both": ["Origin.to"],
            "Both.to": ["Both"],
            "OnlyCpu": ["Both.to"],
            "OnlyCpu.to": ["OnlyCpu"],
            "Both_2": ["OnlyCpu.to"],
        }
        assert devices(placed)["Both.to"] == "cpu"
        assert devices(placed)["Both_2"] == "cuda:0"

    def test_what_follows_a_copy_runs_where_the_copy_is(self):
        placed = place(trace(lambda: Both()(Origin()().to("cuda:1"))), "cuda:0")
        assert devices(placed) == {"Origin": "cpu", "Origin.to": "cuda:1", "Both": "cuda:1", "Both.to": "cuda:0"}

    def test_numbers_are_delivered_on_the_pipelines_device_unless_they_were_sent_elsewhere(self):
        def both():
            origin = Origin()()
            return {"here": origin, "there": Both()(origin).to("cpu")}

        placed = place(trace(both), "cuda:0")
        assert [(name, str(ref)) for name, ref in placed.outputs] == [("here", "Origin.to"), ("there", "Both.to")]

    def test_objects_stay(self):
        class Bytes(Source):
            def infer(self) -> TensorSpec:
                return TensorSpec.object()

        placed = place(trace(lambda: Both()(Bytes()())), "cuda:0")
        assert devices(placed) == {"Bytes": "cpu", "Both": "cuda:0"}

    def test_arguments_that_vary_by_sample_come_from_the_host(self):
        class Drawn(Operator):
            def infer(self, image: TensorSpec) -> TensorSpec:
                return image

            def draw(self, random, image):
                return {"amount": random.uniform()}

            def cuda(self, image: Batch, context: Context, *, amount: object) -> Batch:
                return image

        placed = place(trace(lambda: Drawn()(Both()(Origin()()))), "cuda:0")
        assert devices(placed)["Drawn.draw"] == "cpu"
        assert edges(placed)["Both.shape"] == ["Both"], "the shape is known on the host"
        assert devices(placed)["Both.shape"] == "cpu"

    def test_the_one_that_a_call_asks_for(self):
        placed = place(trace(lambda: Both()(Origin()(), device="cpu")), "cuda:0")
        assert devices(placed) == {"Origin": "cpu", "Both": "cpu", "Both.to": "cuda:0"}
        with pytest.raises(GraphError, match="has no kernel for cuda:0, only for: cpu"):
            place(trace(lambda: OnlyCpu()(Origin()(), device="cuda:0")), "cpu")

    def test_placing_again_changes_nothing(self):
        once = place(trace(lambda: Both()(OnlyCpu()(Both()(Origin()()).to("cpu")))), "cuda:0")
        assert place(once, "cuda:0") == once
