"""Running loadable modules (``lib0.out``) on a C7x DSP, or on the virtual DSP.

    from tvm.contrib.c7x import C7xVirtualMachine

    with C7xVirtualMachine("lib0.out") as vm:
        out = vm["main"](tvm.nd.array(x))

Works beside Apache TVM, whose tensors it then takes and gives, and without TVM, with a small ``NDArray`` of its own.
Where TVM has no module ``tvm.nd``, importing this package adds one with ``array`` and ``empty``.
"""

from __future__ import annotations

from tvm.contrib.c7x._arrays import ExpiredError, NDArray, install_nd
from tvm.contrib.c7x.c7x_runtime import C7xError, C7xVirtualMachine

__all__ = ["C7xError", "C7xVirtualMachine", "ExpiredError", "NDArray"]

install_nd()
