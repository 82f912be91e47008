"""The functions of the public fork's test harness, over c7x: a script written for them changes only its import.

Names, parameters, defaults, results and errors: target-attributes.md, section 7. What c7x builds is the host executable
of mode ``c7x_host``, and with TI's compiler the module of mode ``c7x_dload``, which runs on a board over ssh. A
function that needs the C66x exists with its parameters, so that scripts import, and raises ``UnsupportedError`` when
called. No TI tool is needed on a host, so the ``EnvironmentError`` for missing compiler variables does not occur.

Everything here may also raise the errors of ``c7x.errors`` where the harness has no error of its own.
"""

from __future__ import annotations

import argparse
import atexit
import dataclasses
import os
import re
import shlex
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from c7x.errors import CrashError, FormatError, RunError, ToolError, UnsupportedError
from c7x.subprocesses import run
from c7x.target import BOARDS, MODES, Target, check_mode, find_board

if TYPE_CHECKING:
    import numpy as np
    import tvm

    from c7x.run.board import Machine

    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = [
    "DSPOutOfMemoryError",
    "add_board_arg",
    "assert_dsp_comparison",
    "build_dsp_c7x_host",
    "build_dsp_c66x",
    "build_dsp_dynmod",
    "build_dsp_host",
    "bulk_tail_split",
    "compare_results",
    "compile_and_run_dsp",
    "compile_for_dsp",
    "get_board_hostname",
    "get_current_board",
    "get_target_string",
    "read_tensors_from_file",
    "round_bulk_tail",
    "run_dsp_dload",
    "run_dsp_host",
    "run_dsp_local",
    "set_current_board",
    "set_current_test_name",
    "temporary_dsp_workspace",
    "write_tensors_to_file",
]

#: Keeps temporary folders when set to anything but the empty string.
KEEP_TEMP_VARIABLE = "DSP_KEEP_TEMP"

_current: dict[str, str | None] = {"test": None, "board": None}


# ------------------------------------------------------------------------------------------- tests, boards, target


def set_current_test_name(name: str) -> None:
    """Set the name that temporary folders carry."""
    _current["test"] = name


def set_current_board(board: str | None) -> None:
    """Select a board for this process; None selects none (TargetError for an unknown board)."""
    _current["board"] = None if board is None else find_board(board).name


def get_current_board() -> str | None:
    """The selected board, or None."""
    return _current["board"]


def get_board_hostname(board: str | None = None) -> str | None:
    """The host name of ``board``, by default the selected one; None when there is no such board."""
    found = BOARDS.get(board or get_current_board() or "")
    return found.host_name if found else None


class _BoardAction(argparse.Action):
    """Stores the board and selects it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        set_current_board(str(values))
        setattr(namespace, self.dest, values)


def add_board_arg(parser: argparse.ArgumentParser) -> None:
    """Add ``--board`` to the parser; parsing it also selects the board."""
    parser.add_argument("--board", choices=sorted(BOARDS), default=None, action=_BoardAction, help="board to run on")


def get_target_string(dsp_mode: str, profile_layers: bool = False, use_cpp_api: bool = False) -> str:
    """The target string for a mode, with the attributes asked for and the rules of the selected board.

    Raises:
        RuntimeError: mode ``c7x_dload`` without a selected board.
        TargetError: there is no such mode.
    """
    if dsp_mode not in MODES:
        check_mode(dsp_mode)
    text = f"c_static -mcpu={'c66x' if dsp_mode.startswith('c66') else 'c7x'}"
    if profile_layers:
        text += " -profile-layers"
    if use_cpp_api:
        text += " -use-cpp-api=1"
    if dsp_mode == "c7x_dload":
        board = get_current_board()
        if board is None:
            raise RuntimeError("mode c7x_dload needs a board: call set_current_board or pass --board")
        if not find_board(board).firmware_tidl:
            text += " -tidl-kernels=0"
    return text


@contextmanager
def temporary_dsp_workspace(name: str, cleanup: bool = True) -> Iterator[Path]:
    """A temporary folder ``dsp_<test>_<time>_...``, removed at the end of the block.

    Args:
        name: stands for the test when ``set_current_test_name`` has not been called.
        cleanup: False keeps the folder, as does the environment variable ``DSP_KEEP_TEMP``.
    """
    folder = _temporary_folder(name)
    try:
        yield folder
    finally:
        if cleanup and not _keep_temporary():
            shutil.rmtree(folder, ignore_errors=True)


def _keep_temporary() -> bool:
    return bool(os.environ.get(KEEP_TEMP_VARIABLE))


def _temporary_folder(name: str) -> Path:
    test = re.sub(r"[^A-Za-z0-9_.-]+", "_", _current["test"] or name)
    return Path(tempfile.mkdtemp(prefix=f"dsp_{test}_{time.strftime('%Y%m%d_%H%M%S')}_"))


# ---------------------------------------------------------------------------------------------------- tensor files


def _as_array(value: Any) -> Array:
    """A NumPy array from an array, a torch tensor or a TVM tensor."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if not isinstance(value, np.ndarray) and hasattr(value, "numpy"):
        value = value.numpy()
    return np.asarray(value)


