"""Stages in a container, with a daemon that is none (tests/unit/fake_docker.py); tests/container has a real one."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import docker.errors
import pytest
import requests

from c7x.engine import docker as engine_module
from c7x.engine import relay
from c7x.engine.daemon import connect, explained, find_image, refusal
from c7x.engine.docker import LABEL, PID_LABEL, ContainerOptions, DockerEngine, scratch_folder
from c7x.engine.events import StageOutcome
from c7x.engine.local import LocalEngine
from c7x.engine.mounts import Mount, explain, inside, mirrored, plan_mounts
from c7x.engine.select import FallbackEngine, runs_here, select_engine
from c7x.errors import (
    C7xError,
    CrashError,
    DependencyError,
    EngineError,
    ImageError,
    LimitError,
    ModelError,
    MountError,
    UsageError,
    WorkspaceError,
)
from c7x.stages import STAGES, StageRequest, requests_for
from c7x.version import __version__
from c7x.workspace import Workspace
from tests.unit.engine_stages import TABLE
from tests.unit.fake_docker import IMAGE, FakeClient, api_error
from tests.unit.test_engine import Recorder
from tests.unit.test_engine import run as run_locally


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeClient]:
    fake = FakeClient()
    monkeypatch.setattr(docker, "APIClient", lambda **options: fake)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    yield fake
    fake.shut_down()


@pytest.fixture
def no_daemon() -> Iterator[None]:
    """The SDK leaves the socket of a connection that failed to the garbage collector."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def run(
    tmp_path: Path, *stages: str, listener: Any = None, options: ContainerOptions | None = None, **values: str
) -> list[StageOutcome]:
    requests = [
        StageRequest(name=name, options={k: v for k, v in values.items() if k in TABLE[name].options})
        for name in stages
    ]
    return DockerEngine(options, table=TABLE).run(Workspace(tmp_path / "build"), requests, listener)


def names(client: FakeClient) -> list[str]:
    return [name for name, _ in client.calls]


def leftovers(tmp_path: Path) -> set[str]:
    build = tmp_path / "build"
    return {p.name for p in build.iterdir()} if build.exists() else set()


# ---------------------------------------------------------------------------------------------------- as if it ran here


def test_events_results_and_files_are_those_of_the_local_engine(client: FakeClient, tmp_path: Path) -> None:
    here, there = Recorder(), Recorder()
    (tmp_path / "here").mkdir()
    local = run_locally(tmp_path / "here", "write", "read", "chatter", "loads", listener=here, text="hello")
    outcomes = run(tmp_path, "write", "read", "chatter", "loads", listener=there, text="hello")
    assert [(o.name, o.result) for o in outcomes] == [(o.name, o.result) for o in local]
    assert there.events == here.events
    assert there.lines == here.lines
    assert leftovers(tmp_path) == leftovers(tmp_path / "here")
    assert (tmp_path / "build" / "manifest.json").read_bytes() == (
        tmp_path / "here" / "build" / "manifest.json"
    ).read_bytes()


def test_much_output_arrives_whole(client: FakeClient, tmp_path: Path) -> None:
    recorder = Recorder()
    run(tmp_path, "flood", listener=recorder)
    assert len(recorder.lines) == 20000


def test_the_container_is_removed_and_the_connection_closed(client: FakeClient, tmp_path: Path) -> None:
    run(tmp_path, "write", text="x")
    assert names(client)[-2:] == ["remove_container", "close"]
    (created,) = [value for name, value in client.calls if name == "create_container"]
    assert ("remove_container", created) in client.calls
    assert "kill" not in names(client)


def test_error_of_a_stage_keeps_class_text_and_details(client: FakeClient, tmp_path: Path) -> None:
    with pytest.raises(ModelError) as caught:
        run(tmp_path, "half", how="error")
    error = caught.value
    assert (error.message, error.cause, error.hint, error.stage) == ("no", "because", "do that", "import")
    assert error.details == {"n": 1}
    assert leftovers(tmp_path) == set()
    assert not (tmp_path / "build").exists()
    assert "remove_container" in names(client)


