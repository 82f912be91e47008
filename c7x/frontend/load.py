"""Loading what the user gives to ``c7x compile``: a ``model.py`` or a program saved with ``torch.export.save``.

The user's file runs here, so this belongs into the worker process: what it prints goes to standard error, what it
raises becomes a ``ModelError`` that shows the user's own lines and nothing of ours.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from c7x.errors import ModelError
from c7x.frontend.quiet import quiet, silent
from c7x.frontend.source import is_library, shown_path
from c7x.reporter import SILENT, Reporter

#: The name under which the user's file is imported: nothing the user could write collides with it.
MODULE_NAME = "_c7x_user_model"

CONTRACT_HINT = "define make_model() -> (nn.Module, tuple of example input tensors); examples/ has one to copy"

#: Where the classes live that ``quantize_dynamic``, and ``convert`` of eager and FX mode, put in a module's place.
_EAGER_QUANTIZED = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")


@dataclass(frozen=True, kw_only=True)
class Source:
    """A loaded model.

    ``inputs`` are the arguments of ``forward``: compact row-major tensors that share no memory with each other or with
    the model, alone or in nested tuples, lists and dicts; ``tensors`` are the same, flattened. ``program`` is set
    for a ``.pt2`` only; ``model`` is then its module. ``calibration`` yields tuples like ``inputs``, or is None.
    """

    path: Path
    model: nn.Module
    inputs: tuple[Any, ...]
    program: torch.export.ExportedProgram | None = None
    calibration: Callable[[], Iterable[tuple[Any, ...]]] | None = None
    input_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    dynamic_shapes: Any = None

    @property
    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in pytree.tree_leaves(self.inputs) if isinstance(leaf, Tensor)]

    @property
    def root(self) -> Path:
        """The folder source lines are shown relative to."""
        return self.path.resolve().parent


def load_source(path: Path, *, reporter: Reporter = SILENT) -> Source:
    """Load ``model.py`` or ``model.pt2``.

    Raises:
        ModelError: the file is missing, is a folder, has another suffix, cannot be imported, breaks the contract of
            ``make_model``, or is no exported program.
    """
    if path.is_dir():
        raise ModelError(
            f"{path} is a folder, not a model",
            cause="the path of the folder was given instead of the file in it",
            hint=f"c7x compile {path / 'model.py'}",
        )
    if not path.exists():
        near = (
            sorted(p.name for p in path.parent.glob("*") if p.suffix in (".py", ".pt2")) if path.parent.is_dir() else []
        )
        raise ModelError(
            f"there is no file {path}",
            cause="the path is misspelt, or relative to another folder",
            hint=f"this folder holds {', '.join(near)}" if near else "give the path of a model.py or a model.pt2",
        )
    if path.suffix == ".pt2":
        return _load_program(path, reporter)
    if path.suffix != ".py":
        raise ModelError(
            f"{path} is neither a Python file (.py) nor an exported program (.pt2)",
            cause=f"files ending in {path.suffix or 'nothing'} hold no model that c7x can read",
            hint="write a model.py with make_model(), or save a program with torch.export.save(program, 'model.pt2')",
        )
    return _load_python(path, reporter)


# --- model.py -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _user_code(path: Path) -> Iterator[None]:
    """The user's folder on ``sys.path``, and their prints on standard error (standard output is for results)."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def user_traceback(error: BaseException, root: Path) -> str:
    """The lines of a traceback that are the user's, then the exception itself."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_user_frame(f.filename)]
    lines = [f"  {shown_path(f.filename, root)}, line {f.lineno}, in {f.name}\n    {f.line or ''}" for f in frames]
    return "\n".join([*lines, "".join(traceback.format_exception_only(error)).strip()])


def _is_user_frame(file: str) -> bool:
    package = str(Path(__file__).resolve().parent.parent)
    return not (is_library(file) or file.startswith(package) or file.startswith("<frozen"))


def _load_python(path: Path, reporter: Reporter) -> Source:
    with _user_code(path):
        module = _execute(path)
        make_model = getattr(module, "make_model", None)
        if make_model is None:
            raise ModelError(
                f"{path} defines no make_model()",
                cause="the function is missing or has another name",
                hint=CONTRACT_HINT,
            )
        if not callable(make_model):
            raise ModelError(
                f"make_model in {path} is {_kind(make_model)}, not a function",
                cause="c7x calls it, to make the model in a process of its own",
                hint=CONTRACT_HINT,
            )
        try:
            made = make_model()
        except (Exception, SystemExit) as error:
            raise ModelError(
                f"make_model() in {path} failed:\n{user_traceback(error, path.resolve().parent)}",
                cause="an error in the model's own code",
                hint=f'python -c \'import runpy; runpy.run_path("{path.name}")["make_model"]()\' shows it without c7x',
            ) from error
    model, inputs = _checked_pair(made, path)
    _to_eval(model, reporter)
    return Source(
        path=path,
        model=model,
        inputs=own_inputs(inputs),
        calibration=_calibration(module, path),
        input_names=_names(module, "input_names", path),
        output_names=_names(module, "output_names", path),
        dynamic_shapes=getattr(module, "dynamic_shapes", None),
    )


def _execute(path: Path) -> ModuleType:
    # Frames name the file as the loader does: absolute, or they would depend on the folder c7x is called from.
    loader = importlib.machinery.SourceFileLoader(MODULE_NAME, str(path.absolute()))
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    try:
        loader.source_to_code(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise ModelError(
            f"{path} is not Python{line}: {getattr(error, 'msg', None) or error}",
            cause="a syntax error, or a file of another kind with the suffix .py",
            hint=f"python -m py_compile {path.name} shows the place",
        ) from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read", cause=error.strerror, hint="check its permissions") from error
    sys.modules[MODULE_NAME] = module
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise _import_failed(path, error) from error
    finally:
        sys.dont_write_bytecode = bytecode
    return module


def _import_failed(path: Path, error: BaseException) -> ModelError:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return ModelError(
        f"{path} cannot be imported:\n{user_traceback(error, path.resolve().parent)}",
        cause=f"the package {missing} is not installed here" if missing else "an error in the file's own code",
        hint=f"pip install {missing}"
        if missing
        else "code at the top of the file runs on import; keep scripts under if __name__",
    )


def _kind(value: Any) -> str:
    """How an unexpected value is named in a message."""
    if isinstance(value, Tensor):
        return f"a single tensor ({str(value.dtype).removeprefix('torch.')}{list(value.shape)})"
    if isinstance(value, tuple | list):
        inner = ", ".join(type(v).__name__ for v in value)
        return f"a {type(value).__name__} of {len(value)} ({inner})"
    module = type(value).__module__
    name = type(value).__name__
    return name if module in ("builtins", "__main__") else f"{module.split('.')[0]}.{name}"


def _checked_pair(made: Any, path: Path) -> tuple[nn.Module, tuple[Any, ...]]:
    if not isinstance(made, tuple | list) or len(made) != 2:
        raise ModelError(
            f"make_model() in {path} returned {_kind(made)}, not a pair (model, example inputs)",
            cause="the example inputs are missing" if isinstance(made, nn.Module) else "it returns another structure",
            hint="return model, (torch.randn(1, 3, 224, 224),)",
        )
    model, inputs = made
    if type(model).__name__ == "OptimizedModule" and isinstance(getattr(model, "_orig_mod", None), nn.Module):
        # torch.compile's wrapper would compile for this machine first; what it wraps is the model.
        model = model._orig_mod
    if not isinstance(model, nn.Module):
        raise ModelError(
            f"the model that make_model() in {path} returned is {_kind(model)}, not a torch.nn.Module",
            cause="the pair is the wrong way round"
            if isinstance(inputs, nn.Module)
            else "torch.export takes modules, no functions and no state dicts",
            hint="return model, (torch.randn(1, 3, 224, 224),)",
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise ModelError(
            f"the model that make_model() in {path} returned is a TorchScript module",
            cause="torch.jit.script, trace or load made it; torch.export takes ordinary modules only",
            hint="return the nn.Module from before torch.jit, with its weights loaded by load_state_dict",
        )
    for name, part in model.named_modules():
        if not type(part).__module__.startswith(_EAGER_QUANTIZED):
            continue
        raise ModelError(
            f"the model that make_model() in {path} returned is quantized already: "
            f"{name or 'it'} is a {type(part).__name__} of {type(part).__module__.rpartition('.modules')[0]}",
            cause="torch.ao.quantization made integer layers of the old kind, which torch.export cannot follow",
            hint="return the float model and compile it with --quantize int8, or quantize it with PT2E",
        )
    if any(nn.parameter.is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        raise ModelError(
            f"the model that make_model() in {path} returned has lazy modules without weights",
            cause="nn.Lazy modules get their weights in the first call",
            hint="call model(*example_inputs) once in make_model(), then load the trained weights",
        )
    if not isinstance(inputs, tuple):
        fix = {Tensor: "put it into a tuple: (x,)", list: "write (a, b) instead of [a, b]"}
        raise ModelError(
            f"the example inputs that make_model() in {path} returned are {_kind(inputs)}, not a tuple of tensors",
            cause="keyword inputs are not supported"
            if isinstance(inputs, Mapping)
            else "a tuple says how many arguments forward() gets",
            hint=next(
                (text for kind, text in fix.items() if isinstance(inputs, kind)),
                "return a tuple of tensors, in the order of forward()",
            ),
        )
    for index, value in enumerate(pytree.tree_leaves(inputs)):
        if not isinstance(value, Tensor):
            numpy = type(value).__module__.split(".")[0] == "numpy"
            raise ModelError(
                f"example input {index} of make_model() in {path} is {_kind(value)}, not a tensor",
                cause="inputs are what the compiled model gets at run time, and those are tensors",
                hint="wrap it: torch.from_numpy(array)" if numpy else "give every input of forward() as a tensor",
            )
    return model, inputs


def _to_eval(model: nn.Module, reporter: Reporter) -> None:
    training = [name or type(model).__name__ for name, part in model.named_modules() if part.training]
    if not training:
        return
    if model.training:
        reporter.warn("the model is in training mode; switched to evaluation mode (model.eval())")
    else:
        shown = ", ".join(training[:3]) + (", ..." if len(training) > 3 else "")
        reporter.warn(f"parts of the model are in training mode ({shown}); switched to evaluation mode (model.eval())")
    model.eval()


def _names(module: ModuleType, attribute: str, path: Path) -> tuple[str, ...] | None:
    value = getattr(module, attribute, None)
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(v, str) for v in value):
        raise ModelError(
            f"{attribute} in {path} is {_kind(value)}, not a list of names",
            cause="one name is a list of one",
            hint=f'{attribute} = ["image"]',
        )
    return tuple(value)


def _calibration(module: ModuleType, path: Path) -> Callable[[], Iterable[tuple[Any, ...]]] | None:
    function = getattr(module, "calibration_inputs", None)
    if function is None:
        return None
    if not callable(function):
        raise ModelError(
            f"calibration_inputs in {path} is {_kind(function)}, not a function",
            hint="def calibration_inputs(): yield (x,)",
        )

    def checked() -> Iterator[tuple[Any, ...]]:
        with _user_code(path):
            try:
                for index, sample in enumerate(function()):
                    if not isinstance(sample, tuple) or not all(
                        isinstance(t, Tensor) for t in pytree.tree_leaves(sample)
                    ):
                        raise ModelError(
                            f"calibration input {index} of {path} is {_kind(sample)}, not a tuple of tensors",
                            hint="yield (x,) for a model with one input",
                        )
                    yield own_inputs(sample)
            except ModelError:
                raise
            except Exception as error:
                raise ModelError(
                    f"calibration_inputs() in {path} failed:\n{user_traceback(error, path.resolve().parent)}",
                    cause="an error in the model's own code",
                    hint="run calibration_inputs() on its own",
                ) from error

    return checked


def own_inputs(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the inputs in the same structure: compact, detached, none sharing memory with another.

    torch.export takes two inputs that are one tensor for one input, and the program then ignores the second.
    Tensors that have no plain layout (sparse, quantized, on another device) pass as they are, to be refused by name.
    """
    copies: tuple[Any, ...] = pytree.tree_map(lambda t: _compact(t) if _is_plain(t) else t, inputs)
    return copies


