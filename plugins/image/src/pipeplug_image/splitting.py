"""What the plugin makes of decodes on GPUs: what the CPU prepares of them, and what the GPU then does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeplug import Graph, Node, Operator, Ref, TensorSpec
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode
from pipeplug_image.fused import Fused
from pipeplug_image.fused_cuda import (
    DecodePrepared,
    PrepareCenterCrop,
    PrepareCrop,
    PrepareDecode,
    PrepareRandomCrop,
    PrepareResizedCrop,
)
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop
from pipeplug_image.resize import Resize

_CROPS = (Crop, CenterCrop, RandomCrop, RandomResizedCrop)


def split_decodes(graph: Graph) -> Graph:
    """Divides each decode on a GPU, together with the crop on that GPU that alone uses it.

    A random resized crop becomes the resize of what has been decoded for it.
    """
    for node in graph.nodes:
        source = _encoded(graph, node)
        if source is not None:
            return split_decodes(_split(graph, node, source))
    return graph


def joined(first: str, second: str) -> str:
    """`image.decode+crop` of `image.decode` and `image.crop`."""
    return f"{first}+{second.removeprefix('image.')}"


def _encoded(graph: Graph, node: Node) -> Ref | None:
    """What of the host's a decode on a GPU takes; None of other nodes."""
    if type(node.operator) is not Decode or node.device in (None, "cpu"):
        return None
    source = node.inputs[0]
    while graph.producer(source).operator_name == "to":
        source = graph.producer(source).inputs[0]
    return source if graph.producer(source).device == "cpu" else None


def _split(graph: Graph, node: Node, source: Ref) -> Graph:
    decode, crop = node.operator, _crop_of(graph, node)
    assert isinstance(decode, Decode)
    if crop is None:
        prepare = _preparing(node, source, PrepareDecode(decode=decode))
        return _with(graph, [node], [prepare, _decoding(node, prepare, decode)])
    name, operator_name = joined(node.name, crop.name), joined(node.operator_name, crop.operator_name)
    both = replace(crop, name=name, operator_name=operator_name)
    prepare = _preparing(both, source, _preparation(decode, crop.operator))
    if isinstance(crop.operator, RandomResizedCrop):
        part = _decoding(node, prepare, decode)
        return _with(graph, [node, crop], [prepare, part, _resizing(crop, part, crop.operator)])
    return _with(graph, [node, crop], [prepare, _decoding(both, prepare, decode)])


def _crop_of(graph: Graph, node: Node) -> Node | None:
    """The crop that alone uses a decode, on its device, if it can be decoded in part."""
    user = graph.only_consumer(Ref(node.name))
    if user is None or user.device != node.device or user.inputs != (Ref(node.name),):
        return None
    is_whole = isinstance(node.operator, Decode) and node.operator.reduce == 1
    return user if is_whole and type(user.operator) in _CROPS else None


def _preparation(decode: Decode, crop: Operator) -> Fused:
    if isinstance(crop, RandomResizedCrop):
        return PrepareResizedCrop(decode=decode, crop=crop)
    if isinstance(crop, RandomCrop):
        return PrepareRandomCrop(decode=decode, crop=crop)
    if isinstance(crop, CenterCrop):
        return PrepareCenterCrop(decode=decode, crop=crop)
    assert isinstance(crop, Crop)
    return PrepareCrop(decode=decode, crop=crop, position=crop.position, box=crop.box)


def _preparing(node: Node, source: Ref, operator: Fused) -> Node:
    return replace(
        node,
        name=f"{node.name}.prepare",
        operator=operator,
        operator_name=f"{node.operator_name}.prepare",
        inputs=(source,),
        specs=(TensorSpec.object(),),
        device="cpu",
        reason=operator.reason,
    )


def _decoding(node: Node, prepare: Node, decode: Decode) -> Node:
    operator = DecodePrepared(decode=decode, spec=node.specs[0])
    return replace(node, operator=operator, inputs=(Ref(prepare.name),), arguments=(), reason=operator.reason)


def _resizing(crop: Node, part: Node, operator: RandomResizedCrop) -> Node:
    resize = Resize(size=operator.size, interpolation=operator.interpolation, antialias=operator.antialias)
    reason = "resizes the part that was decoded"
    return replace(crop, operator=resize, inputs=(Ref(part.name),), arguments=(), reason=reason)


def _with(graph: Graph, old: Sequence[Node], new: Sequence[Node]) -> Graph:
    """The graph with new nodes for old ones; the last of each stand for one another."""
    last, gone = {Ref(old[-1].name): Ref(new[-1].name)}, {node.name for node in old}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.name == old[-1].name:
            nodes += new
        elif node.name not in gone:
            nodes.append(node.renamed(last))
    return Graph(tuple(nodes), tuple((name, last.get(ref, ref)) for name, ref in graph.outputs)).pruned()