def test_a_crash_of_the_worker_is_told_as_on_this_machine(client: FakeClient, tmp_path: Path) -> None:
    with pytest.raises(CrashError, match=r"half stage was killed by SIGSEGV") as caught:
        run(tmp_path, "half", how="segfault")
    assert "parsing node 7" in str(caught.value.cause)
    assert "engine_stages.py" in (tmp_path / "build" / "c7x-crash.txt").read_text()


def test_files_get_the_callers_mode(client: FakeClient, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run(tmp_path, "write", text="x")
    finally:
        os.umask(before)
    assert (tmp_path / "build" / "model.txt").stat().st_mode & 0o777 == 0o640


def test_refused_before_a_daemon_is_asked(client: FakeClient, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="no build directory"):
        run(tmp_path, "read")
    assert client.calls == []


def test_an_output_folder_that_cannot_be_made(client: FakeClient, tmp_path: Path) -> None:
    (tmp_path / "build").write_text("a file")
    with pytest.raises(WorkspaceError, match="cannot write into"):
        run(tmp_path, "write", text="x")


# --------------------------------------------------------------------------------------------------- what is asked for


def test_the_container_may_do_nothing_that_it_need_not(client: FakeClient, tmp_path: Path) -> None:
    run(tmp_path, "write", text="x")
    created = client.created
    host = created["host_config"]
    assert created["image"] == IMAGE["Id"]
    assert created["command"] == ["python3", "-P", "-m", "c7x.engine.relay"]
    assert created["user"] == f"{os.getuid()}:{os.getgid()}"
    assert created["working_dir"] == str(Path.cwd())
    assert created["stdin_open"] is True
    assert created["labels"] == {LABEL: __version__, PID_LABEL: str(os.getpid())}
    assert created["environment"]["HOME"] == created["environment"]["TMPDIR"]
    assert host["network_mode"] == "none"
    assert host["read_only"] is True
    assert host["cap_drop"] == ["ALL"]
    assert host["security_opt"] == ["no-new-privileges"]
    assert list(host["tmpfs"].values()) == ["exec,mode=1777"]
    assert host["group_add"] == [str(group) for group in sorted(set(os.getgroups()))]
    assert not {"mem_limit", "nano_cpus"} & host.keys()
    build = str((tmp_path / "build").resolve())
    assert host["mounts"] == [{"Type": "bind", "Source": build, "Target": build, "ReadOnly": False}]


def test_limits(client: FakeClient, tmp_path: Path) -> None:
    run(tmp_path, "write", text="x", options=ContainerOptions(memory=1 << 30, cpus=1.5))
    host = client.created["host_config"]
    assert (host["mem_limit"], host["memswap_limit"], host["nano_cpus"]) == (1 << 30, 1 << 30, 1_500_000_000)


def test_inside_a_rootless_engine_the_caller_is_root(client: FakeClient, tmp_path: Path) -> None:
    client.security = ["name=seccomp,profile=builtin", "name=rootless"]
    run(tmp_path, "write", text="x")
    assert client.created["user"] == "0:0"
    assert client.created["host_config"]["group_add"] == []


def test_selinux_lets_the_container_read_the_users_files(client: FakeClient, tmp_path: Path) -> None:
    client.security = ["name=selinux"]
    run(tmp_path, "write", text="x")
    assert "label=disable" in client.created["host_config"]["security_opt"]


def test_only_what_results_depend_on_is_passed_on(
    client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "7")
    monkeypatch.setenv("SECRET", "s")
    run(tmp_path, "write", text="x")
    environment = client.created["environment"]
    assert environment["SOURCE_DATE_EPOCH"] == "7"
    assert "SECRET" not in environment


def test_stages_that_need_this_machines_network_are_refused(client: FakeClient, tmp_path: Path) -> None:
    (tmp_path / "lib0.out").write_bytes(b"")
    with pytest.raises(UsageError, match="ssh"):
        DockerEngine().run(Workspace(tmp_path), requests_for(["deploy"], {}))
    assert client.calls == []


# ------------------------------------------------------------------------------------------------------- interruption


class Interrupting(Recorder):
    """Ctrl-C, as soon as the stage is heard."""

    def output(self, text: str) -> None:
        raise KeyboardInterrupt


def test_ctrl_c_lets_the_worker_clean_up_and_removes_the_container(client: FakeClient, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "half", how="sleep", listener=Interrupting())
    assert ("kill", signal.SIGINT) in client.calls
    assert names(client)[-2:] == ["remove_container", "close"]
    assert not (tmp_path / "build").exists()


def test_a_worker_that_does_not_listen_is_killed(
    client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "GRACE_SECONDS", 0.2)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "half", how="sleep deaf", listener=Interrupting())
    assert names(client)[-2:] == ["remove_container", "close"]


