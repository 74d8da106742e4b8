"""What the plugin makes of a graph of image operators: the same pixels with less work."""

from __future__ import annotations

from dataclasses import replace

from pipeplug import Graph, Node, Operator, Ref
from pipeplug_image.center_crop import CenterCrop
from pipeplug_image.crop import Crop
from pipeplug_image.decode import Decode
from pipeplug_image.flip import Direction, Flip
from pipeplug_image.fused import (
    DecodeCenterCrop,
    DecodeCrop,
    DecodeRandomCrop,
    DecodeResizedCrop,
    DecodeResizedCropNormalize,
    FlipNormalize,
    Fused,
    ResizedCropNormalize,
    ResizeNormalize,
)
from pipeplug_image.normalize import Normalize
from pipeplug_image.random_crop import RandomCrop
from pipeplug_image.random_resized_crop import RandomResizedCrop
from pipeplug_image.resize import Resize
from pipeplug_image.splitting import joined, split_decodes


def rewrite(graph: Graph) -> Graph:
    """Fuses each decode with the crop that alone uses it, and each normalisation with what comes before it."""
    graph = split_decodes(graph)
    for node in graph.nodes:
        user = _user(graph, node)
        if user is None:
            continue
        operator = fused(node.operator, user.operator)
        if operator is not None and (node.device or "cpu").partition(":")[0] in operator.devices():
            merged = _merged(node, user, operator)
            return rewrite(graph.with_node(merged, {Ref(user.name): Ref(merged.name)}))
    return graph


def fused(first: Operator, second: Operator) -> Fused | None:
    """The operator that does the work of both; None where there is none, as for a subclass, whose work is its own."""
    if type(first) is Decode:
        return _decoding_part(first, second) if first.reduce == 1 else None
    if type(second) is Normalize:
        return _normalizing(first, second, "horizontal")
    if type(second) is FlipNormalize and type(first) is not Flip:  # two flips are not one
        return _normalizing(first, second.normalize, second.flip.direction)
    return None


def _decoding_part(decode: Decode, crop: Operator) -> Fused | None:
    if type(crop) is RandomResizedCrop:
        return DecodeResizedCrop(decode=decode, crop=crop)
    if type(crop) is Crop:
        return DecodeCrop(decode=decode, crop=crop, position=crop.position, box=crop.box)
    if type(crop) is CenterCrop:
        return DecodeCenterCrop(decode=decode, crop=crop)
    if type(crop) is RandomCrop:
        return DecodeRandomCrop(decode=decode, crop=crop)
    return None


def _normalizing(first: Operator, normalize: Normalize, direction: Direction) -> Fused | None:
    if type(first) is Flip:
        return FlipNormalize(flip=first, normalize=normalize)
    if type(first) is Resize:
        return ResizeNormalize(resize=first, normalize=normalize, direction=direction)
    if type(first) is RandomResizedCrop:
        return ResizedCropNormalize(crop=first, normalize=normalize, direction=direction)
    if type(first) is DecodeResizedCrop and first.channels:
        return DecodeResizedCropNormalize(decode=first, normalize=normalize, direction=direction)
    return None


def _user(graph: Graph, node: Node) -> Node | None:
    """The node whose input alone uses a node's single output, on the same device."""
    if len(node.specs) != 1:
        return None
    user = graph.only_consumer(Ref(node.name))
    return user if user is not None and user.device == node.device and user.inputs == (Ref(node.name),) else None


def _merged(first: Node, second: Node, operator: Fused) -> Node:
    return replace(
        second,
        name=joined(first.name, second.name),
        operator=operator,
        operator_name=joined(first.operator_name, second.operator_name),
        inputs=first.inputs,
        arguments=(*first.arguments, *second.arguments),
        reason=operator.reason,
    )
