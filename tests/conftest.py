"""Options of the test run."""

from __future__ import annotations

import signal

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write tests/golden anew from what the compiler generates now, instead of comparing",
    )


def pytest_configure() -> None:
    """A shell starts background jobs with Ctrl-C ignored, and children inherit that: tests of Ctrl-C need it heard."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
