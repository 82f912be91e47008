"""The command line: parses, calls, renders. Nothing here imports torch or TVM: stages run in a worker process."""

from __future__ import annotations

from c7x.cli import making, results, about, vdsp, toolchain, emu  # isort: skip
from c7x.cli.app import app
from c7x.cli.entry import EXIT_BROKEN_PIPE, EXIT_TERMINATED, main, main_inner

#: One module a group of commands. Importing it puts them into ``app``; this is their order in the help.
COMMANDS = (making, results, about, vdsp, toolchain, emu)

__all__ = ["COMMANDS", "EXIT_BROKEN_PIPE", "EXIT_TERMINATED", "app", "main", "main_inner"]
