from __future__ import annotations

import gc
import traceback
import weakref
from typing import Any

import numpy as np
import pytest

from pipeplug import Array
from pipeplug.runtime.frames import drop_frames, forget_frames


class Sized(np.ndarray):
    """An array that can be referred to weakly."""


def raise_holding(held: list[Array]) -> None:
    array = np.zeros(3).view(Sized)
    held.append(array)
    raise ValueError(f"with {len(array)}")


def failing(*, cause: bool) -> tuple[BaseException, weakref.ref[Array]]:
    held: list[Array] = []
    try:
        try:
            raise_holding(held)
        except ValueError as error:
            if cause:
                raise KeyError("outer") from error
            raise
    except (KeyError, ValueError) as error:
        alive = weakref.ref(held.pop())
        return error, alive
    raise AssertionError


class TestFrames:
    @pytest.mark.parametrize("cause", [False, True])
    @pytest.mark.parametrize("let_go", [drop_frames, forget_frames])
    def test_let_go_of_what_they_hold(self, cause: bool, let_go: Any):
        error, alive = failing(cause=cause)
        assert alive() is not None
        let_go(error)
        gc.collect()
        assert alive() is None

    def test_dropped_ones_leave_a_note(self):
        error, _ = failing(cause=False)
        drop_frames(error)
        drop_frames(error)  # once for each row of a batch
        assert error.__traceback__ is None
        (note,) = error.__notes__
        assert note.startswith("raised in:\n")
        assert note.endswith('in raise_holding\n    raise ValueError(f"with {len(array)}")')

    def test_forgotten_ones_still_say_where(self):
        error, _ = failing(cause=False)
        forget_frames(error)
        assert "in raise_holding" in "".join(traceback.format_tb(error.__traceback__))

    @pytest.mark.parametrize("let_go", [drop_frames, forget_frames])
    def test_causes_may_go_in_circles(self, let_go: Any):
        error = ValueError()
        error.__cause__ = error
        error.__context__ = other = KeyError()
        other.__context__ = error
        let_go(error)
        assert error.__cause__ is error

    def test_groups_hold_frames_too(self):
        error, alive = failing(cause=True)
        drop_frames(ExceptionGroup("all", [error]))  # type: ignore[type-var]
        gc.collect()
        assert alive() is None
