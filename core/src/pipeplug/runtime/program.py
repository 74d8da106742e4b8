"""Compiling a stage: steps over numbered slots, so that a sample costs no look-up by name.

A slot is cleared after its last use: of a chain of kernels only one input and one output are alive in a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pipeplug.graph.graph import Node, Ref
from pipeplug.graph.placement import kind_of
from pipeplug.graph.plan import Stage
from pipeplug.operator import PER_SAMPLE, per_sample_fields
from pipeplug.signature import STATE
from pipeplug.source import IndexedReader, Source

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel of a stage.

    Attributes:
        inputs: slots of the positional inputs.
        keywords: names and slots of the arguments that vary by sample and come from other stages.
        made: those of arguments that this stage makes, which are still in the form of inputs.
        constants: the other keyword arguments.
        refs: the outputs.
        outputs: their slots.
        leaving: for each output its value when others use it, else None.
        used: for each output whether later steps of the stage use it.
        cleared: slots that nobody uses after this step.
    """

    node: Node
    function: Function
    inputs: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    made: tuple[tuple[str, int], ...]
    constants: Mapping[str, object]
    refs: tuple[Ref, ...]
    outputs: tuple[int, ...]
    leaving: tuple[Ref | None, ...]
    used: tuple[bool, ...]
    cleared: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A stage, compiled.

    Attributes:
        number: of the stage.
        lineage: the numbers of the stages that it waits for, directly or not, and its own.
        samples: slots that receive kernel inputs from other stages.
        arguments: slots that receive keyword arguments from other stages.
    """

    number: int
    lineage: frozenset[int]
    steps: tuple[Step, ...]
    slots: int
    samples: tuple[tuple[int, Ref], ...]
    arguments: tuple[tuple[int, Ref], ...]


@dataclass
class _Compiler:
    """Numbers the slots of a stage."""

    stage: Stage
    number: int
    lineage: frozenset[int]
    state: Mapping[str, object]
    reader: object
    slots: dict[tuple[Ref, bool], int] = field(default_factory=dict)

    def program(self) -> Program:
        steps = [self._step(node) for node in self.stage.nodes]
        outside = [(slot, ref, keyword) for (ref, keyword), slot in self.slots.items() if ref in self.stage.inputs]
        return Program(
            number=self.number,
            lineage=self.lineage,
            steps=_with_clearing(steps),
            slots=len(self.slots),
            samples=tuple((slot, ref) for slot, ref, keyword in outside if not keyword),
            arguments=tuple((slot, ref) for slot, ref, keyword in outside if keyword),
        )

    def _slot(self, ref: Ref, keyword: bool = False) -> int:
        # A value of this stage has one slot; one from outside has one for each of the two forms that kernels take.
        outside = ref in self.stage.inputs
        return self.slots.setdefault((ref, keyword and outside), len(self.slots))

    def _step(self, node: Node) -> Step:
        leaving = tuple(ref if ref in self.stage.outputs else None for ref in node.refs)
        return Step(
            node=node,
            function=kernel_of(node, self.reader),
            inputs=tuple(self._slot(ref) for ref in node.inputs),
            keywords=self._keywords(node, inside=False),
            made=self._keywords(node, inside=True),
            constants=constants_of(node, self.state),
            refs=node.refs,
            outputs=tuple(self._slot(ref) for ref in node.refs),
            leaving=leaving,
            used=(),
            cleared=(),
        )

    def _keywords(self, node: Node, *, inside: bool) -> tuple[tuple[str, int], ...]:
        return tuple(
            (name, self._slot(ref, keyword=True))
            for name, ref in node.arguments
            if (ref not in self.stage.inputs) == inside
        )


def compile_stages(stages: Sequence[Stage], state: Mapping[str, object], reader: object) -> tuple[Program, ...]:
    """The programs of a plan's stages; `state` is what the nodes' `open` gave, `reader` what the source reads from.

    A source that is read serially has no steps: whoever reads does it.
    """
    programs: list[Program] = []
    makers: dict[Ref, frozenset[int]] = {}
    for number, stage in enumerate(stages):
        lineage = frozenset({number}).union(*(makers[ref] for ref in stage.inputs))
        makers |= dict.fromkeys(stage.outputs, lineage)
        if isinstance(stage.nodes[0].operator, Source) and not isinstance(reader, IndexedReader):
            programs.append(Program(number, lineage, (), 0, (), ()))
        else:
            programs.append(_Compiler(stage, number, lineage, state, reader).program())
    return tuple(programs)


def kernel_of(node: Node, reader: object) -> Function:
    """The function that runs a node."""
    if isinstance(node.operator, Source):
        assert isinstance(reader, IndexedReader)
        indexed = reader
        return lambda context: indexed[context.index]
    kernel: Function = getattr(node.operator, kind_of(node.device or "cpu"))
    return kernel


def constants_of(node: Node, state: Mapping[str, object]) -> dict[str, object]:
    """The keyword arguments of a node's kernel that are the same for all samples."""
    names = per_sample_fields(type(node.operator)) - {name for name, _ in node.arguments}
    constants = {name: getattr(node.operator, name) for name in sorted(names)}
    constants = {name: value for name, value in constants.items() if value is not PER_SAMPLE}
    if node.name in state:
        constants[STATE] = state[node.name]
    return constants


def _with_clearing(steps: Sequence[Step]) -> tuple[Step, ...]:
    seen: set[int] = set()
    cleared = []
    for step in reversed(steps):
        touched = {*step.inputs, *(slot for _, slot in (*step.keywords, *step.made)), *step.outputs} - seen
        used = tuple(slot in seen for slot in step.outputs)
        cleared.append(replace(step, used=used, cleared=tuple(sorted(touched))))
        seen |= touched
    return tuple(reversed(cleared))
