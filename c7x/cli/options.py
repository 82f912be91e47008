"""Options that several commands share, and what stages get of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

Build = Annotated[Path, typer.Argument(metavar="BUILD", help="The build directory.")]
Source = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="model.py with make_model(), or a model.pt2 of torch.export.save.")
]
Output = Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The build directory.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else there.")]
ModeOption = Annotated[str, typer.Option("--mode", help="c7x_host, c7x_vdsp or c7x_dload.")]
BuiltMode = Annotated[
    str | None,
    typer.Option(
        "--mode", help="c7x_host, c7x_vdsp or c7x_dload; default: the one it was built for.", show_default=False
    ),
]
BoardOption = Annotated[str | None, typer.Option("--board", help="beagley-ai or j722s-evm.", show_default=False)]
TargetOption = Annotated[
    str | None, typer.Option("--target", metavar="STRING", help="Target string, 'c_static -mcpu=c7x ...'.")
]
ProfileLayers = Annotated[bool, typer.Option("--profile-layers", help="Count cycles around every kernel call.")]
DebugAlloc = Annotated[bool, typer.Option("--debug-alloc", help="Print where every buffer lies in the arena.")]
Bind = Annotated[
    list[str] | None,
    typer.Option("--bind", metavar="NAME=VALUE", help="Fix a dynamic dimension; may be repeated."),
]
Cc = Annotated[
    str | None, typer.Option("--cc", help="The compiler: gcc, clang, g++, ... or a path; default: CC, else gcc.")
]
March = Annotated[str | None, typer.Option("--march", help="Instruction set of cg_dsp, e.g. native or x86-64-v3.")]
Cflags = Annotated[str | None, typer.Option("--cflags", help="More compiler flags, in one argument.")]
BuildType = Annotated[str | None, typer.Option("--build-type", help="release, debug or asan.")]
CheckL2 = Annotated[
    bool, typer.Option("--check-l2", help="cg_dsp that ends when a kernel reads L2 beyond what was copied there.")
]
Cgt = Annotated[
    Path | None,
    typer.Option(
        "--cgt", metavar="DIR", help="TI's C7000 tools; default: TI_CGT_C7000_PATH, CGT7X_ROOT, installed ones."
    ),
]
FpReassoc = Annotated[
    str | None, typer.Option("--fp-reassoc", metavar="on|off", help="Whether TI's compiler may reorder sums.")
]
KeepAsm = Annotated[bool, typer.Option("--keep-asm", help="Keep lib0.asm, what TI's compiler made of lib0.c.")]
TidlBridge = Annotated[
    list[Path] | None,
    typer.Option("--tidl-bridge", metavar="FILE", help="A source of the TIDL bridge; may be repeated."),
]
TidlArtifacts = Annotated[
    Path | None, typer.Option("--tidl-artifacts", metavar="DIR", help="Folder with subgraph<N>_net.bin to embed.")
]
QuantizeScale = Annotated[
    str | None,
    typer.Option("--quantize-scale", metavar="RULE", help="mse, minmax, or pow2: all scales are powers of two."),
]
Asymmetric = Annotated[
    bool | None,
    typer.Option(
        "--asymmetric/--symmetric",
        help="Zero points for int8 activations where they pay, or none: MMALIB then pads without a copy.",
        show_default="asymmetric",
    ),
]
Calibrate = Annotated[
    Path | None,
    typer.Option("--calibrate", metavar="FILE", help="Calibration data: .npz with an array for each input."),
]
CalibrateRandom = Annotated[
    int | None,
    typer.Option("--calibrate-random", metavar="N", min=1, help="Without data: N random samples, to try things out."),
]
KeepFloat = Annotated[
    list[str] | None,
    typer.Option("--keep-float", metavar="OP", help="An operator that stays float, e.g. add; may be repeated."),
]
HostEmu = Annotated[
    str | None,
    typer.Option("--hostemu", help="Build cg_dsp as C7000 code under a host emulation: open, ti or auto."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show how lib0.out would be built; needs no tools.")]


def ti_options(
    cgt: Path | None,
    fp_reassoc: str | None,
    keep_asm: bool,
    tidl_bridge: list[Path] | None,
    tidl_artifacts: Path | None,
    dry_run: bool,
) -> dict[str, Any]:
    """The options of mode c7x_dload as JSON values; paths are made absolute, since a worker has its own folder."""
    return {
        "cgt": str(cgt.absolute()) if cgt else None,
        "fp_reassoc": fp_reassoc,
        "keep_asm": keep_asm or None,
        "tidl_bridge": [str(path.absolute()) for path in tidl_bridge] if tidl_bridge else None,
        "tidl_artifacts": str(tidl_artifacts.absolute()) if tidl_artifacts else None,
        "dry_run": dry_run or None,
    }


def quantize_options(
    scale: str | None,
    asymmetric: bool | None,
    calibrate: Path | None,
    calibrate_random: int | None,
    keep_float: list[str] | None,
) -> dict[str, Any]:
    """The options of the quantize stage as JSON values."""
    return {
        "quantize_scale": scale,
        "asymmetric": asymmetric,
        "calibrate": str(calibrate) if calibrate else None,
        "calibrate_random": calibrate_random,
        "keep_float": keep_float or None,
    }


HostOption = Annotated[
    str | None,
    typer.Option(
        "--host", metavar="[USER@]NAME", help="How ssh finds the board; default: BOARD_HOSTNAME, else the board's name."
    ),
]
InputOption = Annotated[
    list[Path] | None,
    typer.Option("--input", help="A .npy file per input in order, or one .npz or .bin; default: the example inputs."),
]


def input_files(given: list[Path] | None) -> list[str] | None:
    """``--input`` as a JSON value; None stands for the example inputs."""
    return [str(path) for path in given] if given else None