def test_ctrl_c_while_the_container_is_made_removes_it(client: FakeClient, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    client.on_start = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "write", text="x")
    assert names(client)[-2:] == ["remove_container", "close"]
    assert not (tmp_path / "build").exists()


def test_what_the_worker_reports_as_an_interrupt_is_one(client: FakeClient, tmp_path: Path) -> None:
    client.command = [sys.executable, "-c", """print('{"event": "interrupted"}')"""]
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "write", text="x")


def test_the_relay_goes_when_the_c7x_outside_is_gone(client: FakeClient, tmp_path: Path) -> None:
    class Leaving(Recorder):
        def output(self, text: str) -> None:
            client.fails["kill"] = OSError("gone")
            raise KeyboardInterrupt

    # The signal does not arrive, so it is the end of standard input that ends the relay.
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "half", how="sleep", listener=Leaving())
    assert client._process is not None
    assert client._process.wait(10) in (130, -signal.SIGKILL)


def test_containers_of_killed_commands_are_removed_later(client: FakeClient, tmp_path: Path) -> None:
    def old(name: str, created: str, finished: str) -> dict[str, Any]:
        return {"Id": name, "Created": created, "State": {"FinishedAt": finished}}

    client.old = [
        old("stopped", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:10:00Z"),
        old("never started", "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        old("still wanted", "2026-01-01T00:00:00Z", "2999-01-01T00:00:00Z"),
    ]
    run(tmp_path, "write", text="x")
    removed = [value for name, value in client.calls if name == "remove_container"]
    assert removed[:-1] == ["stopped", "never started"]


# ------------------------------------------------------------------------------------------------- what can go wrong


@pytest.mark.usefixtures("no_daemon")
def test_no_daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    with pytest.raises(EngineError, match=r"no container engine answers at .*no\.sock") as caught:
        run(tmp_path, "write", text="x")
    assert "systemctl start docker" in str(caught.value.hint)
    assert "--engine local" in str(caught.value.hint)
    assert not (tmp_path / "build").exists()


def test_a_daemon_that_is_not_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**options: Any) -> Any:
        inner = requests.exceptions.ConnectionError(("Connection aborted.", PermissionError(13, "Permission denied")))
        raise docker.errors.DockerException("Error while fetching server API version") from inner

    monkeypatch.setattr(docker, "APIClient", refuse)
    with pytest.raises(EngineError, match="may not talk") as caught:
        run(tmp_path, "write", text="x")
    assert "usermod" in str(caught.value.hint)


@pytest.mark.usefixtures("no_daemon")
@pytest.mark.parametrize("address", ["nonsense://x", "unix:///nowhere", "tcp://127.0.0.1:9"])
def test_whatever_docker_host_says_the_error_is_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    with pytest.raises(EngineError, match="answers"):
        run(tmp_path, "write", text="x")


def test_podmans_socket_is_named_when_it_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(**options: Any) -> Any:
        raise docker.errors.DockerException("no") from FileNotFoundError(2, "No such file")

    monkeypatch.setattr(docker, "APIClient", refuse)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "podman").mkdir()
    (tmp_path / "podman" / "podman.sock").touch()
    with pytest.raises(EngineError) as caught:
        run(tmp_path, "write", text="x")
    assert "export DOCKER_HOST=unix://" in str(caught.value.hint)


def test_the_docker_package_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(DependencyError, match="docker") as caught:
        run(tmp_path, "write", text="x")
    assert "pip install" in str(caught.value.hint)


def test_the_image_is_missing_and_is_not_pulled(client: FakeClient, tmp_path: Path) -> None:
    client.images = {}
    with pytest.raises(ImageError, match=rf"no image c7x:{__version__} or c7x:latest") as caught:
        run(tmp_path, "write", text="x")
    assert "make images" in str(caught.value.hint)
    assert "docker load" in str(caught.value.hint)
    assert set(names(client)) == {"version", "inspect_image", "close"}


