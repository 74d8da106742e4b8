"""What the plugin makes of decodes on GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeplug import Graph, Ref, TensorSpec, ops, pipeline
from pipeplug_image.decode import Decode
from pipeplug_image.fused_cuda import (
    DecodePrepared,
    PrepareCenterCrop,
    PrepareCrop,
    PrepareDecode,
    PrepareRandomCrop,
    PrepareResizedCrop,
)
from pipeplug_image.resize import Resize
from pipeplug_image.splitting import split_decodes

GPU = "cuda:1"
IMAGE = TensorSpec((None, None, 3), "uint8", "HWC")


def traced(function, items=(b"",)):
    """The graph of a function as it is written, with image operators on a GPU."""

    @pipeline(batch_size=4)
    def whole():
        values = function(ops.read.items(list(items)))
        return values if isinstance(values, dict) else {"out": values}

    return on_gpu(whole)


def on_gpu(function):
    graph = function().plan.traced
    nodes = [
        replace(node, device=GPU if node.name.startswith("image.") and not node.name.endswith(".draw") else "cpu")
        for node in graph.nodes
    ]
    return Graph(tuple(nodes), graph.outputs)


def after(function, **options):
    return split_decodes(traced(function, **options))


def names(graph):
    return [node.name for node in graph.nodes if node.name.startswith("image.")]


def test_a_decode_is_divided_into_what_the_cpu_and_what_the_gpu_does():
    graph = after(ops.image.decode)
    assert names(graph) == ["image.decode.prepare", "image.decode"]
    prepare, decode = graph["image.decode.prepare"], graph["image.decode"]
    assert (prepare.device, decode.device) == ("cpu", GPU)
    assert (prepare.operator_name, decode.operator_name) == ("image.decode.prepare", "image.decode")
    assert prepare.inputs == (Ref("read.items"),)
    assert decode.inputs == (Ref("image.decode.prepare"),)
    assert prepare.operator == PrepareDecode(decode=Decode())
    assert decode.operator == DecodePrepared(decode=Decode(), spec=IMAGE)
    assert (prepare.specs, decode.specs) == ((TensorSpec.object(),), (IMAGE,))
    assert decode.operator.infer(TensorSpec.object()) == IMAGE
    assert prepare.reason == "the CPU finds what the GPU's decoder takes, and decodes the rest"
    assert decode.reason == "the GPU's decoder takes a batch in one call"
    assert graph.outputs == (("out", Ref("image.decode")),)
    assert not decode.operator.is_parallel()
    assert prepare.operator.splittable


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "drawn"),
    [
        ("crop", {"size": (20, 31), "position": (0.9, 0.3)}, PrepareCrop, ()),
        ("crop", {"box": (1, 2, 20, 31)}, PrepareCrop, ()),
        ("center_crop", {"size": (20, 31)}, PrepareCenterCrop, ()),
        ("random_crop", {"size": (20, 31)}, PrepareRandomCrop, ("place",)),
    ],
)
def test_a_crop_becomes_part_of_the_decode(name, arguments, kind, drawn):
    crop = getattr(ops.image, name)
    graph = after(lambda encoded: crop(ops.image.decode(encoded), **arguments))
    both = f"image.decode+{name}"
    assert [each for each in names(graph) if not each.endswith(".draw")] == [f"{both}.prepare", both]
    prepare, decode = graph[f"{both}.prepare"], graph[both]
    assert type(prepare.operator) is kind
    assert prepare.operator.crop == crop.operator(**arguments)
    assert prepare.operator_name == f"{both}.prepare"
    assert tuple(each for each, _ in prepare.arguments) == drawn
    assert decode.arguments == ()
    assert decode.specs == (TensorSpec((20, 31, 3), "uint8", "HWC"),)
    assert decode.operator.spec == decode.specs[0]
    assert (prepare.device, decode.device, decode.operator_name) == ("cpu", GPU, both)
    assert prepare.reason.endswith("; only the part of the picture that the crop needs")
    assert graph.outputs == (("out", Ref(both)),)


def test_arguments_of_a_crop_that_vary_by_sample_go_to_the_cpu():
    @pipeline(batch_size=4)
    def whole():
        encoded, places = ops.read.items([(b"", (0.1, 0.9))], outputs=2)
        return ops.image.crop(ops.image.decode(encoded), size=(20, 31), position=places)

    prepare = split_decodes(on_gpu(whole))["image.decode+crop.prepare"]
    assert [each for each, _ in prepare.arguments] == ["position"]
    assert isinstance(prepare.operator, PrepareCrop)
    assert prepare.operator.crop.varying


def test_a_random_resized_crop_becomes_a_resize_of_what_was_decoded_for_it():
    def recipe(encoded):
        image = ops.image.decode(encoded, mode="gray")
        return ops.image.random_resized_crop(image, size=(20, 31), interpolation="cubic", antialias=False)

    before, graph = traced(recipe), after(recipe)
    prepared = "image.decode+random_resized_crop.prepare"
    assert [each for each in names(graph) if not each.endswith(".draw")] == [
        prepared,
        "image.decode",
        "image.random_resized_crop",
    ]
    prepare, decode, resize = (graph[name] for name in (prepared, "image.decode", "image.random_resized_crop"))
    assert prepare.operator == PrepareResizedCrop(
        decode=Decode(mode="gray"), crop=before["image.random_resized_crop"].operator
    )
    assert prepare.arguments == before["image.random_resized_crop"].arguments
    assert len(prepare.arguments) == 2
    assert decode.specs == (TensorSpec((None, None, 1), "uint8", "HWC"),)
    assert resize.operator == Resize(size=(20, 31), interpolation="cubic", antialias=False)
    assert resize.inputs == (Ref("image.decode"),)
    assert resize.arguments == ()
    assert resize.specs == before["image.random_resized_crop"].specs
    assert resize.operator.infer(decode.specs[0]) == resize.specs[0]
    assert resize.device == GPU
    assert resize.reason == "resizes the part that was decoded"


def test_random_numbers_come_from_the_nodes_that_they_came_from():
    def recipe(encoded):
        image = ops.image.decode(encoded)
        return ops.image.flip(ops.image.random_resized_crop(image, size=(20, 31)))

    before, graph = traced(recipe), after(recipe)
    draws = [node for node in before.nodes if node.name.endswith(".draw")]
    assert len(draws) == 2
    assert all(graph[node.name] == node for node in draws)


def test_what_others_use_is_decoded_whole():
    def recipe(encoded):
        image = ops.image.decode(encoded)
        return {"part": ops.image.center_crop(image, size=(5, 5)), "whole": image}

    graph = after(recipe)
    assert names(graph) == ["image.decode.prepare", "image.decode", "image.center_crop"]
    assert graph.outputs == (("part", Ref("image.center_crop")), ("whole", Ref("image.decode")))


def test_a_reduced_image_is_decoded_whole():
    graph = after(lambda encoded: ops.image.center_crop(ops.image.decode(encoded, reduce=2), size=(5, 5)))
    assert names(graph) == ["image.decode.prepare", "image.decode", "image.center_crop"]


def test_a_crop_elsewhere_is_not_made_part_of_the_decode():
    graph = traced(lambda encoded: ops.image.center_crop(ops.image.decode(encoded), size=(5, 5)))
    elsewhere = [replace(node, device="cuda:0") if "crop" in node.name else node for node in graph.nodes]
    graph = split_decodes(Graph(tuple(elsewhere), graph.outputs))
    assert names(graph) == ["image.decode.prepare", "image.decode", "image.center_crop"]


def test_several_decodes_are_divided():
    def recipe(encoded):
        return {"a": ops.image.decode(encoded), "b": ops.image.decode(encoded, mode="gray")}

    assert names(after(recipe)) == ["image.decode.prepare", "image.decode", "image.decode_2.prepare", "image.decode_2"]


def test_decodes_on_the_cpu_and_of_others_are_left():
    class Other(Decode):
        pass

    graph = traced(lambda encoded: Other()(encoded))
    assert split_decodes(graph) == graph
    graph = traced(ops.image.decode)
    graph = Graph(tuple(replace(node, device="cpu") for node in graph.nodes), graph.outputs)
    assert split_decodes(graph) == graph


def test_files_that_were_copied_to_the_gpu_are_taken_from_the_host():
    data = [np.zeros(5, np.uint8)]

    def recipe(encoded):
        return ops.image.decode(encoded.to("cuda:1"))

    graph = after(recipe, items=data)
    assert [node.name for node in graph.nodes] == ["read.items", "image.decode.prepare", "image.decode"]
    assert graph["image.decode.prepare"].inputs == (Ref("read.items"),)


def test_the_pipeline_has_the_halves(tmp_path):
    @pipeline(batch_size=4, device="cuda:0")
    def whole(root):
        return {"image": ops.image.decode(ops.read.files(root)[0])}

    (tmp_path / "a.jpg").write_bytes(b"")
    graph = whole(str(tmp_path)).plan.graph
    assert names(graph) == ["image.decode.prepare", "image.decode"]
    assert [graph[name].device for name in names(graph)] == ["cpu", "cuda:0"]
