"""``C7xVirtualMachine``: loads a module onto the DSP and runs it, over libc7x_arm_runtime.so."""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import os
import threading
import weakref
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm.contrib.c7x._arrays import ResultView, Window, as_numpy, make_output, make_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_RANK = 6
MAX_INPUTS = 128
MAX_OUTPUTS = 64

_LIBRARY_NAME = "libc7x_arm_runtime.so"

# enum c7x_error_domain
_DOMAINS = {0: "none", 1: "errno", 2: "dsp", 3: "client"}

# DLPack's dtype codes by NumPy's kinds. Bool travels as an unsigned byte.
_CODES = {"i": 0, "u": 1, "b": 1, "f": 2}
_DTYPES = {
    (code, 8 * np.dtype(name).itemsize): np.dtype(name)
    for code, names in (
        (0, ("int8", "int16", "int32", "int64")),
        (1, ("uint8", "uint16", "uint32", "uint64")),
        (2, ("float16", "float32", "float64")),
        (6, ("bool",)),
    )
    for name in names
}


class _TensorDesc(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("data_size", c_size_t),
        ("ndim", c_int32),
        ("dtype_code", c_int32),
        ("dtype_bits", c_int32),
        ("shape", c_int64 * MAX_RANK),
    )


class _ErrorStruct(ctypes.Structure):
    _fields_ = (("domain", c_int32), ("code", c_int32), ("text", c_char * 248))


_PrintfFunction = ctypes.CFUNCTYPE(None, c_void_p, c_size_t, c_void_p)

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "c7x_client_open": (c_void_p, []),
    "c7x_client_close_keep_memory": (c_void_p, [c_void_p]),
    "c7x_release_memory": (None, [c_void_p]),
    "c7x_client_set_timeout": (c_int, [c_void_p, c_int]),
    "c7x_client_cancel": (c_int, [c_void_p]),
    "c7x_client_get_input_buffer": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "c7x_client_get_output_buffer": (c_void_p, [c_void_p, POINTER(c_size_t)]),
    "c7x_client_stage_alloc": (c_int, [c_void_p, c_size_t, POINTER(c_void_p)]),
    "c7x_client_dyn_load": (c_int, [c_void_p, c_char_p, POINTER(c_uint32)]),
    "c7x_client_dyn_unload": (c_int, [c_void_p, c_uint32]),
    # Called once an inference: arguments are ctypes objects made beforehand, so nothing is to be converted.
    "c7x_client_infer_bounded": (c_int, []),
    "c7x_client_last_error": (c_int, [c_void_p, POINTER(_ErrorStruct)]),
    "c7x_strerror": (c_char_p, [c_int]),
    "c7x_client_set_printf_callback": (None, [c_void_p, _PrintfFunction, c_void_p]),
}


class C7xError(RuntimeError):
    """The library or the DSP failed.

    Attributes:
        rc: what the C function returned.
        domain: ``"dsp"`` (``code`` is the DSP's status), ``"client"`` (a number of ``enum c7x_client_error``) or
            ``"errno"``.
        code: in that domain.
    """

    def __init__(self, text: str, *, rc: int, domain: str, code: int) -> None:
        super().__init__(text)
        self.rc = rc
        self.domain = domain
        self.code = code


def _bundled_library(name: str) -> Path | None:
    # Asked for lazily: the paths module belongs to the same distribution.
    from tvm.data.ti_dsp.paths import get_ti_dsp_path

    for folder in (Path(__file__).parent, get_ti_dsp_path() / "firmware"):
        if (folder / name).is_file():
            return folder / name
    return None


def _find_library(so_path: str) -> str:
    """Absolute paths and those that start with ``./`` as they are; else the bundled copy, then the system's."""
    if Path(so_path).is_absolute() or so_path.startswith("./"):
        return so_path
    bundled = _bundled_library(so_path)
    if bundled is not None:
        return str(bundled)
    # As a last resort the name itself, which also finds what LD_LIBRARY_PATH names.
    return ctypes.util.find_library("c7x_arm_runtime") or so_path