def write_tensors_to_file(tensors: Any, filename: str | os.PathLike[str]) -> None:
    """Write arrays (or one array) to a TVMT file, target-attributes.md section 8.

    Raises:
        ValueError: a dtype that the format does not hold.
    """
    from c7x.tensorfile import write_tensors

    arrays = [_as_array(t) for t in (tensors if isinstance(tensors, (list, tuple)) else [tensors])]
    try:
        write_tensors(Path(filename), arrays)
    except FormatError as error:
        raise ValueError(str(error)) from error


def read_tensors_from_file(filename: str | os.PathLike[str]) -> list[Array]:
    """The arrays of a TVMT file.

    Raises:
        ValueError: wrong magic or version, an unknown dtype, or data that ends too early.
        FileNotFoundError: there is no such file.
    """
    from c7x.tensorfile import read_tensors

    path = Path(filename)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        return list(read_tensors(path))
    except FormatError as error:
        raise ValueError(str(error)) from error


# --------------------------------------------------------------------------------------------------- compile, build


def compile_for_dsp(
    mod: tvm.IRModule,
    target_string: str = "c_static -mcpu=c66x",
    output_dir: str | os.PathLike[str] | None = None,
    relax_pipeline: Any = None,
) -> Path:
    """Compile a Relax module to C.

    Args:
        mod: a Relax module with its parameters bound.
        target_string: the default is the harness's own and is refused; pass ``get_target_string("c7x_host")``.
        output_dir: where the files go, by default a new temporary folder.
        relax_pipeline: replaces the default pipeline.

    Returns:
        The folder with ``model_library.tar`` and its unpacked content.

    Raises:
        TargetError, UnsupportedError: the target is not valid, or not compiled for.
        FileNotFoundError: the archive holds no ``lib*.c`` or no ``weights.bin``.
    """
    target = Target.parse(target_string, board=get_current_board())
    target.check_supported()
    # Only now: a target that is refused needs no three seconds of importing TVM.
    from c7x.api import build

    built = build(mod, target, exec_mode="compiled", system_lib=True, relax_pipeline=relax_pipeline, tir_pipeline=None)
    folder = _temporary_folder("compile") if output_dir is None else Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / "model_library.tar"
    built.export_library(archive, target=target)
    _unpack(archive, folder)
    if not any(folder.glob("lib*.c")):
        raise FileNotFoundError(f"{archive} holds no lib*.c")
    if not (folder / "weights.bin").is_file():
        raise FileNotFoundError(f"{archive} holds no weights.bin")
    return folder


def _unpack(archive: Path, folder: Path) -> None:
    """Write the regular files of an archive without folders (tarfile's own filters need Python 3.11.4)."""
    with tarfile.open(archive) as tar:
        for member in tar:
            content = tar.extractfile(member)
            if content is not None and member.name == Path(member.name).name:
                (folder / member.name).write_bytes(content.read())