def _is_plain(tensor: Any) -> bool:
    return (
        isinstance(tensor, Tensor)
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and tensor.device.type == "cpu"
    )


def _compact(tensor: Tensor) -> Tensor:
    # clone(contiguous_format) would keep odd strides of dimensions of extent one.
    return torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())


# --- model.pt2 ------------------------------------------------------------------------------------------------


def _load_program(path: Path, reporter: Reporter) -> Source:
    # Registers the operators of programs that PT2E has quantized; without it they cannot be read.
    import torch.ao.quantization.fx._decomposed

    try:
        with contextlib.redirect_stdout(sys.stderr), quiet(), silent():
            program = torch.export.load(path)
    except Exception as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"{path} is not a complete program of torch.export",
            cause="it is truncated, of another kind (a state dict, a pickled module, TorchScript), or of another torch"
            + ("" if "warnings above" in first else f": {first}"),
            hint="write it again with torch.export.save(torch.export.export(model, inputs), path) "
            f"under torch {torch.__version__.split('+')[0]}",
        ) from error
    if program.example_inputs is None:
        raise ModelError(
            f"{path} holds no example inputs",
            cause="it was saved without them",
            hint="export it again with torch.export.export(model, example_inputs)",
        )
    args, kwargs = program.example_inputs
    if kwargs:
        raise ModelError(
            f"{path} was exported with keyword inputs ({', '.join(sorted(kwargs))})",
            cause="c7x passes inputs by position",
            hint="export it with a tuple of inputs: torch.export.export(model, (a, b))",
        )
    return Source(path=path, model=program.module(), inputs=tuple(args), program=program)
