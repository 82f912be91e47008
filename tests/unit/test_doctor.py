from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from c7x.doctor import Check, Machine, diagnose, report, versions
from c7x.engine.daemon import EngineState, Image
from c7x.errors import EngineError, ImageError
from c7x.version import __version__
from tests.unit.fake_docker import FakeClient

NO_ENGINE = EngineError("no container engine answers", hint="start it")
NO_IMAGE = ImageError("there is no image c7x", hint="make images")
OLD_IMAGE = ImageError("the image c7x has version 0.0.1", hint="make images")
IMAGE = Image(name="c7x:1", id="sha256:1", version="1", architecture="amd64", size=1)
DOCKER = "Docker 26.1, amd64"


class Fake(Machine):
    """A machine with these programs (path -> exit code and output) and packages (distribution -> version)."""

    def __init__(
        self,
        programs: dict[str, tuple[int, str]] | None = None,
        packages: dict[str, str] | None = None,
        broken: Sequence[str] = (),
        environ: dict[str, str] | None = None,
        folders: Sequence[str] = (),
        state: EngineState | None = None,
    ) -> None:
        super().__init__()
        self.programs = programs or {}
        self.packages = packages or {}
        self.broken = broken
        self.environ = environ or {}
        self.folders = folders
        self.state = state or EngineState(engine=NO_ENGINE, image=NO_ENGINE)

    def engine(self) -> EngineState:
        return self.state

    def which(self, name: str) -> str | None:
        return f"/bin/{name}" if name in self.programs else None

    def is_dir(self, path: str) -> bool:
        return path in self.folders

    def version(self, distribution: str) -> str | None:
        return self.packages.get(distribution)

    def ti_tools(self) -> str | None:
        return None

    def run(self, command: Sequence[str], timeout: float) -> tuple[int, str]:
        if command[-1].startswith("import "):
            name = command[-1].removeprefix("import ")
            return (1, f"Traceback\nImportError: lib{name}.so") if name in self.broken else (0, "")
        return self.programs[command[0].removeprefix("/bin/")]


PACKAGES = {"torch": "2.13.0", "apache-tvm": "0.27.0", "torchao": "0.18", "numpy": "2.4"}
GCC = {"gcc": (0, "gcc (Debian 12.2.0-14) 12.2.0\nCopyright")}


def by_name(machine: Machine) -> dict[str, Check]:
    return {check.name: check for check in diagnose(machine)[0]}


def test_good_machine_is_ready() -> None:
    result = report(Fake(GCC, PACKAGES))
    assert result["ready"]
    modes = {mode["mode"]: mode for mode in result["modes"]}
    assert set(modes) == {"c7x_host", "c7x_vdsp", "c7x_dload"}
    assert modes["c7x_host"] == {"mode": "c7x_host", "ready": True, "reason": None}
    assert "code generation tools" in modes["c7x_dload"]["reason"]
    json.dumps(result)


def test_versions_are_found_in_the_tools_output() -> None:
    checks = by_name(Fake({**GCC, "ssh": (0, "OpenSSH_9.2p1 Debian-2, OpenSSL 3.0")}, PACKAGES))
    assert checks["gcc"].found == "12.2.0 (/bin/gcc)"
    assert checks["ssh"].found == "9.2p1 (/bin/ssh)"
    assert checks["tvm"].found == "0.27.0"


@pytest.mark.parametrize("distribution", ["torch", "apache-tvm", "numpy"])
def test_missing_package_keeps_the_default_mode_from_working(distribution: str) -> None:
    machine = Fake(GCC, {name: version for name, version in PACKAGES.items() if name != distribution})
    result = report(machine)
    module = "tvm" if distribution == "apache-tvm" else distribution
    assert not result["ready"]
    assert result["modes"][0]["reason"] == f"{module} is missing"
    assert "pip install 'c7x[" in str(by_name(machine)[module].hint)


def test_torchao_is_not_needed_yet() -> None:
    assert report(Fake(GCC, {name: v for name, v in PACKAGES.items() if name != "torchao"}))["ready"]


def test_package_that_cannot_be_imported_is_broken() -> None:
    machine = Fake(GCC, PACKAGES, broken=["torch"])
    check = by_name(machine)["torch"]
    assert check.status == "broken"
    assert "ImportError: libtorch.so" in str(check.found)
    assert not report(machine)["ready"]


