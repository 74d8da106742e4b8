"""A side in a process of its own, where no other side's thread pools, allocator or imports meet it."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.measure import Opening, Side, Turn


class SideError(Exception):
    """A side failed in its process; the message ends with the traceback from there."""


@contextmanager
def in_process(side: Side) -> Iterator[Turn]:
    """The side opened in a new process; a turn runs there while this process waits.

    Raises ImportError when the side lacks a package, SideError when anything else goes wrong.
    """
    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(side.opening, there), name=side.title)
    process.start()
    there.close()
    try:
        _answer(side, here)

        def turn() -> float:
            here.send("turn")
            return float(_answer(side, here))

        yield turn
    finally:
        here.close()
        process.join()


def _answer(side: Side, connection: Any) -> float:
    try:
        answer = connection.recv()
    except EOFError:
        raise SideError(f"the process of {side.title} ended before its turn did") from None
    if isinstance(answer, ImportError):
        raise answer
    if isinstance(answer, str):
        raise SideError(f"{side.title} failed:\n{answer}")
    return float(answer)


def _serve(opening: Opening, connection: Connection[Any, Any]) -> None:
    """Opens the side, then takes a turn for each message, until the other end closes."""
    try:
        with opening() as turn:
            connection.send(0.0)
            while _asked(connection):
                connection.send(turn())
    except ImportError as error:
        connection.send(ImportError(str(error)))
    except Exception:
        connection.send(traceback.format_exc())


def _asked(connection: Connection[Any, Any]) -> bool:
    try:
        connection.recv()
    except EOFError:
        return False
    return True
