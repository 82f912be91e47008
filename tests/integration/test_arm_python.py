"""tvm.contrib.c7x from the wheel, alone and beside Apache TVM, each check in a Python of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from c7x.run import vdsp
from tests.integration.arm_harness import ARM, ROOT, arm_build, module, run, site, wheel

PRELUDE = """
import gc, os, sys
import numpy as np
from pathlib import Path

ONE, TWO, SIX = (Path(text) for text in sys.argv[1:4])
X = np.arange(6, dtype=np.float32).reshape(2, 3)

def raises(kind, function, *words):
    try:
        function()
    except kind as error:
        text = str(error)
        assert all(word in text for word in words), text
        return error
    raise AssertionError(f"no {kind.__name__}")
"""

BOTH = pytest.mark.parametrize("with_tvm", [False, True], ids=["alone", "tvm"])


@pytest.fixture(scope="module")
def dsp() -> Iterator[Path]:
    with vdsp.private_server() as place:
        yield place.socket


def python(dsp: Path, code: str, *, with_tvm: bool, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs ``code`` where only the wheel, this environment's packages, and TVM or not, can be imported."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(site(with_tvm=with_tvm)),
        "C7X_TRANSPORT": "vdsp",
        "C7X_VDSP_SOCKET": str(dsp),
        **variables,
    }
    paths = [str(module()), str(module("-DOUTPUTS=2")), str(module("-DOUTPUTS=6"))]
    # -S keeps this environment's own packages out.
    command = [sys.executable, "-S", "-W", "error", "-c", PRELUDE + textwrap.dedent(code), *paths]
    return run(command, env=environment)


def check(dsp: Path, code: str, *, with_tvm: bool, **variables: str) -> None:
    done = python(dsp, code, with_tvm=with_tvm, **variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


# The document's example, with nothing changed but the shape.
EXAMPLE = """
    import tvm, numpy as np
    from tvm.contrib.c7x import C7xVirtualMachine
    with C7xVirtualMachine(str(ONE)) as vm:
        out = vm["main"](tvm.nd.array(np.random.randn(1, 3, 224, 224).astype("float32")))
