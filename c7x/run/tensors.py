"""What goes into a run and comes out of it: a model's inputs and outputs as io.json describes them, and their files.

The same for every place a model runs: ``cg_dsp``, the virtual DSP, a board.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from c7x.errors import FormatError, RunError, UsageError, WorkspaceError
from c7x.tensorfile import read_tensors, write_tensors
from c7x.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

INPUT_SUFFIXES = (".npy", ".npz", ".bin")
OUTPUT_SUFFIXES = (".npz", ".npy", ".bin")


@dataclass(frozen=True, kw_only=True)
class TensorSpec:
    """One input or output in io.json: ``dtype`` is a NumPy name, ``shape`` is static."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A run about to begin: the build directory, what runs, its inputs as it takes them, its outputs as described."""

    ws: Workspace
    artefact: Path
    inputs: list[np.ndarray]
    output_specs: list[TensorSpec]


def prepare(
    where: Workspace | str | os.PathLike[str],
    artefact: str,
    inputs: Sequence[np.ndarray],
    *,
    repeat: int,
    warmup: int,
) -> Prepared:
    """What every place checks before it runs the ``artefact`` of a build directory.

    Raises:
        UsageError: ``repeat`` is below 1 or ``warmup`` below 0.
        WorkspaceError: the artefact or io.json is missing. RunError: an input does not fit.
    """
    if repeat < 1 or warmup < 0:
        raise UsageError("a model runs at least once, after no or some runs to warm up", hint="--repeat 10")
    ws = where if isinstance(where, Workspace) else Workspace(where)
    path = ws.require(artefact)
    input_specs, output_specs = read_specs(ws)
    return Prepared(ws=ws, artefact=path, inputs=check_inputs(input_specs, inputs), output_specs=output_specs)


def read_specs(ws: Workspace) -> tuple[list[TensorSpec], list[TensorSpec]]:
    """Inputs and outputs of io.json (WorkspaceError when it is missing or damaged)."""
    content = ws.read_json("io.json")
    try:
        inputs, outputs = (
            [TensorSpec(name=t["name"], dtype=t["dtype"], shape=tuple(t["shape"])) for t in content[key]]
            for key in ("inputs", "outputs")
        )
    except (KeyError, TypeError) as error:
        raise WorkspaceError(
            f"{ws.path('io.json')} does not describe the model's inputs and outputs",
            cause="it was edited, or written by another version",
            hint="run c7x codegen again",
        ) from error
    return inputs, outputs


def check_inputs(specs: Sequence[TensorSpec], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays in the form that ``cg_dsp`` reads, when they are what the model takes.

    No value is converted: a wrong dtype is an error, except that bytes are taken for bool (a tensor file has no bool).

    Raises:
        RunError: another number of inputs, or an input with another dtype or shape; the input is named.
    """
    import numpy as np

    if len(arrays) != len(specs):
        listed = ", ".join(f"{spec.name} {spec}" for spec in specs)
        raise RunError(
            f"the model takes {len(specs)} input{'s' * (len(specs) != 1)} ({listed}), {len(arrays)} given",
            cause="an input is missing or one too many",
            hint="give them in this order, or by name in one .npz file",
        )
    checked = []
    for spec, value in zip(specs, arrays, strict=True):
        array = np.asarray(value)
        if array.shape != spec.shape:
            raise RunError(
                f"input {spec.name!r} has shape {list(array.shape)}, the model takes {list(spec.shape)}",
                cause=_shape_cause(array.shape, spec.shape),
                hint="reshape the input, or compile the model with example inputs of this shape",
            )
        if spec.dtype == "bool" and array.dtype == np.uint8:
            array = array != 0
        if array.dtype.name != spec.dtype:
            raise RunError(
                f"input {spec.name!r} has dtype {array.dtype.name}, the model takes {spec.dtype}",
                cause="NumPy makes float64 and int64 by default"
                if array.dtype.itemsize == 8
                else "dtypes are fixed when a model is compiled",
                hint=f"convert it: x.astype(np.{'bool_' if spec.dtype == 'bool' else spec.dtype})",
            )
        checked.append(array)
    return checked


def _shape_cause(given: tuple[int, ...], expected: tuple[int, ...]) -> str:
    if len(given) + 1 == len(expected) and expected[0] == 1 and given == expected[1:]:
        return "the batch dimension is missing"
    if len(given) != len(expected):
        return f"it has {len(given)} dimensions instead of {len(expected)}"
    return "shapes are fixed when a model is compiled"


def as_specified(program: str, specs: Sequence[TensorSpec], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arrays that ``program`` gave, with bool where io.json says so (RunError when io.json says something else)."""
    import numpy as np

    found = [TensorSpec(name=s.name, dtype=a.dtype.name, shape=a.shape) for s, a in zip(specs, arrays, strict=False)]
    wanted = [TensorSpec(name=s.name, dtype="uint8" if s.dtype == "bool" else s.dtype, shape=s.shape) for s in specs]
    if len(arrays) != len(specs) or found != wanted:
        raise RunError(
            f"{program} gave {len(arrays)} outputs ({', '.join(map(str, found))}), io.json promises {len(specs)} "
            f"({', '.join(map(str, specs))})",
            cause=f"{program} and io.json come from different compiles",
            hint="run c7x build again",
        )
    return [a.astype(np.bool_) if s.dtype == "bool" else a for s, a in zip(specs, arrays, strict=True)]


# ---------------------------------------------------------------------------------------------------------- input files


def load_inputs(ws: Workspace, specs: Sequence[TensorSpec], paths: Sequence[Path]) -> list[np.ndarray]:
    """Input arrays from files, in the order of io.json, not yet checked.

    Args:
        paths: ``.npy`` files in order, or one ``.npz`` (arrays by input name, else ``arr_0`` ...), or one tensor file
            ``.bin``; none: the example inputs of the build directory.

    Raises:
        RunError: a file is missing, or a .npz lacks an input.
        FormatError: a file is damaged or of another kind.
        UsageError: an unknown suffix, or several files that are not all .npy.
    """
    if not paths:
        return [_read_npy(ws.require(f"inputs/input_{index}.npy")) for index in range(len(specs))]
    for path in paths:
        if path.suffix not in INPUT_SUFFIXES:
            raise UsageError(
                f"--input {path} is neither .npy, .npz nor .bin",
                cause="the kind of an input file is told by its suffix",
                hint="save the input with numpy.save('x.npy', x), several inputs with numpy.savez",
            )
        if not path.is_file():
            raise RunError(
                f"there is no input file {path}",
                cause="the path is misspelt, or relative to another folder",
                hint="leave --input out to use the example inputs",
            )
    if len(paths) > 1 and any(path.suffix != ".npy" for path in paths):
        raise UsageError(
            "several --input files must all be .npy",
            cause=".npz and .bin files hold all inputs of the model",
            hint="give one .npz, or one .npy for each input",
        )
    if paths[0].suffix == ".bin":
        return _read_bin(paths[0])
    if paths[0].suffix == ".npz":
        return _read_npz(paths[0], specs)
    return [_read_npy(path) for path in paths]


def _read_bin(path: Path) -> list[np.ndarray]:
    try:
        return read_tensors(path)
    except OSError as error:
        raise FormatError(f"{path} cannot be read", cause=error.strerror, hint="check its permissions") from error


#: What numpy.load raises for a file that is damaged or holds Python objects.
_NUMPY_ERRORS = (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error)


def _check_magic(path: Path, file: BinaryIO) -> None:
    """Refuse a foreign file before numpy.load does: it takes all that it does not know for a pickle."""
    start = file.read(6)
    file.seek(0)
    if not start.startswith((b"\x93NUMPY", b"PK")):
        raise _bad_numpy_file(path, "it is empty" if not start else f"it begins with {start!r}, so is of another kind")


def _read_npy(path: Path) -> np.ndarray:
    import numpy as np

    try:
        # Opened here, because numpy.load leaves a damaged archive open.
        with path.open("rb") as file:
            _check_magic(path, file)
            array = np.load(file, allow_pickle=False)
            if isinstance(array, np.ndarray):
                return array
    except _NUMPY_ERRORS as error:
        raise _bad_numpy_file(path, error) from error
    raise _bad_numpy_file(path, "it is an archive of arrays; such a file ends in .npz")


def _read_npz(path: Path, specs: Sequence[TensorSpec]) -> list[np.ndarray]:
    import numpy as np

    try:
        with path.open("rb") as file:
            _check_magic(path, file)
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.ndarray):
                return [archive[name] for name in _npz_names(path, specs, archive.files)]
    except _NUMPY_ERRORS as error:
        raise _bad_numpy_file(path, error) from error
    raise _bad_numpy_file(path, "it is a single array; such a file ends in .npy")


