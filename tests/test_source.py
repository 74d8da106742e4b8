from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, DeclarationError, Source, TensorSpec, pipeline
from pipeplug.source import IndexedReader, origin_of, positional_arguments


class Numbers(AbstractContextManager["Numbers"]):
    """Counts, and notes when it is entered and left."""

    def __init__(self, count: int, events: list[str]) -> None:
        self.length = count
        self.events = events

    def __enter__(self) -> "Numbers":
        self.events.append("enter")
        return self

    def __exit__(self, *_: object) -> None:
        self.events.append("exit")

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[int, str]:
        self.events.append(f"read {index}")
        return index, f"item {index}"

    def origin(self, index: int) -> str:
        return f"number {index}"


class Counting(Source):
    count: int
    events: Any = None

    def infer(self) -> dict[str, TensorSpec]:
        return {"number": TensorSpec((), "int64"), "text": TensorSpec.object()}

    def reader(self) -> Any:
        return IndexedPairs(self.count) if self.events is None else NamedNumbers(self.count, self.events)


class NamedNumbers(Numbers):
    def __getitem__(self, index: int) -> Any:
        number, text = super().__getitem__(index)
        return {"number": number, "text": text}


class IndexedPairs(Sequence[Any]):
    def __init__(self, count: int) -> None:
        self.length = count

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return {"text": str(index), "number": index}


class Serial(Source):
    parallel = False

    def infer(self) -> TensorSpec:
        return TensorSpec((), "int64")

    def reader(self) -> Iterator[int]:
        return iter(range(5))


@pipeline(batch_size=2, threads=1)
def counting(count: int, events: Any = None, **options: Any):
    return Counting(count=count, events=events, **options)()


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"shard": (2, 2)}, "shard=(2, 2) names rank 2 of 2; ranks count from 0"),
            ({"shard": (-1, 2)}, "shard=(-1, 2) names rank -1 of 2; ranks count from 0"),
            ({"shuffle": True, "sampler": range}, "a sampler gives the order itself; leave out shuffle=True"),
            ({"shuffle": 1}, "Counting(shuffle=…) takes bool, got 1"),
            ({"sampler": [2, 1]}, "Counting(sampler=…) takes Callable | None, got [2, 1]"),
        ],
    )
    def test_those_that_all_sources_have(self, options: dict[str, Any], message: str):
        with pytest.raises(ArgumentError) as caught:
            Counting(count=3, **options)
        assert str(caught.value) == message

    def test_their_own_come_by_position_as_well(self):
        placed = positional_arguments(Counting, "read.numbers", (3,), {"shuffle": True})
        assert placed == {"count": 3, "shuffle": True}

    def test_too_many_by_position(self):
        with pytest.raises(ArgumentError) as caught:
            positional_arguments(Counting, "read.numbers", (3, None, True), {})
        assert str(caught.value) == "read.numbers takes 2 arguments by position (count, events), got 3"

    def test_one_twice(self):
        with pytest.raises(ArgumentError, match=r"read\.numbers got count twice, by position and by name"):
            positional_arguments(Counting, "read.numbers", (3,), {"count": 4})


class TestReaders:
    def test_one_that_is_a_context_manager_is_entered_and_left(self):
        events: list[str] = []
        made = counting(3, events)
        assert events == []
        with made as batches:
            assert events == ["enter"]
            numbers = [batch["number"].numpy().tolist() for batch in batches]
        assert numbers == [[0, 1], [2]]
        assert sorted(events[1:-1]) == ["read 0", "read 1", "read 2"]
        assert events[-1] == "exit"

    def test_it_is_left_after_an_error_as_well(self):
        events: list[str] = []
        with pytest.raises(KeyError), counting(3, events):
            raise KeyError
        assert events == ["enter", "exit"]

    def test_it_is_entered_for_samples_too(self):
        events: list[str] = []
        assert counting(3, events).samples([1])["text"].list() == ["item 1"]
        assert events == ["enter", "read 1", "exit"]

    def test_items_by_name_come_in_any_order(self):
        sampled = counting(3).samples([2, 0])
        assert (sampled["number"].numpy().tolist(), sampled["text"].list()) == ([2, 0], ["2", "0"])

    def test_a_sampler_gives_the_order(self):
        with counting(4, sampler=lambda epoch: [3, epoch, 3]) as batches:
            epochs = [np.concatenate([batch["number"].numpy() for batch in batches]).tolist() for _ in range(2)]
        assert epochs == [[3, 0, 3], [3, 1, 3]]

    def test_one_without_length_is_read_as_it_comes(self):
        @pipeline(batch_size=2, threads=2)
        def serial():
            return Serial()()

        with serial() as batches:
            assert [batch["0"].numpy().tolist() for batch in batches] == [[0, 1], [2, 3], [4]]

    def test_where_a_sample_comes_from(self):
        assert origin_of(Numbers(3, []), 2) == "number 2"
        assert origin_of([1, 2, 3], 2) == "item 2"
        assert isinstance(Numbers(3, []), IndexedReader)


class TestDeclarations:
    def test_a_source_without_reader(self):
        class Nothing(Source):
            def infer(self) -> TensorSpec:
                return TensorSpec()

        with pytest.raises(DeclarationError) as caught:
            Nothing().reader()
        assert str(caught.value) == "Nothing has no reader(self), which gives what the samples are read from"

    def test_a_source_without_infer(self):
        class Nothing(Source):
            pass

        with pytest.raises(DeclarationError, match=r"Nothing at .*: Nothing has no infer\(self, …\) -> TensorSpec"):
            pipeline(batch_size=2)(lambda: Nothing()())()

    def test_a_serial_reader_of_a_parallel_source(self):
        class Wrong(Serial):
            parallel = True

        with pytest.raises(DeclarationError, match=r"declare it: Wrong\.parallel = False"):
            pipeline(batch_size=2)(lambda: Wrong()())()

    def test_a_serial_source_cannot_be_shuffled(self):
        with pytest.raises(ArgumentError, match="an iterable without a length is read as it comes: no shuffle"):
            pipeline(batch_size=2)(lambda: Serial(shuffle=True)())()
