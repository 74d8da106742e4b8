"""`pipeplug doctor`: whether the installation and all plugins are sound."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from pipeplug.cli.terminal import show
from pipeplug.plugins.checks import check_installation
from pipeplug.plugins.distributions import installed_distributions
from pipeplug.plugins.hookspecs import Check


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments: none."""


def execute(options: argparse.Namespace) -> int:
    """Shows all checks; the exit status is 1 when any fails."""
    checks = check_installation(installed_distributions())
    show(_tabulate(checks))
    failed = sum(not check.ok for check in checks)
    sys.stdout.write("\n" + (f"{failed} of {len(checks)} checks failed" if failed else "all checks passed") + "\n")
    return 1 if failed else 0


def _tabulate(checks: Sequence[Check]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for check in checks:
        mark = Text("ok", style="green") if check.ok else Text("FAILED", style="bold red")
        table.add_row(mark, check.name, Text(_explain(check)))
    return table


def _explain(check: Check) -> str:
    detail = " ".join(check.detail.split())
    return detail if check.ok or not check.advice else f"{detail}\n-> {check.advice}"
