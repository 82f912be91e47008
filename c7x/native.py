"""Where the C and C++ sources of the product lie: ``native/`` in a source checkout, ``c7x/_native`` when installed."""

from __future__ import annotations

from pathlib import Path

from c7x.errors import DependencyError


def native_dir() -> Path:
    """The folder that holds ``include``, ``runtime``, ``kernels``.

    Raises:
        DependencyError: neither place exists, so the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "_native", package.parent / "native"):
        if (folder / "include" / "c7x_model.h").is_file():
            return folder
    raise DependencyError(
        "the native sources of c7x are missing",
        cause="the package was copied without its data files",
        hint="install c7x again with pip, or work from a complete checkout",
    )
