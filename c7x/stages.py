"""The stages a build consists of: what each is called, takes, reads and writes, and where its function lives.

The functions are imported only when a stage runs, in the worker process: this module stays light, so that the command
line can check a request (files there? options valid? target possible?) before three seconds of importing torch.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from c7x.errors import ModelError, TargetError, UnsupportedError, UsageError
from c7x.reporter import Reporter
from c7x.target import BOARDS, DEFAULT_MODE, DEFAULT_TARGET, Target, check_mode, find_board
from c7x.workspace import Workspace

Options = Mapping[str, Any]
#: ``input``: the file or folder itself. ``code``: a file with the folder it lies in, since code uses what lies beside
#: it. ``output``: a file that is written, so its folder must be writable.
PathKind = Literal["input", "code", "output"]
#: Stands for the file that the mode's build makes, in ``Stage.reads`` and ``Stage.writes``.
ARTEFACT = "<artefact>"
Result = dict[str, Any]


def _none(options: Options) -> tuple[str, ...]:
    return ()


def _modules(*names: str) -> Callable[[Options], tuple[str, ...]]:
    return lambda options: names


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage.

    Attributes:
        name: as in the manifest and in error messages.
        run: does the work; takes the build directory, the options (JSON values) and a reporter, returns JSON values.
        options: names of the options it takes.
        modules: the slow Python packages it needs for given options; the worker imports them beforehand.
        reads: files of the build directory that must be there.
        writes: files it makes that a user may want to edit.
        check: finds fault with the options before anything is started.
        check_machine: finds fault with the machine that the stage is to run on: TI's tools are missing there, say.
        paths: its options that name files or folders, and what of them has to be visible in a container.
        needs_host: whether it works with this machine's network or devices, which a container does not have.
        extra: the extra of the c7x package that brings what it needs.
    """

    name: str
    run: Callable[[Workspace, Options, Reporter], Result]
    options: frozenset[str] = frozenset()
    modules: Callable[[Options], tuple[str, ...]] = _none
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    check: Callable[[Options], object] = _none
    check_machine: Callable[[Options], object] = _none
    paths: Mapping[str, PathKind] = field(default_factory=dict)
    needs_host: Callable[[Options], bool] = lambda options: False
    extra: Literal["compile", "run"] = "compile"


@dataclass(frozen=True, kw_only=True)
class StageRequest:
    """One stage to run; ``options`` holds JSON values only, named as in ``Stage.options``."""

    name: str
    options: Options = field(default_factory=dict)


def _artefact(workspace: Workspace, options: Options) -> str:
    """The file that stands for ``ARTEFACT``: that of the mode asked for, else of the one built for."""
    mode = options.get("mode") or workspace.manifest.get("mode") or DEFAULT_MODE
    check_mode(mode)
    return "cg_dsp" if mode == DEFAULT_MODE else "lib0.out"


def _on_board(options: Options) -> bool:
    """Whether options of ``run`` ask for a board."""
    return options.get("mode") == "c7x_dload" or bool(options.get("board") or options.get("host"))


def _runnable(workspace: Workspace, stage: Stage, options: Options) -> str:
    """``_artefact``, when this machine can run it or is to have it run on a board (UnsupportedError)."""
    if stage.name == "run" and _on_board(options):
        return "lib0.out"
    if (options.get("mode") or workspace.manifest.get("mode")) == "c7x_dload":
        raise UnsupportedError(
            f"the lib0.out of {workspace.root} was built for a board and cannot run here",
            cause="it holds code for the C7000",
            hint=f"c7x run {workspace.root} --mode c7x_dload runs it on the board; "
            f"c7x build {workspace.root} --mode c7x_vdsp makes one for this machine",
        )
    return _artefact(workspace, options)


def check_requests(
    table: Mapping[str, Stage], workspace: Workspace, requests: Sequence[StageRequest], *, here: bool = True
) -> None:
    """Refuses what cannot work, before any process is started.

    Args:
        table: the stages there are.
        workspace: the build directory.
        requests: the stages to run, in order.
        here: whether they run on this machine, so that it must have the tools.

    Raises:
        C7xError: a file is missing, or an option or the target is not valid; the stage is set.
    """
    coming: set[str] = set()
    for request in requests:
        stage = table[request.name]
        if unknown := sorted(set(request.options) - stage.options):
            raise UsageError(f"the {stage.name} stage has no option {', '.join(unknown)}", stage=stage.name)
        stage.check(request.options)
        if here:
            stage.check_machine(request.options)
        for name in stage.reads:
            if name not in coming:
                workspace.require(_runnable(workspace, stage, request.options) if name == ARTEFACT else name)
        coming.update(stage.writes)