def test_another_image_can_be_named(client: FakeClient, tmp_path: Path) -> None:
    client.images["mine"] = {**IMAGE, "Id": "sha256:mine"}
    run(tmp_path, "write", text="x", options=ContainerOptions(image="mine"))
    assert client.created["image"] == "sha256:mine"
    with pytest.raises(ImageError, match="no image yours"):
        run(tmp_path, "write", text="x", options=ContainerOptions(image="yours"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Config": {"Labels": {"org.opencontainers.image.version": "0.0.9"}}}, "version 0.0.9"),
        ({"Config": {"Labels": None}}, "not one of c7x"),
        ({"Config": None}, "not one of c7x"),
        ({"Architecture": "arm64"}, "for arm64, and this machine is amd64"),
    ],
)
def test_an_image_that_does_not_fit(client: FakeClient, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    client.images = {"c7x:latest": {**IMAGE, **change}}
    with pytest.raises(ImageError, match=words) as caught:
        run(tmp_path, "write", text="x")
    assert "make images" in str(caught.value.hint)
    assert "create_container" not in names(client)


def test_the_c7x_inside_must_be_the_same_whatever_the_label_says(
    client: FakeClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "__version__", "9.9.9")
    with pytest.raises(ImageError, match=rf"holds c7x {__version__}, and this c7x is 9\.9\.9"):
        run(tmp_path, "write", text="x")


@pytest.mark.parametrize(
    ("method", "status", "text", "kind", "words"),
    [
        ("create_container", 500, "mkdir /var/lib/docker/x: no space left on device", EngineError, "no space left"),
        ("create_container", 400, "invalid mount config: bind source path does not exist: /a b", MountError, "/a b"),
        ("create_container", 400, "Range of CPUs is from 0.01 to 2.00", UsageError, "--cpus"),
        ("create_container", 400, "Minimum memory limit allowed is 6MB", UsageError, "--memory"),
        ("start", 400, 'exec: "tini": executable file not found in $PATH', ImageError, "lacks a program"),
        ("start", 500, "exec /usr/bin/tini: exec format error", ImageError, "another architecture"),
        ("start", 500, "Mounts denied: the path /x is not shared from the host", MountError, "shares* "),
        ("start", 500, "something nobody has seen", EngineError, "something nobody has seen"),
        ("inspect_image", 500, "server error", EngineError, "server error"),
    ],
)
def test_refusals(
    client: FakeClient, tmp_path: Path, method: str, status: int, text: str, kind: type[C7xError], words: str
) -> None:
    client.fails[method] = api_error(status, text)
    with pytest.raises(kind) as caught:
        run(tmp_path, "write", text="x")
    assert type(caught.value) is kind
    assert words.replace("s* ", "") in str(caught.value)
    assert not (tmp_path / "build").exists()
    if method != "inspect_image":
        assert "remove_container" in names(client)


@pytest.mark.parametrize("method", ["create_container", "attach_socket", "start"])
def test_a_daemon_that_stops_before_the_start(client: FakeClient, tmp_path: Path, method: str) -> None:
    client.fails[method] = requests.exceptions.ConnectionError("Connection refused")
    with pytest.raises(EngineError, match="stopped answering"):
        run(tmp_path, "write", text="x")


def test_a_daemon_that_stops_at_work(client: FakeClient, tmp_path: Path) -> None:
    class Breaking(Recorder):
        def output(self, text: str) -> None:
            client.break_off()

    with pytest.raises(EngineError, match="stopped while the half stage ran") as caught:
        run(tmp_path, "half", how="sleep", listener=Breaking())
    assert caught.value.stage == "half"


def test_a_container_that_is_killed(client: FakeClient, tmp_path: Path) -> None:
    class Killing(Recorder):
        def output(self, text: str) -> None:
            client.kill("", signal.SIGKILL)

    with pytest.raises(EngineError, match="killed while the half stage ran"):
        run(tmp_path, "half", how="sleep", listener=Killing())


@pytest.mark.parametrize("how", ["kill", "error"])
def test_out_of_memory_is_named(client: FakeClient, tmp_path: Path, how: str) -> None:
    """The kernel kills the worker, or a compiler below it; the relay lives on and tells of it."""
    client.state = {"OOMKilled": True}
    with pytest.raises(LimitError, match="ran out of memory") as caught:
        run(tmp_path, "half", how=how, options=ContainerOptions(memory=300 << 20))
    assert "300 MiB" in str(caught.value.cause)
    assert "--memory" in str(caught.value.hint)


def test_out_of_memory_as_the_relay_saw_it(client: FakeClient, tmp_path: Path) -> None:
    """podman says nothing of it."""
    told = {"event": "error", "error": CrashError("killed", stage="build").to_json(), "out_of_memory": True}
    client.command = [sys.executable, "-c", f"print({json.dumps(told)!r})"]
    with pytest.raises(LimitError, match="the build stage ran out of memory"):
        run(tmp_path, "write", text="x")


@pytest.mark.parametrize(("content", "killed"), [("oom 3\noom_kill 1\n", True), ("oom_kill 0\n", False), ("", False)])
def test_the_kernels_count_of_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, killed: bool
) -> None:
    (tmp_path / "memory.events").write_text(content)
    monkeypatch.setattr(relay, "_OOM_FILES", (tmp_path / "none", tmp_path / "memory.events"))
    assert relay._killed_for_memory() is killed


