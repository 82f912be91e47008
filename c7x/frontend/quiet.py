"""PyTorch warns about its own inside (deprecated classes it still uses, ...): nothing the user could act on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Run a call into PyTorch without the warnings it raises about itself."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