# ------------------------------------------------------------------------------------------------- options of stages

MODEL_SUFFIXES = (".py", ".pt2")


def check_source(options: Options) -> None:
    """Whether there is a model file of a kind c7x reads (ModelError, UsageError)."""
    source = Path(options["source"])
    if not source.exists():
        raise ModelError(
            f"there is no file {source}",
            cause="the path is misspelt, or relative to another folder",
            hint="give the path of a model.py that defines make_model(), or of a model.pt2",
            stage="export",
        )
    if source.is_dir():
        raise ModelError(
            f"{source} is a folder, not a model file",
            cause="compile and export take one file",
            hint=f"give the file, e.g. {source / 'model.py'}; for a build directory use c7x run {source}",
            stage="export",
        )
    if source.suffix not in MODEL_SUFFIXES:
        raise ModelError(
            f"{source} is neither a .py nor a .pt2 file",
            cause="c7x reads Python files with make_model(), and programs saved with torch.export.save",
            hint="save the model with torch.export.save(torch.export.export(model, inputs), 'model.pt2')",
            stage="export",
        )


def parse_bindings(texts: Sequence[str]) -> dict[str, int]:
    """``["batch=1"]`` -> ``{"batch": 1}`` (UsageError for anything else)."""
    bindings: dict[str, int] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.isdecimal() or int(value) < 1:
            raise UsageError(
                f"--bind {text} is not NAME=VALUE",
                cause="NAME is the name of a dynamic dimension, VALUE a size of at least 1",
                hint="--bind batch=1",
            )
        if bindings.setdefault(name, int(value)) != int(value):
            raise UsageError(f"--bind gives {name} two sizes", hint=f"keep one --bind {name}=...")
    return bindings


def make_target(options: Options) -> Target:
    """The target that ``--target``, ``--board``, ``--profile-layers`` and ``--debug-alloc`` describe together.

    Raises:
        TargetError: the string or the board is not valid.
        UnsupportedError: this version does not compile for it in the given mode.
    """
    target = Target.parse(options.get("target") or DEFAULT_TARGET, board=options.get("board"))
    if options.get("mode") == "c7x_dload" and target.board is None:
        raise TargetError(
            "mode c7x_dload needs a board",
            cause="boards differ in what their firmware exports",
            hint=f"add --board {' or --board '.join(sorted(BOARDS))}",
        )
    if options.get("profile_layers"):
        target = dataclasses.replace(target, profile_layers=True)
    if options.get("debug_alloc"):
        target = dataclasses.replace(target, debug_alloc=True)
    target.check_supported(options.get("mode") or DEFAULT_MODE)
    return target


QUANTIZE_DTYPES = ("int8", "int16")
QUANTIZE_SCALES: tuple[Literal["mse", "minmax", "pow2"], ...] = ("mse", "minmax", "pow2")

#: Options that only the quantize stage takes.
_QUANTIZE_ONLY = ("quantize_scale", "asymmetric", "calibrate", "calibrate_random", "keep_float")


def check_quantize(options: Options) -> None:
    """Whether the options of the quantize stage make sense, also when it is not asked for (UsageError)."""
    dtype = options.get("quantize")
    if dtype is None:
        given = [name for name in _QUANTIZE_ONLY if options.get(name) or options.get(name) is False]
        if given:
            flag = f"--{'symmetric' if options[given[0]] is False else given[0].replace('_', '-')}"
            raise UsageError(f"{flag} has no meaning without --quantize", hint=f"add --quantize int8, or drop {flag}")
        return
    if dtype not in QUANTIZE_DTYPES:
        raise UsageError(
            f"{dtype} is no type to quantize to",
            cause="the C7x's matrix unit multiplies int8 and int16",
            hint=f"use {' or '.join(QUANTIZE_DTYPES)}",
            stage="quantize",
        )
    scale = options.get("quantize_scale") or QUANTIZE_SCALES[0]
    if scale not in QUANTIZE_SCALES:
        raise UsageError(
            f"--quantize-scale {scale} is not known",
            hint=" or ".join(f"--quantize-scale {name}" for name in QUANTIZE_SCALES),
            stage="quantize",
        )
    calibrate = options.get("calibrate")
    if calibrate and not Path(calibrate).is_file():
        raise UsageError(
            f"there is no calibration file {calibrate}",
            cause="the path is misspelt, or relative to another folder",
            hint="--calibrate data.npz, a file of arrays named like the model's inputs",
            stage="quantize",
        )