def test_out_of_memory_of_the_whole_container(client: FakeClient, tmp_path: Path) -> None:
    client.state = {"OOMKilled": True}
    client.command = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    with pytest.raises(LimitError, match="the worker process ran out of memory") as caught:
        run(tmp_path, "write", text="x")
    assert "machine's memory" in str(caught.value.cause)


def test_success_is_success_also_when_something_was_killed_for_memory(client: FakeClient, tmp_path: Path) -> None:
    client.state = {"OOMKilled": True}
    run(tmp_path, "write", text="x")


def test_a_program_that_does_not_start(client: FakeClient, tmp_path: Path) -> None:
    client.command = [sys.executable, "-c", "import sys; sys.exit('No module named c7x.engine.relay')"]
    with pytest.raises(CrashError, match="exit code 1 and no result") as caught:
        run(tmp_path, "write", text="x")
    assert "No module named c7x.engine.relay" in caught.value.message
    assert "docker run --rm" in str(caught.value.hint)


def test_what_an_entry_point_says_is_no_event(client: FakeClient, tmp_path: Path) -> None:
    client.command = [sys.executable, "-c", """print('welcome'); print('{"event": "done"}')"""]
    assert run(tmp_path, "write", text="x") == []


def test_what_an_entry_point_says_before_it_fails(client: FakeClient, tmp_path: Path) -> None:
    client.command = [sys.executable, "-c", "import sys; print('cannot start'); sys.exit(3)"]
    with pytest.raises(CrashError, match=r"exit code 3 and no result\ncannot start"):
        run(tmp_path, "write", text="x")


def test_programs_for_another_architecture(client: FakeClient, tmp_path: Path) -> None:
    client.command = [sys.executable, "-c", "import sys; sys.exit('exec /usr/bin/tini: exec format error')"]
    with pytest.raises(ImageError, match="another architecture"):
        run(tmp_path, "write", text="x")


def test_words_without_a_known_meaning() -> None:
    assert explained("all is well", "start") is None
    assert isinstance(refusal(TimeoutError("timed out"), "start the container"), EngineError)


def test_connect_closes_what_it_opened(client: FakeClient) -> None:
    client.components = [{"Name": "Podman Engine"}]
    with connect() as daemon:
        assert (daemon.name, daemon.version, daemon.architecture) == ("Podman", "26.1.5", "amd64")
        assert find_image(daemon).size == 1_500_000_000
    assert names(client)[-1] == "close"


# -------------------------------------------------------------------------------------------------------------- mounts


def plan(
    root: Path, *, more: tuple[Path, ...] = (), stage: str = "export", **options: Any
) -> list[tuple[str, str, bool]]:
    root.mkdir(exist_ok=True, parents=True)
    requests = [mirrored(STAGES, StageRequest(name=stage, options=options))]
    return [(str(m.target), str(m.source), m.writable) for m in plan_mounts(STAGES, root, requests, more)]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "my project"
    folder.mkdir()
    for name in ("model.py", "model.pt2", "data.npz"):
        (folder / name).touch()
    return folder