"""


@BOTH
def test_example(dsp: Path, with_tvm: bool) -> None:
    check(
        dsp,
        EXAMPLE
        + """
    assert out.shape == (1, 3, 224, 224)
    assert out.dtype == "float32"
    assert out.numpy().shape == (1, 3, 224, 224)
    assert vm.last_cycles > 0
    import tvm.nd
    assert isinstance(out, tvm.nd.NDArray)
    assert isinstance(tvm.nd.empty((2, 3), "int8"), tvm.nd.NDArray)
    if hasattr(tvm, "runtime"):
        assert type(out) is tvm.runtime.Tensor
    else:
        assert "tvm_ffi" not in sys.modules
    """,
        with_tvm=with_tvm,
    )


def test_results_are_the_callers(dsp: Path) -> None:
    check(
        dsp,
        """
    from tvm.contrib.c7x import C7xVirtualMachine
    vm = C7xVirtualMachine(ONE)
    assert not vm.is_loaded and vm.last_cycles == 0
    first = vm["whatever"](X)
    assert vm.is_loaded
    vm["main"](X + 1)
    np.testing.assert_array_equal(first.numpy(), X)
    vm.close()
    vm.close()
    assert not vm.is_loaded
    np.testing.assert_array_equal(first.numpy(), X)
    raises(RuntimeError, lambda: vm["main"](X), "closed")
    with C7xVirtualMachine(TWO) as vm:
        outputs = vm["main"](X)
        assert isinstance(outputs, list) and len(outputs) == 2
        np.testing.assert_array_equal(outputs[1].numpy(), 2 * X)
    with C7xVirtualMachine(SIX) as vm:
        assert [float(out.numpy()[1, 2]) for out in vm["main"](X)] == [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]
    """,
        with_tvm=False,
    )


@BOTH
def test_inputs_of_every_kind(dsp: Path, with_tvm: bool) -> None:
    check(
        dsp,
        """
    import tvm
    from tvm.contrib.c7x import C7xVirtualMachine, NDArray

    class Foreign:
        def numpy(self):
            return X

    with C7xVirtualMachine(ONE) as vm:
        for value in (X, X.T.copy().T, X.astype(">f4"), Foreign(), tvm.nd.array(X), NDArray(X)):
            np.testing.assert_array_equal(vm["main"](value).numpy(), X)
        assert vm["main"]([[1, 2]]).shape == (1, 2)
        assert vm.create_input((0, 3)).shape == (0, 3)
        assert vm["main"](np.float32(3)).shape == ()
        assert vm["main"](np.zeros((0, 3), np.float32)).shape == (0, 3)
        assert vm["main"]().shape == (4,)
        read_only = X.copy()
        read_only.setflags(write=False)
        np.testing.assert_array_equal(vm["main"](read_only).numpy(), X)
        # A shape or dtype that changes between calls.
        for shape in ((6,), (3, 2), (6,), (1, 6, 1)):
            assert vm["main"](X.reshape(shape)).shape == shape
        raises(TypeError, lambda: vm["main"](np.zeros(3, complex)), "complex128")
        raises(TypeError, lambda: vm["main"](np.array(["a"])))
        raises(ValueError, lambda: vm["main"](np.zeros([1] * 7, np.float32)), "rank 7")
        raises(ValueError, lambda: vm["main"](*[X] * 129), "129")
        np.testing.assert_array_equal(vm["main"](*[X] * 128).numpy(), X)
    """,
        with_tvm=with_tvm,
    )


def test_views(dsp: Path) -> None:
    check(
        dsp,
        """
    from tvm.contrib.c7x import C7xVirtualMachine, ExpiredError
    vm = C7xVirtualMachine(ONE)
    view = vm.run_nocopy(X)
    assert isinstance(view, np.ndarray)
    np.testing.assert_array_equal(view, X)
    total, kept, part, plain = view.sum(), view.copy(), view[1], view * 2
    turned = view.T.reshape(-1)  # a copy that numpy makes
    assert type(plain) is np.ndarray and total == 15
    address = view.ctypes.data
    again = vm.run_nocopy(X + 1)
    assert again.ctypes.data == address, "outputs are not copied"
    import copy, pickle
    uses = [
        lambda: view[0], lambda: view.sum(), lambda: view + 1, lambda: np.mean(view), lambda: view.tolist(),
        lambda: str(view), lambda: repr(view), lambda: list(view), lambda: view.copy(), lambda: view.astype(int),
        lambda: part.max(), lambda: view.__setitem__(0, 1), lambda: np.concatenate([view, X]), lambda: view.T,
        lambda: np.from_dlpack(view), lambda: vm["main"](view), lambda: pickle.dumps(view), lambda: copy.copy(view),
        lambda: view @ X.T, lambda: 3.0 in view, lambda: np.add(X, X, out=view), lambda: memoryview(view.data),
        lambda: f"{view}", lambda: np.allclose(view, X), lambda: view == X, lambda: bool(view.any()),
    ]
    for use in uses:
        raises(ExpiredError, use, "overwritten")
    assert view.shape == (2, 3) and view.dtype == np.float32  # what it is may be asked
    np.testing.assert_array_equal(kept, X)
    kept += 1
    assert turned[1] == 3
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)), X + 1)
    raw = np.asarray(again)  # not checked, but never a crash
    vm.close()
    raises(ExpiredError, lambda: again[0])
    assert raw.sum() == 0
    del vm
    gc.collect()
    assert raw.sum() == 0
    with C7xVirtualMachine(TWO) as vm:
        views = vm.run_nocopy(X)
        assert isinstance(views, list) and len(views) == 2
        np.testing.assert_array_equal(views[1], 2 * X)
        # An inference that fails also ends them.
        raises(RuntimeError, lambda: vm.run_nocopy(np.zeros(64 << 20, np.float32)))
        raises(ExpiredError, lambda: views[0].sum())
    """,
        with_tvm=False,
    )


@BOTH
def test_staged_inputs(dsp: Path, with_tvm: bool) -> None:
    check(
        dsp,
        """
    import tvm
    from tvm.contrib.c7x import C7xVirtualMachine, ExpiredError
    vm = C7xVirtualMachine(ONE)
    staged = vm.create_input((2, 3), "float32")
    assert isinstance(staged, tvm.nd.NDArray)
    assert not staged.numpy().any()
    assert staged.copyfrom(X) is staged
    np.testing.assert_array_equal(staged.numpy(), X)
    np.testing.assert_array_equal(np.from_dlpack(staged), X)
    other = vm.create_input([4], np.int8)
    other.copyfrom(np.arange(4, dtype=np.int8))
    assert other.dtype == "int8" and other.shape == (4,)
    for _ in range(3):
        out = vm["main"](staged, other, *[X + 9] * 10)
        np.testing.assert_array_equal(out.numpy(), X)
        np.testing.assert_array_equal(other.numpy(), np.arange(4))
    # It is used where it lies: what is written through another view of the memory is seen.
    shared = np.from_dlpack(staged)
    address = shared.__array_interface__["data"][0]
    import ctypes
    ctypes.memmove(address, (2 * X).ctypes.data, X.nbytes)
    np.testing.assert_array_equal(vm["main"](staged).numpy(), 2 * X)
    assert address % 128 == 0
    staged[:] = X
    raises(ValueError, lambda: staged.copyfrom(np.zeros(7, np.float32)))
    raises(ValueError, lambda: vm.create_input([1] * 7))
    raises(RuntimeError, lambda: vm.create_input([1 << 30]), "(rc=-12)", "free")
    raises(TypeError, lambda: vm.create_input([1], "complex64"))
    vm.close()
    for use in (
        staged.numpy, lambda: staged.copyfrom(X), lambda: repr(staged), lambda: np.from_dlpack(staged),
        lambda: staged.__setitem__(slice(None), X), lambda: other.copyto(tvm.nd.empty((4,), "int8")),
    ):
        raises(ExpiredError, use, "closed")
    with C7xVirtualMachine(ONE) as second:
        raises(ExpiredError, lambda: second["main"](staged), "closed")
        assert not shared.any()  # neither the new session's memory nor a crash
        shared[...] = 5
        np.testing.assert_array_equal(second["main"](X).numpy(), X)
    del vm, second
    gc.collect()
    assert shared[0, 0] == 5
    """,
        with_tvm=with_tvm,
    )


def test_errors(dsp: Path, tmp_path: Path) -> None:
    check(
        dsp,
        f"""
    import errno
    from tvm.contrib.c7x import C7xError, C7xVirtualMachine
    vm = C7xVirtualMachine("/nonexistent/lib0.out")  # connects at the first use
    raises(FileNotFoundError, lambda: vm["main"](X), "/nonexistent/lib0.out")
    raises(RuntimeError, lambda: C7xVirtualMachine(ONE, so_path="./none.so"), "none.so")
    raises(RuntimeError, lambda: C7xVirtualMachine(ONE, so_path="/etc/passwd"), "/etc/passwd")
    error = raises(C7xError, lambda: C7xVirtualMachine("/etc/passwd")["main"](X), "Dynamic load failed", "(rc=-9)")
    assert (error.rc, error.domain, error.code) == (-9, "dsp", -9)
    with C7xVirtualMachine({str(module("-DRETURN=-1"))!r}) as vm:
        error = raises(C7xError, lambda: vm["main"](X), "Function call failed", "(rc=-11)", "returned -1")
    with C7xVirtualMachine({str(module("-DCRASH"))!r}) as vm:
        raises(RuntimeError, lambda: vm.run_nocopy(X), "(rc=-11)")
    with C7xVirtualMachine(ONE) as vm:
        vm["main"](X)
        error = raises(C7xError, lambda: C7xVirtualMachine(ONE)["main"](X), "busy")
        assert error.domain == "client"
    C7xVirtualMachine(ONE)["main"](X)  # nobody closes it
    gc.collect()
    texts = []
    with C7xVirtualMachine(ONE, timeout_ms=5000, printf=texts.append) as vm:
        vm["main"](X, X)
    assert texts == ["inputs: 2\\n"]
    os.environ["C7X_VDSP_SOCKET"] = "/nonexistent.sock"
    raises(RuntimeError, lambda: C7xVirtualMachine(ONE)["main"](X), "Device not found", "c7x vdsp start")
    """,
        with_tvm=False,
    )


def test_forks_threads_and_exit(dsp: Path) -> None:
    check(
        dsp,
        """
    import threading
    from tvm.contrib.c7x import C7xVirtualMachine
    vm = C7xVirtualMachine(ONE)
    vm["main"](X)
    child = os.fork()
    if child == 0:
        try:
            raises(RuntimeError, lambda: vm["main"](X), "forked")
            vm.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(vm["main"](X).numpy(), X)  # the child unloaded nothing
    wrong = []
    def work(start):
        for i in range(50):
            if not (vm["main"](X + start + i).numpy() == X + start + i).all():
                wrong.append(i)
    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not wrong
    """,
        with_tvm=False,
    )
    check(dsp, "from tvm.contrib.c7x import C7xVirtualMachine\nC7xVirtualMachine(ONE)['main'](X)", with_tvm=False)


def test_library_lookup(dsp: Path, tmp_path: Path) -> None:
    other = tmp_path / "lib"
    other.mkdir()
    (other / "mine.so").symlink_to(arm_build() / "libc7x_arm_runtime.so")
    check(
        dsp,
        f"""
    from tvm.contrib.c7x import c7x_runtime
    bundled = c7x_runtime._find_library("libc7x_arm_runtime.so")
    assert bundled.endswith("tvm/data/ti_dsp/firmware/libc7x_arm_runtime.so"), bundled
    assert c7x_runtime._find_library("./x.so") == "./x.so"
    assert c7x_runtime._find_library("/y/x.so") == "/y/x.so"
    os.chdir({str(other)!r})
    with c7x_runtime.C7xVirtualMachine(ONE, "./mine.so") as vm:
        np.testing.assert_array_equal(vm["main"](X).numpy(), X)
    """,
        with_tvm=False,
    )


def test_paths(dsp: Path) -> None:
    check(
        dsp,
        """
    import platform
    from tvm.data.ti_dsp import paths
    root = paths.get_ti_dsp_path()
    assert root.parts[-3:] == ("tvm", "data", "ti_dsp")
    assert (paths.find_c7x_include_dir() / "c7x_runtime.h").is_file()
    assert (paths.find_c7x_include_dir() / "dlpack" / "dlpack.h").is_file()
    for machine, found in (("x86_64", False), ("aarch64", True), ("arm64", True)):
        platform.machine = lambda: machine
        for function, name in (
            (paths.find_c7x_arm_runtime_so, "libc7x_arm_runtime.so"), (paths.find_c7x_compute_binary, "c7x_compute")
        ):
            assert function() == (str(root / "firmware" / name) if found else None)
    assert paths.find_tidl_relax_so() is None
    assert paths.find_dsp_runtime_dir() is None
    import tempfile
    with tempfile.TemporaryDirectory() as home:
        os.environ["TVM_HOME"] = home
        assert paths.find_dsp_runtime_dir() is None
        (Path(home) / "src" / "runtime" / "ti_dsp").mkdir(parents=True)
        assert paths.find_dsp_runtime_dir() == Path(home) / "src" / "runtime" / "ti_dsp"
    """,
        with_tvm=False,
    )


def test_deploy(dsp: Path, tmp_path: Path) -> None:
    (tmp_path / "proc" / "42").mkdir(parents=True)
    (tmp_path / "proc" / "42" / "comm").write_text("c7x_compute\n")
    (tmp_path / "proc" / "43").mkdir()
    (tmp_path / "proc" / "43" / "comm").write_text("bash\n")
    (tmp_path / "image.out").write_bytes(b"firmware")
    check(
        dsp,
        f"""
    import contextlib, io, platform, stat
    from tvm.data.ti_dsp import deploy, paths
    root, killed, commands = Path({str(tmp_path)!r}), [], []
    def go(firmware):
        return deploy.deploy(root, firmware=firmware, kill=lambda *what: killed.append(what), run=commands.append)
    lines = go(None)
    assert "no firmware" in lines[1] and not (root / "lib").exists()
    assert killed == [(42, 15)]
    assert commands == [["ldconfig", "-r", str(root)]]
    lines = go(root / "image.out")
    assert lines == ["Firmware staged -- reboot the board to activate"]
    modes = {{"lib/firmware/j722s-c71_0-fw": 0o644, "usr/local/bin/c7x_compute": 0o755,
             "usr/local/lib/libc7x_arm_runtime.so": 0o755}}
    for name, mode in modes.items():
        assert stat.S_IMODE((root / name).stat().st_mode) == mode, name
    link = root / "usr/local/lib/libc7x_arm_runtime.so.1"
    assert os.readlink(link) == "libc7x_arm_runtime.so"
    assert (root / "etc/ld.so.conf.d/c7x_arm_runtime.conf").read_text() == "/usr/local/lib\\n"
    raises(FileNotFoundError, lambda: go(root / "none"), "none")
    platform.machine = lambda: "x86_64"
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert deploy.main([]) == 1
    assert "x86_64" in said.getvalue()
    platform.machine, os.geteuid = lambda: "aarch64", lambda: 1000
    with contextlib.redirect_stderr(io.StringIO()) as said:
        assert deploy.main([]) == 1
    assert "root" in said.getvalue()
    """,
        with_tvm=False,
    )


def test_wheel(tmp_path: Path) -> None:
    assert wheel().name.startswith("tvm_ti_c7x_inference-0.27.0.post1-py3-none-linux_")
    with zipfile.ZipFile(wheel()) as archive:
        names = set(archive.namelist())
        sizes = {info.filename: info.file_size for info in archive.infolist()}
    assert not {"tvm/__init__.py", "tvm/contrib/__init__.py", "tvm/data/__init__.py"} & names  # TVM's, where it is
    assert sizes["tvm/data/ti_dsp/firmware/libc7x_arm_runtime.so"] > 10_000
    build = [sys.executable, str(ARM / "python" / "build_wheel.py"), "--build", str(arm_build())]
    done = run([*build, "--output", str(tmp_path), "--license", str(ROOT / "LICENSE")])
    assert done.returncode == 0, done.stderr
    assert "no DSP firmware" in done.stderr
    again = Path(done.stdout.strip())
    assert again.read_bytes() == wheel().read_bytes()
    numbered = run([*build, "--output", str(tmp_path)], env={**os.environ, "DSP_BUILD_NUM": "7"})
    assert ".post7-" in numbered.stdout
    assert run([*build[:2], "--build", str(tmp_path)]).returncode == 1
    installed = run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(tmp_path / "t"),
         str(wheel())]
    )  # fmt: skip
    assert installed.returncode == 0, installed.stderr
    assert os.access(tmp_path / "t" / "tvm" / "data" / "ti_dsp" / "firmware" / "c7x_compute", os.X_OK)