def build_dsp_c7x_host(
    generated_dir: str | os.PathLike[str],
    dsp_source_dir: str | os.PathLike[str] | None = None,
    build_type: str = "Release",
    build_dir: str | os.PathLike[str] | None = None,
    tidl_bridge: str | os.PathLike[str] | None = None,
    use_tidl: bool = False,
    tidl_artifacts_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Build ``cg_dsp`` from generated code with the C compiler of this machine.

    Args:
        generated_dir: the folder that ``compile_for_dsp`` returned.
        dsp_source_dir: not used; c7x brings its own runtime.
        build_type: ``Release`` or ``Debug``.
        build_dir: where the executable and ``weights.bin`` go, by default ``generated_dir``.
        tidl_bridge, use_tidl, tidl_artifacts_dir: TIDL is not available on a host.

    Returns:
        The path of the executable.

    Raises:
        FileNotFoundError: ``generated_dir`` holds no generated code.
        UnsupportedError: TIDL is asked for.
        RuntimeError: the compiler is missing or failed; the message holds its output.
    """
    from c7x.toolchain.gnu import BuildOptions
    from c7x.toolchain.stage import build_stage
    from c7x.workspace import Workspace

    if use_tidl or tidl_bridge is not None or tidl_artifacts_dir is not None:
        raise UnsupportedError(
            "TIDL is not available in mode c7x_host",
            cause="TI's TIDL libraries are made for the DSP",
            hint="call build_dsp_c7x_host with use_tidl=False",
        )
    folder = _build_folder(Path(generated_dir), build_dir)
    try:
        build_stage(Workspace(folder), mode="c7x_host", options=BuildOptions(build_type=build_type))
    except (CrashError, ToolError) as error:
        raise RuntimeError(str(error)) from error
    return folder / "cg_dsp"


def build_dsp_host(
    generated_dir: str | os.PathLike[str],
    dsp_source_dir: str | os.PathLike[str] | None = None,
    build_type: str = "Release",
    build_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """The same as ``build_dsp_c7x_host``: c7x generates one kind of C, so there is one kind of host executable."""
    return build_dsp_c7x_host(generated_dir, dsp_source_dir, build_type, build_dir)


def build_dsp_c66x(
    generated_dir: str | os.PathLike[str],
    dsp_source_dir: str | os.PathLike[str] | None = None,
    build_type: str = "Release",
    build_dir: str | os.PathLike[str] | None = None,
) -> Path:
    """Not supported: c7x does not generate code for the C66x (UnsupportedError)."""
    raise _unsupported("build_dsp_c66x", "c66x")


def build_dsp_dynmod(
    generated_dir: str | os.PathLike[str],
    dsp_cpp_dir: str | os.PathLike[str] | None = None,
    build_type: str = "Release",
    build_dir: str | os.PathLike[str] | None = None,
    weights_file: str | os.PathLike[str] | None = None,
    tidl_bridge: str | os.PathLike[str] | None = None,
    use_tidl: bool = False,
    tidl_artifacts_dir: str | os.PathLike[str] | None = None,
    fp_reassoc_off: bool = False,
    lib0_cflags: str = "",
) -> Path:
    """Build ``lib0.out``, a loadable module for the selected board, with TI's tools.

    Args:
        generated_dir: the folder that ``compile_for_dsp`` returned.
        dsp_cpp_dir: not used; generated code needs no runtime sources.
        build_type: ``Release`` or ``Debug``.
        build_dir: where ``lib0.out`` and ``lib0.out.map`` go, by default ``generated_dir``.
        weights_file: the weights to embed; by default the ``weights.bin`` of ``generated_dir``.
        tidl_bridge: a bridge source, or a folder of them; compiled in when ``use_tidl``.
        use_tidl: whether to take ``tidl_bridge`` and ``tidl_artifacts_dir``.
        tidl_artifacts_dir: the folder with ``subgraph<N>_net.bin`` and ``subgraph<N>_params_1.bin``.
        fp_reassoc_off: keep the order of sums; slower.
        lib0_cflags: more compiler options for generated code.

    Returns:
        The path of ``lib0.out``.

    Raises:
        FileNotFoundError: ``generated_dir`` holds no generated code.
        RuntimeError: no board is selected, TI's tools are missing or failed, or the module breaks a rule of the loader.
    """
    from c7x.toolchain.ticgt import ModuleOptions, dload_stage
    from c7x.workspace import Workspace

    board = get_current_board()
    if board is None:
        raise RuntimeError("mode c7x_dload needs a board: call set_current_board or pass --board")
    folder = _build_folder(Path(generated_dir), build_dir)
    if weights_file is not None and Path(weights_file).resolve() != (folder / "weights.bin").resolve():
        shutil.copyfile(weights_file, folder / "weights.bin")
    bridge: tuple[Path, ...] = ()
    if use_tidl and tidl_bridge is not None:
        place = Path(tidl_bridge)
        sources = sorted(p for p in place.glob("*") if p.suffix in (".c", ".cc", ".cpp")) if place.is_dir() else [place]
        bridge = tuple(sources)
    options = ModuleOptions(
        build_type=build_type,
        cflags=tuple(shlex.split(lib0_cflags)),
        fp_reassoc=not fp_reassoc_off,
        tidl_bridge=bridge,
        tidl_artifacts=Path(tidl_artifacts_dir) if use_tidl and tidl_artifacts_dir is not None else None,
    )
    try:
        dload_stage(Workspace(folder), board=board, options=options)
    except (CrashError, ToolError) as error:
        raise RuntimeError(str(error)) from error
    return folder / "lib0.out"


def _build_folder(source: Path, build_dir: str | os.PathLike[str] | None) -> Path:
    """The folder to build in, with the generated files in it (FileNotFoundError when there are none)."""
    files = sorted(p for pattern in ("lib*.c", "devc.c", "weights.bin", "*.h") for p in source.glob(pattern))
    if not any(p.name.startswith("lib") for p in files):
        raise FileNotFoundError(f"{source} holds no lib*.c")
    folder = source if build_dir is None else Path(build_dir)
    if folder.resolve() != source.resolve():
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            shutil.copyfile(path, folder / path.name)
    return folder


def _unsupported(function: str, mode: str) -> UnsupportedError:
    return UnsupportedError(
        f"{function} is not supported: it belongs to mode {mode}",
        cause=MODES[mode],
        hint='use mode "c7x_host": compile_for_dsp, build_dsp_c7x_host, run_dsp_host',
    )


# -------------------------------------------------------------------------------------------------------------- run


class DSPOutOfMemoryError(RuntimeError):
    """The DSP has no memory left.

    Attributes:
        phase: what was being done.
        requested, free, total: bytes, as far as the message tells them (it counts in MB of a million bytes).
    """

    def __init__(self, phase: str, requested: int, free: int, total: int) -> None:
        super().__init__(
            f"out of memory during {phase}: requested {requested / 1e6:.1f} MB, "
            f"{free / 1e6:.1f} MB free of {total / 1e6:.1f} MB"
        )
        self.phase = phase
        self.requested = requested
        self.free = free
        self.total = total


# The sentence of c7x_compute, arm-client.md section 4: "(requested X MB, Y MB free of Z MB)".
_OUT_OF_MEMORY = re.compile(r"requested ([0-9.]+) MB, ([0-9.]+) MB free of ([0-9.]+) MB")


def _raise_for_memory(text: str, phase: str) -> None:
    if found := _OUT_OF_MEMORY.search(text):
        requested, free, total = (round(float(figure) * 1e6) for figure in found.groups())
        raise DSPOutOfMemoryError(phase, requested, free, total)


def run_dsp_host(
    executable: str | os.PathLike[str], working_dir: str | os.PathLike[str] | None = None
) -> Array | list[Array]:
    """Run ``cg_dsp`` on the ``input.bin`` and ``weights.bin`` of a folder.

    Args:
        executable: the path that ``build_dsp_c7x_host`` returned.
        working_dir: the folder, by default the executable's.

    Returns:
        The output, or a list when there are several.

    Raises:
        RuntimeError: the executable cannot be started, crashes or ends with a non-zero code; the message holds its
            output.
        ValueError: it wrote no valid ``output.bin``.
    """
    outputs, _ = _run_host(Path(executable), None if working_dir is None else Path(working_dir), None)
    return outputs[0] if len(outputs) == 1 else outputs


def _run_host(executable: Path, working_dir: Path | None, timeout: float | None) -> tuple[list[Array], str]:
    """Outputs and standard output of one run; ``timeout`` in seconds."""
    folder = executable.parent if working_dir is None else working_dir
    result_file = folder / "output.bin"
    # A file of an earlier run must never pass for this run's result.
    result_file.unlink(missing_ok=True)
    try:
        done = run([executable.resolve()], cwd=folder, timeout=timeout, check=False, error=RunError)
    except (CrashError, RunError) as error:
        raise RuntimeError(str(error)) from error
    if done.returncode != 0:
        _raise_for_memory(done.stdout + done.stderr, "run")
        raise RuntimeError(f"{executable.name} ended with code {done.returncode}\n{done.stdout}{done.stderr}".rstrip())
    return read_tensors_from_file(result_file), done.stdout


def run_dsp_dload(
    module_path: str | os.PathLike[str],
    weights_path: str | os.PathLike[str] | None,
    input_tensors: Any,
    target_host: str | None = None,
    target_user: str = "root",
    remote_dir: str = "/tmp/c7x_compute",  # noqa: S108 - a folder on the board, part of the interface
    c7x_compute_cli: str = "/usr/local/bin/c7x_compute",
    embedded_weights: bool = False,
    profile_layers: bool = False,
    profile: bool = False,
    multi_output: bool = False,
) -> tuple[Any, str, int]:
    """Run a loadable module on a board over ssh and scp, which must work without a password.

    Args:
        module_path: ``lib0.out``, with its weights inside, as ``build_dsp_dynmod`` builds it.
        weights_path: not used; a module without weights of its own is refused when this is given.
        input_tensors: an array, or a list or tuple of arrays; all of them are sent.
        target_host: by default that of the selected board.
        target_user: for ssh.
        remote_dir, c7x_compute_cli: on the board.
        embedded_weights: not used; the module itself tells.
        profile_layers: not used; a module built so prints its profile in any case.
        profile: infer twice and give the cycles of warm caches.
        multi_output: True gives a list of outputs also when there is one.

    Returns:
        The output (a list when there are several), everything that was printed, and the cycles of the DSP.

    Raises:
        DSPOutOfMemoryError: the DSP has no memory left.
        RuntimeError: no board is selected, it is busy or not reachable, or a step failed.
    """
    from c7x.run.board import SshMachine

    host = target_host or get_board_hostname()
    if host is None:
        raise RuntimeError("which board? call set_current_board, or pass target_host")
    machine = SshMachine(host=host, user=target_user)
    return _run_board(
        machine, module_path, weights_path, input_tensors, remote_dir, c7x_compute_cli, profile, multi_output
    )


def run_dsp_local(
    module_path: str | os.PathLike[str],
    weights_path: str | os.PathLike[str] | None,
    input_tensors: Any,
    c7x_compute_cli: str = "/usr/local/bin/c7x_compute",
) -> tuple[Any, str, int]:
    """Run a loadable module on the machine this is called on, which is the board; else as ``run_dsp_dload``."""
    from c7x.run.board import LOCAL_FOLDER, LocalMachine

    machine = LocalMachine()
    return _run_board(machine, module_path, weights_path, input_tensors, LOCAL_FOLDER, c7x_compute_cli, False, False)


def _run_board(
    machine: Machine,
    module_path: str | os.PathLike[str],
    weights_path: str | os.PathLike[str] | None,
    input_tensors: Any,
    folder: str,
    cli: str,
    profile: bool,
    multi_output: bool,
) -> tuple[Any, str, int]:
    from c7x.run.board import has_weights, run_module

    module = Path(module_path)
    if not module.is_file():
        raise RuntimeError(f"there is no module {module}")
    inputs = [_as_array(t) for t in (input_tensors if isinstance(input_tensors, (list, tuple)) else [input_tensors])]
    try:
        if weights_path is not None and not has_weights(module):
            # The firmware would keep a separate file where the module's read-only data lies (protocol.md section 3).
            raise RuntimeError(f"{module} has no weights inside: build it with build_dsp_dynmod(..., weights_file=...)")
        result = run_module(machine, module, inputs, folder=folder, cli=cli, command="profile" if profile else "run")
    except (CrashError, FormatError, RunError) as error:
        phase = str((error.details or {}).get("step", "run"))
        _raise_for_memory(error.message, phase)
        if any(text in error.message for text in ("Out of memory", "File too large")):
            raise DSPOutOfMemoryError(phase, 0, 0, 0) from error
        raise RuntimeError(str(error)) from error
    one = len(result.outputs) == 1 and not multi_output
    return result.outputs[0] if one else result.outputs, result.stdout, result.cycles


def compile_and_run_dsp(
    mod: tvm.IRModule,
    input_data: Any,
    target_string: str,
    execution_mode: str = "c66x_host",
    build_type: str = "Release",
    timeout_ms: int = 60000,
    profile_layers: bool = False,
    profile: bool = False,
    relax_pipeline: Any = None,
    fp_reassoc_off: bool = False,
    multi_output: bool = False,
) -> dict[str, Any]:
    """Compile a Relax module, build it and run it once.

    Args:
        mod: as for ``compile_for_dsp``.
        input_data: an array, or a tuple or list of arrays.
        target_string: as for ``compile_for_dsp``.
        execution_mode: ``c7x_host``, or ``c7x_dload`` with a selected board; the default is the harness's own and is
            refused.
        build_type: ``Release`` or ``Debug``.
        timeout_ms: limit for the run.
        profile_layers: adds ``-profile-layers`` to the target; the profile is in the standard output.
        profile, fp_reassoc_off: for boards and TI's compiler; no effect on a host.
        relax_pipeline: replaces the default pipeline.
        multi_output: True gives a list of outputs also when there is one.

    Returns:
        ``<mode>_result`` (an array, or a list when there are several outputs), ``<mode>_stdout``, ``generated_dir``
        (removed when the process ends, unless ``DSP_KEEP_TEMP`` is set), ``c7x_dload_cycles`` (None on a host) and
        ``c66x_error``, which is None.

    Raises:
        UnsupportedError: another mode.
        RuntimeError: build or run failed, or the time limit was reached.
    """
    check_mode(execution_mode)
    target = Target.parse(target_string, board=get_current_board())
    target.check_supported(execution_mode)
    if profile_layers:
        target = dataclasses.replace(target, profile_layers=True)
    folder = _temporary_folder("run")
    if not _keep_temporary():
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    generated = compile_for_dsp(mod, str(target), folder, relax_pipeline)
    cycles: int | None = None
    outputs: Any
    if execution_mode == "c7x_dload":
        module = build_dsp_dynmod(generated, build_type=build_type, fp_reassoc_off=fp_reassoc_off)
        outputs, stdout, cycles = run_dsp_dload(module, None, input_data, profile=profile, multi_output=True)
    else:
        executable = build_dsp_c7x_host(generated, build_type=build_type)
        write_tensors_to_file(input_data, generated / "input.bin")
        outputs, stdout = _run_host(executable, generated, timeout_ms / 1000)
    return {
        f"{execution_mode}_result": outputs[0] if len(outputs) == 1 and not multi_output else outputs,
        f"{execution_mode}_stdout": stdout,
        "generated_dir": generated,
        "c7x_dload_cycles": cycles,
        "c66x_error": None,
    }


# ------------------------------------------------------------------------------------------------------------ compare


def compare_results(
    results: Mapping[str, Any], reference: Any, name: str, atol: float = 1e-5, rtol: float = 1e-4
) -> dict[str, Any]:
    """Compare every ``<mode>_result`` of ``compile_and_run_dsp`` with a reference.

    Args:
        results: the dictionary of ``compile_and_run_dsp``.
        reference: an array, or a list of arrays, one an output.
        name: of the comparison, for messages.
        atol, rtol: a value passes when it differs by at most ``atol + rtol * abs(reference)``; NaN equals NaN.

    Returns:
        ``name``, and for every mode ``<mode>_vs_ref_max_diff`` (infinite when the number of outputs or a shape
        differs) and ``<mode>_vs_ref_passed``.
    """
    wanted = [_as_array(r) for r in (reference if isinstance(reference, (list, tuple)) else [reference])]
    comparison: dict[str, Any] = {"name": name}
    for key, value in results.items():
        if not key.endswith("_result") or value is None:
            continue
        mode = key.removesuffix("_result")
        found = [_as_array(v) for v in (value if isinstance(value, (list, tuple)) else [value])]
        difference, passed = _difference(found, wanted, atol, rtol)
        comparison[f"{mode}_vs_ref_max_diff"] = difference
        comparison[f"{mode}_vs_ref_passed"] = passed
    return comparison


def _difference(found: Sequence[Array], wanted: Sequence[Array], atol: float, rtol: float) -> tuple[float, bool]:
    import numpy as np

    if [a.shape for a in found] != [b.shape for b in wanted]:
        return float("inf"), False
    largest, passed = 0.0, True
    for a, b in zip(found, wanted, strict=True):
        passed = passed and np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        with np.errstate(invalid="ignore"):
            distance = np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64))
        # Equal infinities and two NaN agree; NaN against a number is as far apart as can be.
        distance = np.where(
            (a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.nan_to_num(distance, nan=np.inf, posinf=np.inf)
        )
        largest = max(largest, float(distance.max(initial=0.0)))
    return largest, passed


def assert_dsp_comparison(comparison: Mapping[str, Any]) -> None:
    """Raise AssertionError when a mode of ``compare_results`` did not pass, or when nothing was compared."""
    suffix = "_vs_ref_passed"
    modes = [key.removesuffix(suffix) for key in comparison if key.endswith(suffix)]
    name = comparison.get("name", "comparison")
    if not modes:
        raise AssertionError(f"{name}: no result was compared")
    failed = [
        f"{mode} differs from the reference by up to {comparison.get(f'{mode}_vs_ref_max_diff')}"
        for mode in modes
        if not comparison[mode + suffix]
    ]
    if failed:
        raise AssertionError(f"{name}: {'; '.join(failed)}")


def bulk_tail_split(n: int, vec_width: int = 8) -> int:
    """How many of ``n`` elements fill whole vectors of ``vec_width`` lanes."""
    return n // vec_width * vec_width


def round_bulk_tail(values: Any, vec_width: int, tail_fn: Callable[[Array], Array]) -> Array:
    """Round as vector code with a scalar tail does: whole vectors half to even, the rest by ``tail_fn``.

    Args:
        values: an array; it is taken flat, in C order.
        vec_width: lanes of a vector.
        tail_fn: rounds the flat tail.

    Returns:
        An array of the same shape and dtype.
    """
    import numpy as np

    array = _as_array(values)
    flat = array.reshape(-1)
    split = bulk_tail_split(flat.size, vec_width)
    return np.concatenate([np.rint(flat[:split]), tail_fn(flat[split:])]).astype(array.dtype).reshape(array.shape)