# --------------------------------------------------------------------------------------------- the functions, lazily


def _export(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.frontend.export import export_stage

    bind = parse_bindings(options.get("bind") or ())
    return export_stage(workspace, source=Path(options["source"]), bind=bind, reporter=reporter)


def _check_export(options: Options) -> None:
    check_source(options)
    parse_bindings(options.get("bind") or ())


def _quantize(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.quantize.stage import quantize_stage

    source = options.get("source")
    return quantize_stage(
        workspace,
        dtype=options["quantize"],
        scale=options.get("quantize_scale") or QUANTIZE_SCALES[0],
        symmetric=None if options.get("asymmetric") is None else not options["asymmetric"],
        keep_float=tuple(options.get("keep_float") or ()),
        calibrate=Path(options["calibrate"]) if options.get("calibrate") else None,
        calibrate_random=options.get("calibrate_random") or 0,
        source=Path(source) if source else None,
        reporter=reporter,
    )


def _import(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.frontend.importer import import_stage

    return import_stage(workspace, reporter=reporter)


def _codegen(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.codegen.stage import codegen_stage

    target = make_target(options)
    for text in target.warnings:
        reporter.warn(text)
    return codegen_stage(workspace, target=target, reporter=reporter)


def _build_module(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.toolchain.ticgt import ModuleOptions, dload_stage

    artifacts, cgt = options.get("tidl_artifacts"), options.get("cgt")
    return dload_stage(
        workspace,
        board=options.get("board"),
        options=ModuleOptions(
            cgt=Path(cgt) if cgt else None,
            build_type=options.get("build_type") or "release",
            cflags=tuple(shlex.split(options.get("cflags") or "")),
            fp_reassoc=options.get("fp_reassoc") != "off",
            keep_asm=bool(options.get("keep_asm")),
            tidl_bridge=tuple(Path(text) for text in options.get("tidl_bridge") or ()),
            tidl_artifacts=Path(artifacts) if artifacts else None,
        ),
        dry_run=bool(options.get("dry_run")),
        reporter=reporter,
    )


def _build(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    if options.get("mode") == "c7x_dload":
        return _build_module(workspace, options, reporter)
    from c7x.toolchain.gnu import BuildOptions
    from c7x.toolchain.stage import build_stage

    names = ("cc", "march", "build_type", "hostemu", "check_l2")
    given = {name: options[name] for name in names if options.get(name) is not None}
    if options.get("cflags"):
        given["cflags"] = tuple(shlex.split(options["cflags"]))
    return build_stage(
        workspace,
        mode=options.get("mode") or DEFAULT_MODE,
        board=options.get("board"),
        options=BuildOptions(**given),
        reporter=reporter,
    )


#: Options of the build stage that belong to one compiler, by option.
_TI_ONLY = ("cgt", "fp_reassoc", "keep_asm", "tidl_bridge", "tidl_artifacts", "dry_run")
_GNU_ONLY = ("cc", "march", "hostemu", "check_l2")


def _check_mode(options: Options) -> None:
    check_mode(options.get("mode") or DEFAULT_MODE)
    if options.get("board"):
        find_board(options["board"])


def _check_build(options: Options) -> None:
    _check_mode(options)
    mode = options.get("mode") or DEFAULT_MODE
    dload = mode == "c7x_dload"
    for name in _GNU_ONLY if dload else _TI_ONLY:
        if options.get(name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} has no meaning in mode {mode}",
                cause="mode c7x_dload compiles with TI's tools, the other modes with GCC or Clang",
                hint=f"leave {flag} out" + ("; --cgt names TI's tools" if dload else ", or add --mode c7x_dload"),
            )
    if options.get("hostemu") and mode != DEFAULT_MODE:
        raise UsageError(
            f"--hostemu has no meaning in mode {mode}",
            cause="a host emulation stands in for the DSP's processor in cg_dsp",
            hint=f"leave --hostemu out, or use --mode {DEFAULT_MODE}",
        )
    if options.get("check_l2"):
        _check_l2(mode, options.get("build_type"))
    if options.get("fp_reassoc") not in (None, "on", "off"):
        raise UsageError(f"--fp-reassoc {options['fp_reassoc']} is not known", hint="--fp-reassoc off")


def _check_build_tools(options: Options) -> None:
    if options.get("mode") == "c7x_dload" and not options.get("dry_run"):
        # Told now, not after the minutes that the stages before take.
        from c7x.toolchain.ticgt import choose_tools

        choose_tools(Path(options["cgt"]) if options.get("cgt") else None)


def _check_l2(mode: str, build_type: str | None) -> None:
    if mode != DEFAULT_MODE:
        raise UsageError(
            f"--check-l2 has no meaning in mode {mode}",
            cause="the checker stands on the address sanitizer, which only cg_dsp can be built with",
            hint=f"leave --check-l2 out, or use --mode {DEFAULT_MODE}",
        )
    if build_type is not None and build_type.lower() != "asan":
        raise UsageError(
            f"--check-l2 and --build-type {build_type} exclude each other",
            cause="the checker stands on the address sanitizer: the build type is asan",
            hint="leave --build-type out",
        )


def _run(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    inputs = tuple(Path(text) for text in options.get("input") or ())
    output = Path(options["output"]) if options.get("output") else None
    if _on_board(options):
        from c7x.run.board import board_run_stage

        return board_run_stage(
            workspace,
            board=options.get("board"),
            host=options.get("host"),
            inputs=inputs,
            output=output,
            repeat=options.get("repeat") or 1,
            reporter=reporter,
        )
    from c7x.run.stage import run_stage

    return run_stage(
        workspace,
        inputs=inputs,
        output=output,
        repeat=options.get("repeat") or 1,
        mode=options.get("mode"),
        reporter=reporter,
    )


def _check_run(options: Options) -> None:
    _check_mode(options)
    if options.get("board"):
        find_board(options["board"])
    if options.get("mode") not in (None, "c7x_dload") and _on_board(options):
        raise UsageError(
            f"--mode {options['mode']} does not run on a board",
            cause="a board runs modules of mode c7x_dload",
            hint="leave --board and --host out, or use --mode c7x_dload",
        )


def _deploy(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.run.board import deploy_stage

    return deploy_stage(workspace, board=options.get("board"), host=options.get("host"), reporter=reporter)


def _check_deploy(options: Options) -> None:
    if options.get("board"):
        find_board(options["board"])


def _check(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.report.compare import check_stage

    return check_stage(workspace, reporter=reporter)


def _compare(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.report.compare import compare_stage

    return compare_stage(workspace, inputs=_inputs(options), tolerance=_tolerance(options), reporter=reporter)


def _compare_layers(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.report.compare_layers import compare_layers_stage

    return compare_layers_stage(workspace, inputs=_inputs(options), tolerance=_tolerance(options), reporter=reporter)


def _inputs(options: Options) -> tuple[Path, ...]:
    return tuple(Path(text) for text in options.get("input") or ())


def _tolerance(options: Options) -> Any:
    """The user's wish; without one the model's kind decides: a quantised one is judged by its signal to noise ratio."""
    from c7x.report.compare import Tolerance

    asked = {"relative": options.get("tolerance"), "rtol": options.get("rtol"), "atol": options.get("atol")}
    return Tolerance(**asked) if any(value is not None for value in asked.values()) else None


def _profile(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.report.profile import DEFAULT_REPEAT, profile_stage

    return profile_stage(
        workspace,
        mode="c7x_dload" if _on_board(options) else options.get("mode"),
        board=options.get("board"),
        host=options.get("host"),
        log=Path(options["log"]) if options.get("log") else None,
        inputs=tuple(Path(text) for text in options.get("input") or ()),
        repeat=options.get("repeat") or DEFAULT_REPEAT,
        with_roofline=bool(options.get("roofline")),
        reporter=reporter,
    )


def _check_profile(options: Options) -> None:
    _check_run(options)
    if options.get("log"):
        for name in ("mode", "board", "host", "input", "repeat"):
            if options.get(name):
                raise UsageError(
                    f"--{name} has no meaning with --log",
                    cause="a log tells of a run that is over",
                    hint=f"leave --{name} out, or --log to run the model",
                )
    if options.get("repeat") and _on_board(options):
        raise UsageError(
            "--repeat has no meaning on a board",
            cause="a board runs a module once, and then twice to warm its caches",
            hint="leave --repeat out",
        )


def _bench(workspace: Workspace, options: Options, reporter: Reporter) -> Result:
    from c7x.report.bench import bench_stage

    return bench_stage(
        workspace,
        peers=tuple(options.get("peers") or ()),
        repeat=options["repeat"],
        warmup=options["warmup"],
        reporter=reporter,
    )


#: What a bench peer needs imported.
PEERS: Mapping[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "onnxruntime": ("torch", "onnxruntime", "onnxscript"),
}


def _check_bench(options: Options) -> None:
    for peer in options.get("peers") or ():
        if peer not in PEERS:
            raise UsageError(f"--peer {peer} is not known", hint=f"--peer {', --peer '.join(PEERS)} or --peer none")
    if options["repeat"] < 1 or options["warmup"] < 0:
        raise UsageError("--repeat must be at least 1 and --warmup at least 0", hint="c7x bench build --repeat 20")


STAGES: Mapping[str, Stage] = {
    stage.name: stage
    for stage in (
        Stage(
            name="export",
            run=_export,
            options=frozenset({"source", "bind"}),
            modules=_modules("torch"),
            writes=("model.pt2",),
            check=_check_export,
            paths={"source": "code"},
        ),
        Stage(
            name="quantize",
            run=_quantize,
            options=frozenset({"source", "quantize", *_QUANTIZE_ONLY}),
            modules=_modules("torch", "tvm"),
            reads=("model.pt2",),
            writes=("quantize.json",),
            check=check_quantize,
            paths={"source": "code", "calibrate": "input"},
        ),
        Stage(
            name="import",
            run=_import,
            modules=_modules("torch", "tvm"),
            reads=("model.pt2",),
            writes=("model.relax", "model.params.npz"),
        ),
        Stage(
            name="codegen",
            run=_codegen,
            options=frozenset({"target", "board", "mode", "profile_layers", "debug_alloc"}),
            modules=_modules("tvm"),
            reads=("model.relax", "model.params.npz"),
            writes=("lib0.c", "devc.c", "weights.bin", "io.json", "layers.json"),
            check=make_target,
        ),
        Stage(
            name="build",
            run=_build,
            options=frozenset({"mode", "board", "cflags", "build_type", *_GNU_ONLY, *_TI_ONLY}),
            reads=("lib0.c", "devc.c"),
            writes=(ARTEFACT,),
            check=_check_build,
            check_machine=_check_build_tools,
            paths={"cgt": "input", "tidl_bridge": "code", "tidl_artifacts": "input"},
        ),
        Stage(
            name="check",
            run=_check,
            modules=_modules("numpy"),
            reads=(ARTEFACT, "io.json"),
        ),
        Stage(
            name="run",
            run=_run,
            options=frozenset({"input", "output", "repeat", "mode", "board", "host"}),
            modules=_modules("numpy"),
            reads=(ARTEFACT, "io.json"),
            check=_check_run,
            paths={"input": "input", "output": "output"},
            needs_host=_on_board,
            extra="run",
        ),
        Stage(
            name="deploy",
            run=_deploy,
            options=frozenset({"board", "host"}),
            reads=("lib0.out",),
            check=_check_deploy,
            needs_host=lambda options: True,
            extra="run",
        ),
        Stage(
            name="compare",
            run=_compare,
            options=frozenset({"input", "tolerance", "rtol", "atol"}),
            modules=lambda options: ("torch",) if options.get("input") else ("numpy",),
            reads=(ARTEFACT, "io.json"),
            paths={"input": "input"},
            extra="run",
        ),
        Stage(
            name="compare_layers",
            run=_compare_layers,
            options=frozenset({"input", "tolerance", "rtol", "atol"}),
            modules=_modules("torch"),
            reads=("lib0.c", "devc.c", "weights.bin", "io.json", "layers.json", "memory.json", "model.pt2"),
            paths={"input": "input"},
        ),
        Stage(
            name="profile",
            run=_profile,
            options=frozenset({"input", "mode", "board", "host", "log", "repeat", "roofline"}),
            modules=_modules("numpy"),
            reads=("layers.json", "memory.json"),
            check=_check_profile,
            paths={"input": "input", "log": "input"},
            needs_host=_on_board,
            extra="run",
        ),
        Stage(
            name="bench",
            run=_bench,
            options=frozenset({"peers", "repeat", "warmup"}),
            modules=lambda options: tuple(
                dict.fromkeys(
                    ["numpy", *(module for peer in options.get("peers") or () for module in PEERS.get(peer, ()))]
                )
            ),
            reads=("cg_dsp", "io.json"),
            check=_check_bench,
            extra="run",
        ),
    )
}

#: The stages of ``c7x compile`` in order, with ``quantize`` after ``export`` on demand; then comes ``check``.
COMPILE_CHAIN: tuple[str, ...] = ("export", "import", "codegen", "build")


def requests_for(names: Sequence[str], options: Options) -> list[StageRequest]:
    """Requests for the stages ``names``, each with those of ``options`` it takes and that are not None."""
    return [
        StageRequest(
            name=name,
            options={key: value for key, value in options.items() if key in STAGES[name].options and value is not None},
        )
        for name in names
    ]
