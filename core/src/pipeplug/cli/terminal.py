"""How commands write what is laid out in columns."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

WIDE = 10_000


def show(table: Table) -> None:
    """Writes a table: as wide as the terminal, or a line a row and without colour when a file or a program reads it."""
    console = Console(markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        console.print(table)
        return
    console.width = WIDE
    with console.capture() as captured:
        console.print(table)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
