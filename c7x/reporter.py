"""How a stage speaks while it works: lines for people, never results."""

from __future__ import annotations


class Reporter:
    """Takes what a stage has to say; this base says nothing, the CLI and the worker process have their own."""

    def stage(self, name: str) -> None:
        """A stage begins."""

    def info(self, text: str) -> None:
        """Something worth a line."""

    def warn(self, text: str) -> None:
        """Something the user should know although the work goes on."""

    def progress(self, text: str) -> None:
        """What is being done right now; may be shown for a moment only."""


#: For callers that do not care.
SILENT = Reporter()
