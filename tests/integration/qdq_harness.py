"""Quantise small models with PT2E, compile them, and run the generated C in this process."""

from __future__ import annotations

import ctypes
import re
import subprocess
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from tvm import relax

from c7x.codegen.layers import offload_report
from c7x.codegen.stage import Compiled, compile_module
from c7x.frontend import importer
from c7x.graph.line import scalar_value, straight_line
from c7x.quantize.quantizer import C7xMMAQuantizer
from c7x.target import Target

ROOT = Path(__file__).resolve().parents[2]
OWN, MMALIB = "c_static -mcpu=c7x", "c_static -mcpu=c7x -mmalib=1"
FLAGS = ("-std=c99", "-O1", "-march=native", "-fPIC", "-w", "-fno-math-errno", "-fno-strict-aliasing")


@dataclass(frozen=True)
class Quantised:
    """A quantised model as Relax, with what PT2E's simulation gives for the example inputs."""

    mod: tvm.IRModule
    inputs: tuple[np.ndarray, ...]
    simulated: list[np.ndarray]
    real: list[np.ndarray]

    @property
    def steps(self) -> list[float]:
        """The real value of one unit of each output; every output is dequantised last."""
        main = self.mod["main"]
        values = dict(straight_line(main))
        output = main.body.body
        while output in values and not isinstance(values[output], tvm.ir.Call):
            output = values[output]
        fields = output.fields if isinstance(output, relax.Tuple) else [output]
        return [float(scalar_value(values[f].args[1])) for f in fields]  # type: ignore[arg-type]


def _leaves(value: Any) -> list[np.ndarray]:
    return [t.detach().numpy() for t in torch.utils._pytree.tree_leaves(value)]


def quantise(model: torch.nn.Module, *args: torch.Tensor, samples: int = 2, **options: Any) -> Quantised:
    """``options`` are the quantizer's."""
    model = model.eval()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        prepared = prepare_pt2e(torch.export.export(model, args).module(), C7xMMAQuantizer(**options))
        prepared(*args)
        for _ in range(samples):
            prepared(*[torch.randn_like(a) for a in args])
        converted = convert_pt2e(prepared)
        imported = importer.import_exported_program(torch.export.export(converted, args))
        simulated, real = _leaves(converted(*args)), _leaves(model(*args))
    mod = imported if isinstance(imported, tvm.IRModule) else importer.bind(imported)
    return Quantised(mod, tuple(a.numpy() for a in args), simulated, real)


def compiled(mod: tvm.IRModule, target: str = OWN, board: str | None = None) -> Compiled:
    return compile_module(mod, "model", Target.parse(target, board))


def kernels(result: Compiled, output: int | None = None) -> Counter[str]:
    """How often every kernel is called, without the number that tells equal names apart, tiles as the kernel that they
    are tiles of; for one output only, the calls that it depends on."""
    program = result.program
    needed = {program.storage(p.buffer).name for p in program.outputs}
    if output is not None:
        needed = {program.storage(program.outputs[output].buffer).name}
    found: Counter[str] = Counter()
    for call in reversed(program.calls):
        if needed.isdisjoint(program.storage(n).name for n in call.outputs):
            continue
        needed.update(program.storage(n).name for n in call.inputs)
        found[re.sub(r"_\d+$", "", call.kernel.removeprefix("__tvm_ffi_").removesuffix("_sliced"))] += 1
    return found


def float_calls(result: Compiled) -> int:
    return int(offload_report(result.program)["totals"]["float_ops_between_boundaries"])


class Runner:
    """Compiles lib0.c to shared objects; the reference kernels are compiled once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count = folder, 0
        native = ROOT / "native"
        sources = [
            *sorted((native / "kernels").rglob("*.c")),
            native / "runtime/c7x_platform.c",
            native / "runtime/c7x_pool.c",
        ]
        self.includes = [f"-I{native / name}" for name in ("include", "kernels", "runtime")]
        command = ["gcc", *FLAGS, "-ffp-contract=off", *self.includes, "-shared", *map(str, sources), "-o"]
        subprocess.run([*command, str(folder / "libfirmware.so"), "-lm"], check=True)

    def run(self, result: Compiled, *inputs: np.ndarray) -> list[np.ndarray]:
        self.count += 1
        source = self.folder / f"lib{self.count}.c"
        source.write_bytes(result.emitted.files["lib0.c"])
        library = self.folder / f"lib{self.count}.so"
        link = [f"-L{self.folder}", "-lfirmware", f"-Wl,-rpath,{self.folder}", "-lm"]
        subprocess.run(["gcc", *FLAGS, *self.includes, "-shared", str(source), "-o", str(library), *link], check=True)
        outputs = [np.full(p.type.shape, 77).astype(p.type.dtype) for p in result.program.outputs]
        weights = np.frombuffer(result.emitted.files["weights.bin"] + bytes(64), np.uint8)
        aligned = _aligned(weights.size)
        aligned[...] = weights
        arena = _aligned(result.emitted.plan.arena_bytes + 128)
        held = [np.ascontiguousarray(x) for x in inputs]
        pointers = [(ctypes.c_void_p * max(len(a), 1))(*(x.ctypes.data for x in a)) for a in (held, outputs)]
        function = ctypes.CDLL(str(library)).cg_main
        function.restype = ctypes.c_int32
        status = function(*pointers, ctypes.c_void_p(aligned.ctypes.data), ctypes.c_void_p(arena.ctypes.data))
        assert status == 0, status
        return outputs


def _aligned(size: int) -> np.ndarray:
    raw = np.zeros(size + 256, np.uint8)
    start = -raw.ctypes.data % 128
    return raw[start : start + size]


def sqnr(want: np.ndarray, got: np.ndarray) -> float:
    noise = float(((want.astype(np.float64) - got) ** 2).mean())
    return float(10 * np.log10((want.astype(np.float64) ** 2).mean() / max(noise, 1e-30)))
