"""What an exception holds: the frames that it passed, and by them whole batches."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator


def forget_frames(error: BaseException) -> None:
    """Lets go of what the frames of an exception and its causes hold, which may be whole batches."""
    for each in _chain(error):
        traceback.clear_frames(each.__traceback__)


def drop_frames(error: BaseException) -> None:
    """Drops the frames of an exception and its causes, and notes where it was raised.

    Clearing them is not enough for one that outlives its batch: a frame refers to the one that called it, which was
    not over yet.
    """
    here = os.path.dirname(__file__)
    places = [place for place in traceback.extract_tb(error.__traceback__) if not place.filename.startswith(here)]
    if places:
        error.add_note("raised in:\n" + "".join(traceback.format_list(places)).rstrip())
    for each in _chain(error):
        each.__traceback__ = None


def place_of(error: BaseException) -> str | None:
    """`file:line` of where an exception was raised that `drop_frames` has been at; None when it is not known."""
    for note in reversed(getattr(error, "__notes__", ())):
        if places := re.findall(r'File "(.+)", line (\d+)', note):
            return ":".join(places[-1])
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and all that it came from or gathers."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:  # `raise error from error` is its own cause
            seen.add(id(each))
            yield each
            waiting += [each.__cause__, each.__context__, *getattr(each, "exceptions", ())]
