"""Arrays that go into and come out of a ``C7xVirtualMachine``, with TVM and without.

Memory shared with the DSP has a lifetime: results until the next inference, inputs made by ``create_input`` until the
virtual machine is closed. Objects that show such memory check it on every use and raise ``ExpiredError``. The addresses
stay readable for as long as any object, of whatever library, refers to them, so that nothing crashes.
"""

from __future__ import annotations

import contextlib
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tvm.contrib.c7x.c7x_runtime import Memory

try:
    # Without TVM the package `tvm` consists of this distribution alone, and has no such module.
    from tvm import runtime as tvm_runtime
except ImportError:
    tvm_runtime = None

set_tensor_class = None
if tvm_runtime is not None:
    # Not public. Without it, inputs that outlive their virtual machine show zeros instead of raising.
    with contextlib.suppress(ImportError):
        from tvm_ffi.core import _set_class_tensor as set_tensor_class

#: What TVM asks of memory that it shares.
_TVM_ALIGNMENT = 64


_CLOSED = "this input is no longer valid: its C7xVirtualMachine was closed"


class ExpiredError(RuntimeError):
    """Memory shared with the DSP was used after its lifetime."""


class Window:
    """Makes NumPy arrays over shared memory that keep ``memory`` alive."""

    def __init__(self, memory: Memory, address: int, size: int) -> None:
        self.memory = memory
        self.__array_interface__ = {"version": 3, "shape": (size,), "typestr": "|u1", "data": (address, False)}

    def array(self) -> np.ndarray:
        """The memory as bytes."""
        return np.asarray(self)


# ------------------------------------------------------------------------------------------------------ result views

