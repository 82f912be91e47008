"""PyTorch warns about its own inside (deprecated classes it still uses, ...): nothing the user could act on."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr


@contextmanager
def quiet() -> Iterator[None]:
    """Run a call into PyTorch without the warnings it raises about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def silent() -> Iterator[None]:
    """Hold back what torch logs and prints while it traces or loads: stacks and graphs of errors that it raises anyway.

    What a model's own forward() logs and writes to standard error is held back, too.
    """
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(before)
