"""An open pipeline: its memory, the state of its operators, its reader, and its compiled stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Self

from pipeplug.errors import PipeplugError
from pipeplug.graph.graph import Node
from pipeplug.graph.plan import Plan
from pipeplug.runtime.memory import Memory
from pipeplug.runtime.program import Program, compile_stages
from pipeplug.runtime.statistics import Counters
from pipeplug.source import Reader


class Session:
    """What lives as long as a pipeline's `with` block.

    A reader that is a context manager is entered and left, unless another session, which has entered it, has `lent` it.
    """

    def __init__(
        self, plan: Plan, reader: Reader, *, seed: int, memory_limits: Mapping[str, int], lent: bool = False
    ) -> None:
        self.plan = plan
        self.reader = reader
        self.seed = seed
        self.memory = Memory(memory_limits, plan.devices)
        self.counters = Counters(tuple(node.name for stage in plan.stages for node in stage.nodes))
        self.programs: Sequence[Program] = ()
        self._lent = lent
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.callback(self.memory.close)
            if isinstance(self.reader, AbstractContextManager) and not self._lent:
                opening.enter_context(self.reader)
            state = self._open_operators(opening)
            self.programs = compile_stages(self.plan.stages, state, self.reader)
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.programs = ()
        self._open.close()

    def _open_operators(self, opening: ExitStack) -> Mapping[str, object]:
        state = {}
        for node in self.plan.graph.nodes:
            if hasattr(node.operator, "open"):
                try:
                    state[node.name] = opening.enter_context(open_operator(node))
                except Exception as error:
                    error.add_note(f"in open of {node.name}, called at {node.location}")
                    raise
        return state


def open_operator(node: Node) -> AbstractContextManager[object]:
    """The context manager that gives an operator's state; its errors name the node."""
    operator: Any = node.operator
    manager = operator.open()
    if not isinstance(manager, AbstractContextManager):
        raise PipeplugError(f"{node.name}: open() gives {manager!r}, which is not a context manager")
    return manager
