"""What makes two pipelines deliver the same samples: the identity that a saved state is checked against."""

from __future__ import annotations

import hashlib
from pathlib import PurePath

from pipeplug.graph.graph import Graph
from pipeplug.operator import Operator, fields_of
from pipeplug.source import Source
from pipeplug.spec import TensorSpec

_PLAIN = (int, float, str, bytes, bool, type(None), TensorSpec)


def fingerprint(graph: Graph, seed: int, length: int | None, content: str = "") -> str:
    """A digest of operators, arguments, seed, and the source's length and content, as far as its reader tells of it.

    Threads, ranks, batch size and memory are no part of it.
    """
    lines = [f"seed {seed}", f"length {length}", f"content {content}"]
    lines += [f"{node.name} = {_stable(node.operator)} of {node.inputs} {node.arguments}" for node in graph.nodes]
    lines += [f"{name}: {ref}" for name, ref in graph.outputs]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _stable(value: object) -> str:
    """A text that is the same in another process."""
    if isinstance(value, Operator):
        apart = {"shard", *(value.located_by if isinstance(value, Source) else ())}
        names = (item.name for item in fields_of(type(value)) if item.name not in apart)
        arguments = ", ".join(f"{name}={_stable(getattr(value, name))}" for name in names)
        return f"{type(value).__name__}({arguments})"
    if isinstance(value, PurePath):
        return repr(str(value))
    if isinstance(value, (tuple, list)):
        return f"({', '.join(_stable(each) for each in value)})"
    if isinstance(value, _PLAIN):
        return repr(value)
    kind = value if callable(value) and hasattr(value, "__qualname__") else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"
