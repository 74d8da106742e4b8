"""pipeplug decodes, loads and augments images, video and sound for machine learning.

The names below are loaded when they are first used, so that `import pipeplug` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeplug.batch import Batch
    from pipeplug.contexts import Context, CudaContext
    from pipeplug.cuda import CudaKernel, CudaSource
    from pipeplug.errors import (
        ArgumentError,
        DeclarationError,
        DecodeError,
        DeviceError,
        GraphError,
        MemoryLimitError,
        OperatorConflictError,
        PipeplugError,
        PluginError,
        SampleFailed,
        SourceError,
        SpecError,
        StateError,
        TooManyFailuresError,
        UnknownOperatorError,
    )
    from pipeplug.graph.graph import Graph, Node, Ref
    from pipeplug.operator import Operator, PerSample, Value
    from pipeplug.ops import ops
    from pipeplug.options import PipelineOptions
    from pipeplug.pipeline import Pipeline, PipelineFunction, PipelineState, pipeline
    from pipeplug.plugins.hookspecs import Check, hookimpl
    from pipeplug.runtime.eager import eager
    from pipeplug.runtime.outputs import Outputs
    from pipeplug.runtime.randomness import Draws, Shapes
    from pipeplug.runtime.statistics import MemoryUse, OperatorStatistics, Statistics
    from pipeplug.source import IndexedReader, Source
    from pipeplug.spec import TensorSpec
    from pipeplug.tensor import Array, Tensor

__version__ = "0.1.0"

_HOMES = {
    "pipeplug.contexts": ("Context", "CudaContext"),
    "pipeplug.cuda": ("CudaKernel", "CudaSource"),
    "pipeplug.errors": (
        "ArgumentError", "DeclarationError", "DecodeError", "DeviceError", "GraphError", "MemoryLimitError",
        "OperatorConflictError", "PipeplugError", "PluginError", "SampleFailed", "SourceError", "SpecError",
        "StateError", "TooManyFailuresError", "UnknownOperatorError",
    ),
    "pipeplug.graph.graph": ("Graph", "Node", "Ref"),
    "pipeplug.operator": ("Operator", "PerSample", "Value"),
    "pipeplug.ops": ("ops",),
    "pipeplug.options": ("PipelineOptions",),
    "pipeplug.pipeline": ("Pipeline", "PipelineFunction", "PipelineState", "pipeline"),
    "pipeplug.plugins.hookspecs": ("Check", "hookimpl"),
    "pipeplug.runtime.eager": ("eager",),
    "pipeplug.runtime.outputs": ("Outputs",),
    "pipeplug.runtime.randomness": ("Draws", "Shapes"),
    "pipeplug.runtime.statistics": ("MemoryUse", "OperatorStatistics", "Statistics"),
    "pipeplug.source": ("IndexedReader", "Source"),
    "pipeplug.spec": ("TensorSpec",),
    "pipeplug.batch": ("Batch",),
    "pipeplug.tensor": ("Array", "Tensor"),
}  # fmt: skip

__all__ = [
    "ArgumentError", "Array", "Batch", "Check", "Context", "CudaContext", "CudaKernel", "CudaSource",
    "DeclarationError", "DecodeError", "DeviceError", "Draws", "Graph", "GraphError", "IndexedReader",
    "MemoryLimitError", "MemoryUse", "Node", "Operator", "OperatorConflictError", "OperatorStatistics", "Outputs",
    "PerSample", "Pipeline", "PipelineFunction", "PipelineOptions", "PipelineState", "PipeplugError", "PluginError",
    "Ref", "SampleFailed", "Shapes", "Source", "SourceError", "SpecError", "StateError", "Statistics", "Tensor",
    "TensorSpec", "TooManyFailuresError", "UnknownOperatorError", "Value", "eager", "hookimpl", "ops", "pipeline",
]  # fmt: skip


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            found = getattr(importlib.import_module(module), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'pipeplug' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(ModuleType):
    """Keeps `pipeplug.ops` and `pipeplug.pipeline` what they are when the modules of those names are imported."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in __all__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
