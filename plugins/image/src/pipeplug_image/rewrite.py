"""What the plugin makes of a graph of image operators: the same pixels with less work."""

from __future__ import annotations

from dataclasses import replace

from pipeplug import Graph, Node, Operator, Ref
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode
from pipeplug_image.flip import Flip
from pipeplug_image.fused import (
    DecodeCenterCrop,
    DecodeCrop,
    DecodeRandomCrop,
    DecodeResizedCrop,
    FlipNormalize,
)
from pipeplug_image.normalize import Normalize
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop


def rewrite(graph: Graph) -> Graph:
    """Fuses each decode with the crop that alone uses it, and each mirroring with the normalisation after it."""
    for node in graph.nodes:
        user = _cpu_user(graph, node)
        if user is None:
            continue
        operator = fused(node.operator, user.operator)
        if operator is not None:
            merged = _merged(node, user, operator)
            return rewrite(graph.with_node(merged, {Ref(user.name): Ref(merged.name)}))
    return graph


def fused(first: Operator, second: Operator) -> Operator | None:
    """The operator that does the work of both; None where there is none."""
    if isinstance(first, Decode) and first.reduce == 1:
        if isinstance(second, RandomResizedCrop):
            return DecodeResizedCrop(decode=first, crop=second)
        if isinstance(second, Crop):
            return DecodeCrop(decode=first, crop=second, position=second.position)
        if isinstance(second, CenterCrop):
            return DecodeCenterCrop(decode=first, crop=second)
        if isinstance(second, RandomCrop):
            return DecodeRandomCrop(decode=first, crop=second)
    if isinstance(first, Flip) and first.direction == "horizontal" and isinstance(second, Normalize):
        return FlipNormalize(flip=first, normalize=second)
    return None


_ONE_KERNEL = "mirrors and normalises in one kernel"
_DECODES_A_PART = "decodes only the part of the picture that the crop needs"


def _cpu_user(graph: Graph, node: Node) -> Node | None:
    """The node whose input alone uses a CPU node's single output, on the CPU too."""
    if node.device != "cpu" or len(node.specs) != 1:
        return None
    user = graph.only_consumer(Ref(node.name))
    return user if user is not None and user.device == "cpu" and user.inputs == (Ref(node.name),) else None


def _merged(first: Node, second: Node, operator: Operator) -> Node:
    return replace(
        second,
        name=_joined(first.name, second.name),
        operator=operator,
        operator_name=_joined(first.operator_name, second.operator_name),
        inputs=first.inputs,
        arguments=(*first.arguments, *second.arguments),
        reason=_ONE_KERNEL if isinstance(operator, FlipNormalize) else _DECODES_A_PART,
    )


def _joined(first: str, second: str) -> str:
    """`image.decode+crop` of `image.decode` and `image.crop`."""
    return f"{first}+{second.removeprefix('image.')}"
