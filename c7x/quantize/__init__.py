"""Quantisation with PT2E. Needs torch and torchao, so only worker processes and users of the quantizer import it."""

from __future__ import annotations

import logging


def _import_torchao() -> None:
    """Import torchao without what it logs about GPU libraries it cannot load and about PyTorch's own inside."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401
    finally:
        logging.disable(previous)


_import_torchao()
