"""`pipeplug plan`: what a pipeline function says, and what runs."""

from __future__ import annotations

import argparse
import sys

from pipeplug.cli.target import declare_target, open_target
from pipeplug.graph.render import as_mermaid, as_text
from pipeplug.options import PipelineOptions


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    declare_target(parser, declare_flags)


def declare_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mermaid", action="store_true", help="write a Mermaid flowchart")


def execute(options: argparse.Namespace) -> int:
    """Shows the plan; nothing is read but what the source needs to know its samples."""
    with open_target(options, "plan", declare_flags) as target:
        plan = target.pipeline.plan
        if target.flags.mermaid:
            sys.stdout.write(as_mermaid(plan))
        else:
            sys.stdout.write(f"{target.title}: {_describe(target.pipeline.options)}\n\n{as_text(plan)}")
    return 0


def _describe(options: PipelineOptions) -> str:
    threads = f"{options.thread_count} {'thread' if options.thread_count == 1 else 'threads'}"
    limit = f", memory limit {options.memory_limit}" if options.memory_limit is not None else ""
    return f"batches of {options.batch_size}, {threads}, device {options.device}, seed {options.seed}{limit}"