def _npz_names(path: Path, specs: Sequence[TensorSpec], found: Sequence[str]) -> list[str]:
    """Which arrays of an archive are the inputs: those with their names, else those that ``numpy.savez`` numbered."""
    names = [spec.name for spec in specs]
    missing = [name for name in names if name not in found]
    if not missing:
        return names
    numbered = [f"arr_{index}" for index in range(len(found))]
    if set(found) == set(numbered):
        return numbered
    raise RunError(
        f"{path} has no array {', '.join(missing)}",
        cause=f"it holds {', '.join(found) or 'nothing'}",
        hint=f"numpy.savez({path.name!r}, {', '.join(f'{name}=...' for name in names)})",
    )


def _bad_numpy_file(path: Path, cause: object) -> FormatError:
    return FormatError(
        f"{path} cannot be read as a NumPy file",
        cause=str(cause),
        hint="save it again with numpy.save or numpy.savez, without Python objects in it",
    )


# --------------------------------------------------------------------------------------------------------- output files


def check_output_path(path: Path, specs: Sequence[TensorSpec]) -> None:
    """Whether outputs can be saved under this name (UsageError when not)."""
    if path.suffix not in OUTPUT_SUFFIXES:
        raise UsageError(
            f"--output {path} is neither .npz, .npy nor .bin",
            cause="the kind of an output file is told by its suffix",
            hint=f"--output {path.with_suffix('.npz')}",
        )
    if path.suffix == ".npy" and len(specs) != 1:
        raise UsageError(
            f"--output {path} can hold one array, the model has {len(specs)} outputs",
            hint=f"--output {path.with_suffix('.npz')}",
        )


def save_outputs(path: Path, specs: Sequence[TensorSpec], arrays: Sequence[np.ndarray]) -> None:
    """Write outputs to a .npz (by output name), .npy (one output) or tensor file; all of it appears at once.

    Raises:
        UsageError: as ``check_output_path``.
        RunError: the file cannot be written.
    """
    import numpy as np

    check_output_path(path, specs)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        try:
            if path.suffix == ".bin":
                write_tensors(temporary, arrays)
            elif path.suffix == ".npy":
                with temporary.open("wb") as file:
                    np.lib.format.write_array(file, np.asanyarray(arrays[0]), allow_pickle=False)
            else:
                _write_npz(temporary, {s.name: a for s, a in zip(specs, arrays, strict=True)})
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RunError(
            f"cannot write {path}", cause=error.strerror, hint="choose another file with --output"
        ) from error


def _write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    # numpy.savez takes names as keyword arguments and so fails for an output called "file".
    import numpy as np

    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            # A ZipInfo made by hand carries 1980 instead of the time of writing: equal outputs give equal files.
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