def test_one_compiler_is_enough_and_none_is_not() -> None:
    assert report(Fake({"clang": (0, "clang version 14.0.6")}, PACKAGES))["ready"]
    result = report(Fake({}, PACKAGES))
    assert not result["ready"]
    assert "compiler" in result["modes"][0]["reason"]


def test_compiler_that_does_not_answer() -> None:
    machine = Fake({"gcc": (1, "")}, PACKAGES)
    assert by_name(machine)["gcc"].status == "broken"
    assert not report(machine)["ready"]


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ((0, ""), "ok", "it answers"),
        ((1, "Cannot connect to the Docker daemon"), "broken", "start it"),
        ((1, "permission denied while trying to connect"), "broken", "docker group"),
    ],
)
def test_docker(answer: tuple[int, str], status: str, words: str) -> None:
    machine = Fake({**GCC, "docker": answer}, PACKAGES)
    check = by_name(machine)["docker"]
    assert check.status == status
    assert words in f"{check.found} {check.hint}"
    assert report(machine)["ready"]


@pytest.mark.parametrize(
    ("state", "statuses", "words"),
    [
        (EngineState(engine=NO_ENGINE, image=NO_ENGINE), ("missing", "missing"), "start it"),
        (EngineState(engine=DOCKER, image=NO_IMAGE), ("ok", "missing"), "make images"),
        (EngineState(engine=DOCKER, image=OLD_IMAGE), ("ok", "broken"), "version 0.0.1"),
        (EngineState(engine=DOCKER, image=IMAGE), ("ok", "ok"), "c7x:1, version 1, amd64"),
    ],
)
def test_the_container_engine_and_the_image(state: EngineState, statuses: tuple[str, str], words: str) -> None:
    checks = by_name(Fake(GCC, PACKAGES, state=state))
    found = checks["container engine"], checks["c7x image"]
    assert tuple(check.status for check in found) == statuses
    assert words in " ".join(f"{check.found} {check.hint}" for check in found)
    assert report(Fake(GCC, PACKAGES, state=state))["ready"]


def test_a_machine_without_packages_is_ready_when_a_container_serves() -> None:
    light = Fake({}, {"numpy": "2"}, state=EngineState(engine=DOCKER, image=IMAGE))
    assert report(light)["modes"][0] == {"mode": "c7x_host", "ready": True, "reason": "in a container"}
    assert not report(light)["modes"][2]["ready"]
    # With the packages there, stages run here, and here is no compiler.
    assert not report(Fake({}, PACKAGES, state=EngineState(engine=DOCKER, image=IMAGE)))["ready"]


def test_the_engine_as_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient()
    monkeypatch.setattr("docker.APIClient", lambda **options: client)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    state = Machine().engine()
    assert state.engine == "Docker 26.1.5, amd64"
    assert isinstance(state.image, Image)
    missing = Machine("nothing").engine()
    assert missing.engine == "Docker 26.1.5, amd64"
    assert isinstance(missing.image, ImageError)
    client.fails["version"] = OSError(111, "Connection refused")
    assert isinstance(Machine().engine().image, EngineError)


def test_ti_variables() -> None:
    environ = {"TI_CGT_C7000_PATH": "/ti", "CGT7X_ROOT": "/nowhere"}
    checks = by_name(Fake(GCC, PACKAGES, environ=environ, folders=["/ti"]))
    assert checks["TI_CGT_C7000_PATH"].status == "ok"
    assert checks["CGT7X_ROOT"].status == "broken"
    assert by_name(Fake())["CGT7X_ROOT"].status == "missing"


def test_everything_that_is_not_ok_says_what_to_do() -> None:
    for machine in (Fake(), Fake(dict.fromkeys(["gcc", "docker", "ssh"], (1, "")), PACKAGES, broken=["tvm"])):
        for check in diagnose(machine)[0]:
            assert check.status == "ok" or check.hint, check


def test_a_command_that_hangs_or_is_missing_is_no_crash() -> None:
    assert Machine().run(["/nonexistent/c7x-test"], 1)[0] == -1
    assert Machine().run(["sleep", "10"], 0.1)[0] == -1


def test_versions() -> None:
    found = versions(Fake(GCC, {"torch": "2.13.0"}))
    assert found["c7x"] == __version__
    assert found["torch"] == "2.13.0"
    assert found["tvm"] is None
    assert found["gcc"] == "12.2.0 (/bin/gcc)"
    assert found["clang"] is None