#: Attributes that say what an array is, not what it holds; those with an underscore are looked up at every step.
_METADATA = frozenset({"base", "ctypes", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides"})


def _plain(value: Any) -> Any:
    """``value`` with result views, also inside of lists, tuples and dictionaries, replaced by plain arrays."""
    if isinstance(value, ResultView):
        return value.checked()
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_plain(item) for item in value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class ResultView(np.ndarray):
    """An output where the DSP wrote it, valid until the next inference; ``copy()`` it to keep it.

    Results of computations with it are ordinary arrays. ``numpy.asarray`` and other functions that take an array's
    memory without asking do not notice that a view has expired: they show what the memory holds now, which after
    ``close`` is zeros.
    """

    _memory: Memory | None = None
    _generation = 0

    @classmethod
    def over(cls, array: np.ndarray, memory: Memory) -> ResultView:
        """A view of ``array`` that is valid for the current results of ``memory``."""
        view = array.view(cls)
        view._memory = memory
        view._generation = memory.generation
        return view

    def __array_finalize__(self, obj: Any) -> None:
        if isinstance(obj, ResultView):
            self._memory = obj._memory
            self._generation = obj._generation

    def checked(self) -> np.ndarray:
        """The same memory as an ordinary array (ExpiredError when it is no longer valid)."""
        memory = self._memory
        if memory is not None and memory.generation != self._generation and self._is_shared():
            raise ExpiredError(
                "this output was overwritten: it is a view that is valid until the next inference or close(); "
                "use vm[...](...) or copy() to keep outputs"
            )
        return np.ndarray.view(self, np.ndarray)

    def _is_shared(self) -> bool:
        # Copies inherit the attributes, but not the memory.
        base = self.base
        while isinstance(base, np.ndarray):
            base = base.base
        return isinstance(base, Window)

    def __getattribute__(self, name: str) -> Any:
        if name[0] != "_" and name != "checked" and name not in _METADATA:
            self.checked()
        return super().__getattribute__(name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*_plain(inputs), **_plain(kwargs))

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*_plain(args), **_plain(kwargs))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        plain = self.checked()
        return np.array(plain, dtype=dtype) if copy else plain if dtype is None else plain.astype(dtype, copy=False)

    def copy(self, order: Any = "C") -> np.ndarray:
        return self.checked().copy(order)

    def astype(self, *args: Any, **kwargs: Any) -> np.ndarray:
        return self.checked().astype(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        self.checked()
        return super().__getitem__(index)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.checked()
        super().__setitem__(index, value)

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.checked().__dlpack__(**kwargs)

    def __iter__(self) -> Any:
        return iter(self.checked())

    def __contains__(self, item: Any) -> bool:
        return item in self.checked()

    def __repr__(self) -> str:
        return repr(self.checked())

    def __str__(self) -> str:
        return str(self.checked())

    def __format__(self, spec: str) -> str:
        return format(self.checked(), spec)

    def __float__(self) -> float:
        return float(self.checked())

    def __int__(self) -> int:
        return int(self.checked())

    def __bool__(self) -> bool:
        return bool(self.checked())

    def __copy__(self) -> np.ndarray:
        return self.checked().copy()

    def __deepcopy__(self, memo: Any) -> np.ndarray:
        return self.checked().copy()

    def __reduce__(self) -> Any:
        # Pickles as an ordinary array.
        return self.checked().__reduce__()


# --------------------------------------------------------------------------------------------------- arrays without TVM


class NDArray:
    """A compact array on the CPU with those methods of TVM's tensors that programs around inference use.

    Args:
        array: the memory; not copied.
        memory: of the DSP, when ``array`` lies there.
    """

    def __init__(self, array: np.ndarray, memory: Memory | None = None) -> None:
        self._array = array
        self._memory = memory

    def checked(self) -> np.ndarray:
        """The memory as a NumPy array (ExpiredError when it was an input of a virtual machine that is closed)."""
        if self._memory is not None and not self._memory.open:
            raise ExpiredError(_CLOSED)
        return self._array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> str:
        """The name, as in TVM."""
        return self._array.dtype.name

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def size(self) -> int:
        return self._array.size

    def numpy(self) -> np.ndarray:
        """A copy."""
        return self.checked().copy()

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Copy ``source``, converted to this array's dtype, into this array (ValueError: another shape)."""
        target = self.checked()
        if isinstance(source, NDArray):
            source = source.checked()
        elif not isinstance(source, np.ndarray) and hasattr(source, "numpy"):
            source = source.numpy()
        source = np.asarray(source)
        if source.shape != target.shape:
            raise ValueError(f"array shape do not match the shape of NDArray {source.shape} vs {target.shape}")
        target[...] = source
        return self

    def copyto(self, target: Any) -> Any:
        """Copy this array into ``target``, which has ``copyfrom``."""
        return target.copyfrom(self.checked())

    def __setitem__(self, index: Any, value: Any) -> None:
        if index is not Ellipsis and index != slice(None):
            raise ValueError("only x[:] = value is possible")
        self.copyfrom(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.checked()
        return np.array(array, dtype=dtype) if copy is not False else array

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.checked().__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __len__(self) -> int:
        return len(self._array)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.NDArray shape={self.shape}, {self.dtype}>\n{self.checked()!r}"


# ------------------------------------------------------------------------------------------------- tensors beside TVM

#: The memory of staged tensors by their address. A tensor keeps its memory alive, so an entry lasts as long as it does.
_staged: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()


def _check_staged(address: int) -> None:
    memory = _staged.get(address)
    if memory is not None and not memory.open:
        raise ExpiredError(_CLOSED)


if tvm_runtime is not None:

    class StagedTensor(tvm_runtime.Tensor):
        """A ``tvm.runtime.Tensor`` over memory shared with the DSP, valid until its virtual machine is closed."""

        # TVM makes tensors of a class with the layout of its own.
        __slots__ = ()

        def numpy(self) -> np.ndarray:
            """A copy."""
            _check_staged(self.data_ptr())
            return super().numpy()

        def copyfrom(self, source_array: Any) -> StagedTensor:
            _check_staged(self.data_ptr())
            super().copyfrom(source_array)
            return self

        def copyto(self, target: Any, mem_scope: str | None = None) -> Any:
            _check_staged(self.data_ptr())
            return super().copyto(target, mem_scope)

        def __setitem__(self, in_slice: Any, value: Any) -> None:
            _check_staged(self.data_ptr())
            super().__setitem__(in_slice, value)

        def __dlpack__(self, **kwargs: Any) -> Any:
            _check_staged(self.data_ptr())
            return super().__dlpack__(**kwargs)

        def __repr__(self) -> str:
            _check_staged(self.data_ptr())
            return super().__repr__()


def _empty_tensor(array: np.ndarray) -> Any:
    # NumPy gives an empty array whatever address it likes, and TVM asks for an aligned one.
    return tvm_runtime.empty(array.shape, array.dtype.name)


def make_staged(array: np.ndarray, memory: Memory) -> Any:
    """An input over ``array``, which lies in memory shared with the DSP."""
    if tvm_runtime is None:
        return NDArray(array, memory)
    if array.size == 0:
        return _empty_tensor(array)
    if set_tensor_class is None:
        tensor = tvm_runtime.from_dlpack(array)
    else:
        # A tensor's class is chosen when it is made and cannot be changed. A tensor that another thread makes meanwhile
        # works as any other.
        set_tensor_class(StagedTensor)
        try:
            tensor = tvm_runtime.from_dlpack(array)
        finally:
            set_tensor_class(tvm_runtime.Tensor)
    _staged[tensor.data_ptr()] = memory
    return tensor


def make_output(array: np.ndarray) -> Any:
    """A copy of a result: a ``tvm.runtime.Tensor``, or an ``NDArray`` without TVM."""
    if tvm_runtime is None:
        return NDArray(array.copy())
    if array.size == 0:
        return _empty_tensor(array)
    buffer = np.empty(array.nbytes + _TVM_ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _TVM_ALIGNMENT
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return tvm_runtime.from_dlpack(copy)


def as_numpy(value: Any) -> np.ndarray:
    """What a caller passed as an input, as a compact array in this machine's byte order; not copied when it is one."""
    if isinstance(value, (ResultView, NDArray)):
        array = value.checked()
    elif isinstance(value, np.ndarray):
        array = value
    elif tvm_runtime is not None and isinstance(value, tvm_runtime.Tensor):
        _check_staged(value.data_ptr())
        array = _share(value)
    elif hasattr(value, "numpy"):
        array = np.asarray(value.numpy())
    else:
        array = np.asarray(value)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    # ascontiguousarray would give scalars a dimension.
    return array if array.flags.c_contiguous else np.array(array, order="C")


def _share(tensor: Any) -> np.ndarray:
    try:
        return np.from_dlpack(tensor)
    except (BufferError, RuntimeError, TypeError, ValueError):
        # Another device, or a dtype that NumPy does not know.
        return tensor.numpy()


# ------------------------------------------------------------------------------------------------------------- tvm.nd


def array(arr: Any, device: Any = None) -> Any:
    """An array with the content of ``arr``: ``tvm.runtime.tensor`` where TVM is there, else an ``NDArray``."""
    if tvm_runtime is not None:
        return tvm_runtime.tensor(arr, device)
    if isinstance(arr, NDArray):
        return NDArray(arr.numpy())
    return NDArray(np.array(arr, order="C"))


def empty(shape: Sequence[int] | int, dtype: Any = "float32", device: Any = None) -> Any:
    """An array whose content is not set."""
    if tvm_runtime is not None:
        return tvm_runtime.empty((shape,) if isinstance(shape, int) else shape, np.dtype(dtype).name, device)
    return NDArray(np.empty(shape, np.dtype(dtype)))


def install_nd() -> None:
    """Add the module ``tvm.nd`` where TVM has none."""
    package = sys.modules["tvm"]
    if hasattr(package, "nd"):
        return
    module = types.ModuleType("tvm.nd", "Arrays, as older versions of TVM had them; added by tvm.contrib.c7x.")
    module.__dict__.update(
        array=array,
        empty=empty,
        NDArray=NDArray if tvm_runtime is None else tvm_runtime.Tensor,
        __all__=["array", "empty"],
    )
    sys.modules["tvm.nd"] = module
    package.nd = module  # type: ignore[attr-defined]
