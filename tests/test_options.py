import os
from typing import Any

import numpy as np
import pytest

from pipeplug import ArgumentError, PipelineOptions, ops, pipeline


def test_defaults():
    options = PipelineOptions(batch_size=8)
    assert (options.device, options.seed, options.prefetch) == ("cpu", 0, 2)
    assert (options.last_batch, options.on_error, options.max_failures) == ("keep", "raise", None)
    assert options.memory_limits == {}


def test_threads():
    assert PipelineOptions(batch_size=8, threads=3).thread_count == 3
    assert PipelineOptions(batch_size=8).thread_count == len(os.sched_getaffinity(0))


def test_threads_where_affinity_is_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert PipelineOptions(batch_size=8).thread_count == 7


def test_memory():
    assert PipelineOptions(batch_size=8, memory_limit="2GiB").memory_limits == {"cpu": 2 * 1024**3}
    assert PipelineOptions(batch_size=8, memory_limit=4096).memory_limits == {"cpu": 4096}


def test_numpy_numbers_are_numbers():
    assert PipelineOptions(batch_size=np.int64(8)) == PipelineOptions(batch_size=8)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "pipeline option batch_size is at least 1, got 0"),
        ({"batch_size": True}, "pipeline option batch_size takes int, got True"),
        ({"batch_size": 8.0}, "pipeline option batch_size takes int, got 8.0"),
        ({"threads": 0}, "pipeline option threads is at least 1, got 0"),
        ({"prefetch": 0}, "pipeline option prefetch is at least 1, got 0"),
        ({"seed": -1}, "pipeline option seed is at least 0, got -1"),
        ({"seed": 2**64}, f"pipeline option seed is less than 2**64, got {2**64}"),
        ({"max_failures": -1}, "pipeline option max_failures is at least 0, got -1"),
        ({"last_batch": "drpo"}, "pipeline option last_batch takes 'keep' | 'drop' | 'pad', got 'drpo'"),
        ({"on_error": "ignore"}, "pipeline option on_error takes 'raise' | 'skip' | 'replace', got 'ignore'"),
        ({"memory_limit": 1.5}, "pipeline option memory_limit takes int | str | Mapping | None, got 1.5"),
        (
            {"memory_limit": "much"},
            '\'much\' is not a size in bytes; write a whole number, or one such as "512MB" or "2GiB"',
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError) as caught:
        PipelineOptions(**{"batch_size": 8, **options})
    assert str(caught.value) == message


class TestChanges:
    def test_some_are_changed(self):
        changed = PipelineOptions(batch_size=8, seed=3).changed({"threads": 2})
        assert changed == PipelineOptions(batch_size=8, seed=3, threads=2)

    def test_one_that_there_is_not(self):
        with pytest.raises(ArgumentError) as caught:
            PipelineOptions(batch_size=8).changed({"thread": 2})  # type: ignore[typeddict-unknown-key]
        assert str(caught.value) == (
            "a pipeline has no option 'thread'; it has batch_size, device, last_batch, max_failures, "
            "memory_limit, on_error, prefetch, seed, threads"
        )


class TestTheDecorator:
    def test_it_checks_its_options(self):
        with pytest.raises(ArgumentError, match="a pipeline has no option 'thread'"):
            pipeline(batch_size=8, thread=2)  # type: ignore[call-arg]
        with pytest.raises(ArgumentError, match="pipeline option batch_size is at least 1, got 0"):
            pipeline(batch_size=0)

    def test_it_needs_a_batch_size(self):
        with pytest.raises(
            ArgumentError, match=r"write @pipeline\(batch_size=…\) with the number of samples in a batch"
        ):

            @pipeline  # type: ignore[arg-type]
            def train():
                return ops.read.items([1])

    def test_using_changes_options_and_keeps_the_rest(self):
        @pipeline(batch_size=8, seed=3)
        def train():
            """Trains."""
            return ops.read.items([1])

        changed = train.using(batch_size=2, threads=1)
        assert changed.options == PipelineOptions(batch_size=2, seed=3, threads=1)
        assert train.options == PipelineOptions(batch_size=8, seed=3)
        assert (changed.__name__, changed.__doc__) == ("train", "Trains.")
        with pytest.raises(ArgumentError, match="a pipeline has no option 'bach_size'"):
            train.using(bach_size=2)  # type: ignore[call-arg]