def load_library(so_path: str = _LIBRARY_NAME) -> ctypes.CDLL:
    """The C library, with the types of its functions set (RuntimeError when it cannot be loaded)."""
    path = _find_library(so_path)
    try:
        library = ctypes.CDLL(path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            if arguments:
                function.argtypes = arguments
    except (OSError, AttributeError) as error:
        raise RuntimeError(
            f"cannot load {path}: {error}; install the tvm-ti-c7x-inference wheel for this machine, or pass so_path"
        ) from error
    return library


class Memory:
    """The memory shared with the DSP, and whether what it shows is still valid.

    Attributes:
        generation: grows with every inference; views of results are valid for one of them.
        open: until the virtual machine is closed.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self.generation = 0
        self.open = True
        self._library = library

    def expire(self, address: int | None) -> None:
        """The client is closed; ``address`` is private memory in the place of the shared one, released with this."""
        self.open = False
        self.generation += 1
        if address:
            weakref.finalize(self, self._library.c7x_release_memory, address)


class _Session:
    """A connection with a loaded module: what has to be released, apart from the object that users hold."""

    def __init__(self, library: ctypes.CDLL, module_path: Path, timeout_ms: int | None, printf: Any) -> None:
        self.library = library
        self.pid = os.getpid()
        self.client: int | None = library.c7x_client_open()
        self.handle = 0
        self.memory = Memory(library)
        if not self.client:
            raise self.error(-errno.ENODEV, "cannot connect to the DSP")
        try:
            if timeout_ms is not None:
                self.check(library.c7x_client_set_timeout(self.client, timeout_ms), "cannot set the timeout")
            # Kept here, since the library calls it for as long as the client lives.
            self.printf = _PrintfFunction(printf) if printf is not None else _PrintfFunction(0)
            library.c7x_client_set_printf_callback(self.client, self.printf, None)
            handle = c_uint32()
            rc = library.c7x_client_dyn_load(self.client, os.fsencode(module_path), byref(handle))
            self.check(rc, f"cannot load {module_path}")
            self.handle = handle.value
            size = c_size_t()
            address = library.c7x_client_get_output_buffer(self.client, byref(size))
            self.results_address: int = address
            self.results = Window(self.memory, address, size.value).array()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        client, self.client = self.client, None
        if client is None:
            return
        if os.getpid() != self.pid:
            # A forked child: connection and module are its parent's.
            self.memory.expire(None)
            return
        if self.handle:
            self.library.c7x_client_dyn_unload(client, self.handle)
        self.memory.expire(self.library.c7x_client_close_keep_memory(client))

    def error(self, rc: int, what: str) -> C7xError:
        details = _ErrorStruct()
        self.library.c7x_client_last_error(self.client, byref(details))
        text = self.library.c7x_strerror(rc).decode()
        detail = details.text.decode(errors="replace")
        return C7xError(
            f"{what}: {text} (rc={rc})" + (f": {detail}" if detail else ""),
            rc=rc,
            domain=_DOMAINS.get(details.domain, "none"),
            code=details.code,
        )

    def check(self, rc: int, what: str) -> None:
        if rc != 0:
            raise self.error(rc, what)


def _dtype_code(dtype: np.dtype) -> int:
    if dtype.kind in _CODES:
        return _CODES[dtype.kind]
    if dtype.name == "bfloat16":
        return 4
    raise TypeError(f"the DSP has no dtype {dtype.name}")


def _output_dtype(desc: _TensorDesc, shape: tuple[int, ...]) -> np.dtype:
    dtype = _DTYPES.get((desc.dtype_code, desc.dtype_bits))
    if dtype is not None:
        return dtype
    # As documented, when the sizes allow it.
    if desc.data_size == 4 * int(np.prod(shape, dtype=np.int64)):
        return np.dtype("float32")
    raise RuntimeError(f"an output has dtype code {desc.dtype_code} with {desc.dtype_bits} bits, which NumPy has not")


class C7xVirtualMachine:
    """A module on the DSP.

    Connects and loads the module at the first use. Inferences of several threads are carried out one after the other.

    Args:
        module_path: ``lib0.out``.
        so_path: the C library. An absolute path, or one that starts with ``./``, is taken as it is; any other name is
            looked for in this package, then on the system.
        timeout_ms: how long to wait for the DSP's answers, -1 for ever; default: ``C7X_TIMEOUT_MS``, else 60 s.
        printf: called with the text that the module printed during an inference.

    Raises:
        RuntimeError: the C library cannot be loaded.
    """

    def __init__(
        self,
        module_path: str | os.PathLike[str],
        so_path: str = _LIBRARY_NAME,
        *,
        timeout_ms: int | None = None,
        printf: Callable[[str], None] | None = None,
    ) -> None:
        self._module_path = Path(module_path)
        self._library = load_library(os.fspath(so_path))
        self._timeout_ms = timeout_ms
        self._printf = None if printf is None else _text_callback(printf)
        self._lock = threading.RLock()
        self._session: _Session | None = None
        self._finalizer: Any = None
        self._closed = False
        self._inputs = (_TensorDesc * MAX_INPUTS)()
        self._described: list[tuple[tuple[int, ...], np.dtype] | None] = [None] * MAX_INPUTS
        self._outputs = (_TensorDesc * MAX_OUTPUTS)()
        self._num_outputs = c_int()
        self._cycles = c_uint64()

    # ---- inference

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A function that runs the module, whatever the name.

        It takes the inputs (tvm arrays or anything that NumPy makes an array of) and returns one array, or a list of
        arrays when the module has not exactly one output. What it returns is the caller's.

        Raises (the function):
            FileNotFoundError: there is no module at ``module_path``.
            C7xError: the DSP failed.
        """
        del name
        return self._run_copy

    def _run_copy(self, *inputs: Any) -> Any:
        with self._lock:
            outputs = [make_output(array) for array in self._infer(inputs)]
        return outputs[0] if len(outputs) == 1 else outputs

    def run_nocopy(self, *inputs: Any) -> Any:
        """Runs the module; returns views of the outputs where the DSP wrote them.

        Returns:
            One NumPy array, or a list when the module has not exactly one output. They are valid until the next
            inference or ``close``; using them afterwards raises ``ExpiredError``.
        """
        with self._lock:
            arrays = self._infer(inputs)
            memory = self._open().memory
            outputs = [ResultView.over(array, memory) for array in arrays]
        return outputs[0] if len(outputs) == 1 else outputs

    def _infer(self, inputs: Sequence[Any]) -> list[np.ndarray]:
        session = self._open()
        if len(inputs) > MAX_INPUTS:
            raise ValueError(f"{len(inputs)} inputs: the DSP takes at most {MAX_INPUTS}")
        # Alive until the call is over: descriptors hold addresses only.
        arrays = [as_numpy(value) for value in inputs]
        for index, array in enumerate(arrays):
            self._describe(index, array)
        # The outputs of the last inference are gone from here on, even if this one fails.
        session.memory.generation += 1
        rc = session.library.c7x_client_infer_bounded(
            c_void_p(session.client),
            c_uint32(session.handle),
            c_uint32(0),
            self._inputs,
            c_int(len(arrays)),
            self._outputs,
            c_int(MAX_OUTPUTS),
            byref(self._num_outputs),
            byref(self._cycles),
            c_uint32(0),
        )
        if rc != 0:
            raise session.error(rc, "inference failed")
        return [self._result(session, self._outputs[index]) for index in range(self._num_outputs.value)]

    def _describe(self, index: int, array: np.ndarray) -> None:
        desc = self._inputs[index]
        # An empty array may have no address, which would stand for the KV cache.
        desc.data = array.__array_interface__["data"][0] or ctypes.addressof(desc)
        key = (array.shape, array.dtype)
        if self._described[index] == key:
            return
        if array.ndim > MAX_RANK:
            raise ValueError(f"input {index} has rank {array.ndim}; the DSP takes 0 to {MAX_RANK}")
        desc.dtype_code = _dtype_code(array.dtype)
        desc.dtype_bits = 8 * array.dtype.itemsize
        desc.data_size = array.nbytes
        desc.ndim = array.ndim
        desc.shape[: array.ndim] = array.shape
        self._described[index] = key

    @staticmethod
    def _result(session: _Session, desc: _TensorDesc) -> np.ndarray:
        shape = tuple(desc.shape[: desc.ndim])
        # The library has made sure that the output lies in the result region.
        start = desc.data - session.results_address
        data = session.results[start : start + desc.data_size]
        return data.view(_output_dtype(desc, shape)).reshape(shape)

    # ---- inputs in shared memory

    def create_input(self, shape: Sequence[int] | int, dtype: Any = "float32") -> Any:
        """An input in memory shared with the DSP: what is written there is not copied again.

        Returns:
            A ``tvm.runtime.Tensor``, or an ``NDArray`` without TVM; fill it with ``copyfrom``. Valid until ``close``.

        Raises:
            C7xError: the memory is full.
            ValueError: a rank above 6.
        """
        shape = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        kind = np.dtype(dtype)
        _dtype_code(kind)
        if len(shape) > MAX_RANK or any(size < 0 for size in shape):
            raise ValueError(f"shape {shape}: the DSP takes 0 to {MAX_RANK} dimensions")
        nbytes = kind.itemsize
        for size in shape:
            nbytes *= size
        with self._lock:
            session = self._open()
            address = c_void_p()
            rc = session.library.c7x_client_stage_alloc(session.client, nbytes, byref(address))
            session.check(rc, f"cannot make an input of {nbytes} bytes")
            window = Window(session.memory, address.value or 0, nbytes).array()
            window[...] = 0
            return make_staged(window.view(kind).reshape(shape), session.memory)

    # ---- life

    def _open(self) -> _Session:
        session = self._session
        if session is not None:
            if os.getpid() != session.pid:
                raise RuntimeError("a C7xVirtualMachine cannot be used in a forked process: make it there")
            return session
        with self._lock:
            if self._session is None:
                if self._closed:
                    raise RuntimeError("this C7xVirtualMachine is closed")
                if not self._module_path.is_file():
                    raise FileNotFoundError(errno.ENOENT, "there is no module", str(self._module_path))
                self._session = _Session(self._library, self._module_path, self._timeout_ms, self._printf)
                self._finalizer = weakref.finalize(self, self._session.close)
            return self._session

    def close(self) -> None:
        """Unload the module and disconnect; may be called again."""
        with self._lock:
            self._closed = True
            if self._finalizer is not None:
                self._finalizer()
            self._session = None

    def cancel(self) -> None:
        """Make the inference that another thread waits for end with an error."""
        session = self._session
        client = session.client if session is not None else None
        if session is not None and client is not None:
            session.library.c7x_client_cancel(client)

    def __enter__(self) -> C7xVirtualMachine:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def last_cycles(self) -> int:
        """DSP cycles of the last inference, 0 initially; of the virtual DSP nanoseconds of host time."""
        return self._cycles.value

    @property
    def is_loaded(self) -> bool:
        """Whether the module is on the DSP."""
        return self._session is not None


def _text_callback(function: Callable[[str], None]) -> Callable[[Any, Any, Any], None]:
    def callback(text: int | None, size: int, user: object) -> None:
        del user
        function(ctypes.string_at(text or 0, size).decode("utf-8", errors="replace"))

    return callback