def test_a_model_brings_its_folder_read_only(project: Path) -> None:
    build = project / "build"
    assert plan(build, source=str(project / "model.py")) == [
        (str(project), str(project), False),
        (str(build), str(build), True),
    ]


def test_a_program_comes_alone(project: Path) -> None:
    path = str(project / "model.pt2")
    build = str(project.parent / "out")
    assert plan(Path(build), source=path) == [(path, path, False), (build, build, True)]


def test_relative_paths(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    assert plan(Path("../out"), source="model.py")[0] == (str(project), str(project), False)


def test_the_model_beside_its_output(project: Path) -> None:
    assert plan(project, source=str(project / "model.py")) == [(str(project), str(project), True)]


def test_a_file_inside_a_folder_that_is_there_needs_no_mount(project: Path) -> None:
    source, data = str(project / "model.py"), str(project / "data.npz")
    assert len(plan(project / "build", stage="quantize", source=source, calibrate=data)) == 2


def test_lists_of_files_and_an_output_file(project: Path) -> None:
    (project / "out").mkdir()
    data, out = str(project / "data.npz"), str(project / "out")
    build = str(project / "build")
    assert plan(Path(build), stage="run", input=[data], output=f"{out}/y.npz") == [
        (build, build, True),
        (data, data, False),
        (out, out, True),
    ]


def test_what_does_not_exist_is_left_to_the_stage(project: Path) -> None:
    assert len(plan(project / "build", stage="run", input=["nowhere.npy"], output="nowhere/y.npz")) == 1


def test_a_folder_behind_a_link(project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project)
    build = str(project.parent / "build")
    assert plan(Path(build), source=str(link / "model.py")) == [
        (build, build, True),
        (str(link), str(project), False),
    ]


def test_an_output_behind_a_link(project: Path) -> None:
    (project.parent / "real").mkdir()
    link = project.parent / "build"
    link.symlink_to("real")
    assert (str(link), str(project.parent / "real"), True) in plan(link, source=str(project / "model.pt2"))


def test_a_model_that_is_a_link_brings_every_folder_on_the_way(project: Path) -> None:
    shared, versions = project.parent / "shared", project.parent / "versions"
    shared.mkdir()
    versions.mkdir()
    (versions / "v3.py").touch()
    (shared / "latest.py").symlink_to("../versions/v3.py")
    link = project / "linked.py"
    link.symlink_to(shared / "latest.py")
    targets = [target for target, _, _ in plan(project / "build", source=str(link))]
    assert targets == sorted(map(str, [project, project / "build", shared, versions]))


def test_parents_of_links_are_followed_as_the_kernel_does(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = project.parent / "deep" / "er"
    deep.mkdir(parents=True)
    (deep.parent / "model.py").touch()
    (project / "link").symlink_to(deep)
    monkeypatch.chdir(project)
    request = StageRequest(name="export", options={"source": "link/../model.py"})
    assert mirrored(STAGES, request).options["source"] == str(deep.parent / "model.py")
    assert (str(deep.parent), str(deep.parent), False) in plan(project / "build", source="link/../model.py")
    plain = StageRequest(name="export", options={"source": "../my project/model.py"})
    assert mirrored(STAGES, plain).options == plain.options
    # The container has no such link, although the path without it names the same file.
    (project.parent / "same").symlink_to(project)
    assert inside("../same/../my project/model.py") == str(project / "model.py")


def test_links_in_a_circle_end(project: Path) -> None:
    one, two = project / "one.py", project / "two.py"
    one.symlink_to(two)
    two.symlink_to(one)
    assert len(plan(project / "build", source=str(one))) == 1


def test_more_folders(project: Path) -> None:
    extra = project.parent / "weights"
    extra.mkdir()
    assert (str(extra), str(extra), False) in plan(project / "build", more=(extra,))
    with pytest.raises(UsageError, match="--mount"):
        plan(project / "build", more=(project / "nowhere",))


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/opt", "/proc/self", "/dev/shm"])
def test_folders_that_the_container_has_itself(project: Path, folder: str) -> None:
    with pytest.raises(MountError, match="cannot be given"):
        plan(project / "build", more=(Path(folder),))


def test_temporary_files_make_room_for_a_mounted_tmp(project: Path) -> None:
    def at(target: str) -> list[Mount]:
        return [Mount(target=Path(target), source=project)]

    assert scratch_folder(at("/home")) == Path("/tmp")
    assert scratch_folder(at("/tmp/x")) == Path("/tmp")
    assert scratch_folder(at("/tmp")) == Path("/var/tmp")


# ------------------------------------------------------------------------------------ errors that the container causes


def test_a_file_that_is_here_but_not_there(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = project.parent / "weights.pt"
    weights.touch()
    mounts = [Mount(target=project, source=project)]
    monkeypatch.chdir(project)
    error = ModelError(
        "failed:\nFileNotFoundError: [Errno 2] No such file or directory: '../weights.pt'", stage="export"
    )
    better = explain(error, mounts, "c7x")
    assert isinstance(better, MountError)
    assert str(weights) in better.message
    assert f"--mount {project.parent}" in str(better.hint)
    assert better.stage == "export"


def test_a_file_that_is_nowhere_stays_the_models_error(project: Path) -> None:
    error = ModelError("FileNotFoundError: [Errno 2] No such file or directory: '/nowhere/weights.pt'")
    assert explain(error, [], "c7x") is error
    seen = ModelError(f"FileNotFoundError: [Errno 2] No such file or directory: '{project}/data.npz'")
    assert explain(seen, [Mount(target=project, source=project)], "c7x") is seen


def test_a_model_that_writes_beside_itself() -> None:
    error = ModelError("OSError: [Errno 30] Read-only file system: 'cache.bin'")
    better = explain(error, [], "c7x")
    assert isinstance(better, MountError)
    assert "cache.bin" in better.message
    assert "gettempdir" in str(better.hint)


def test_a_package_that_the_image_lacks() -> None:
    error = ModelError("cannot be imported", cause="the package timm is not installed here", hint="pip install timm")
    better = explain(error, [], "c7x:1")
    assert better.cause == "the image c7x:1 has no package timm"
    assert "FROM c7x:1, USER 0, RUN pip install timm" in str(better.hint)


# ----------------------------------------------------------------------------------------------------------- selection


@pytest.mark.parametrize(
    ("stages", "options", "installed", "here"),
    [
        (["export", "build"], {"source": "m.py"}, {"torch", "tvm", "numpy"}, True),
        (["export"], {"source": "m.py"}, {"torch", "numpy"}, False),
        (["build"], {}, set(), False),
        (["run"], {}, {"numpy"}, True),
        (["run"], {}, set(), False),
        (["run"], {"host": "board"}, set(), True),
        (["deploy"], {}, set(), True),
        (["compare"], {}, {"numpy"}, True),
        (["compare"], {"input": ["x.npy"]}, {"numpy"}, False),
        (["bench"], {"peers": ["torch"]}, {"numpy"}, False),
        (["bench"], {"peers": []}, {"numpy"}, True),
        (["profile"], {}, {"numpy"}, True),
    ],
)
def test_auto(
    monkeypatch: pytest.MonkeyPatch, stages: list[str], options: dict[str, Any], installed: set[str], here: bool
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in installed else None)
    requests = requests_for(stages, options)
    assert runs_here(STAGES, requests) is here
    engine = select_engine("auto", requests)
    assert isinstance(engine, LocalEngine if here else FallbackEngine)
    assert isinstance(select_engine("local", requests), LocalEngine)
    assert type(select_engine("docker", requests)) is DockerEngine


def test_who_did_not_ask_for_a_container_hears_how_to_do_without(client: FakeClient, tmp_path: Path) -> None:
    client.images = {}
    engine = FallbackEngine(table=TABLE)
    with pytest.raises(ImageError) as caught:
        engine.run(Workspace(tmp_path / "build"), [StageRequest(name="write", options={"text": "x"})])
    assert "torch and TVM are not installed" in str(caught.value.cause)
    assert "pip install 'c7x[compile]'" in str(caught.value.hint)
    assert "make images" in str(caught.value.hint)
    assert "--engine local" not in str(caught.value.hint)
