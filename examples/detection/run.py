"""Detects faces (MTCNN) or objects (a YOLO network) in an image, on the virtual DSP or a board.

    python examples/detection/run.py
    python examples/detection/run.py --image street.jpg --output-dir found
    python examples/detection/run.py --board beagley-ai --profile-layers
    python examples/detection/run.py --network yolo --image street.jpg --conf-threshold 0.4

Quantises and compiles the networks, copies modules and board_runner.py to the Arm side, runs them there, and draws what
they found. docs/examples.md goes through it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from c7x.errors import C7xError, DependencyError
from examples import common
from examples.detection import yolo

HERE = Path(__file__).resolve().parent
MTCNN = ("pnet", "rnet", "onet")
#: O-Net's, and that of YOLO's documents.
CONFIDENCE = {"mtcnn": 0.7, "yolo": 0.25}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Detect faces or objects on a C7x DSP, or on the virtual DSP.")
    common.add_options(
        parser, build_dir="build/detection", remote_dir="/tmp/detection_example", image="astronaut.jpg, for mtcnn"
    )
    parser.add_argument("--network", choices=sorted(CONFIDENCE), default="mtcnn", help="default: %(default)s")
    parser.add_argument("--weights", type=Path, default=Path("yolo11n.pt"), help="of yolo (default: %(default)s)")
    parser.add_argument("--conf-threshold", type=float, help="default: 0.7 for mtcnn, 0.25 for yolo")
    parser.add_argument("--output-dir", type=Path, default=Path("detections"), help="default: %(default)s")
    return parser.parse_args(arguments)


def sources(options: argparse.Namespace) -> dict[str, Path]:
    """The networks' model files by their names."""
    if options.network == "mtcnn":
        return {name: HERE / f"{name}.py" for name in MTCNN}
    problem = yolo.missing(options.weights)
    if problem:
        raise DependencyError("the YOLO network cannot run", cause=problem, hint="leave --network out to run MTCNN")
    os.environ[yolo.WEIGHTS_VARIABLE] = str(options.weights.resolve())
    return {"yolo": HERE / "yolo.py"}


def run_modules(options: argparse.Namespace, arm: common.ArmSide, names: list[str], image: Any) -> list[dict[str, Any]]:
    """Runs the modules on the Arm side; what was found, in pixels of the image."""
    python, library = ["python3"], []
    if options.board == common.VIRTUAL:
        site, so_path = common.inference_package(options.build_dir)
        python, library = ["env", f"PYTHONPATH={site}", sys.executable], ["--so-path", str(so_path)]
    for name in names:
        arm.put(common.require_module(options.build_dir / name), f"{name}.out")
    arm.put(HERE / "board_runner.py")
    arm.put(HERE / "mtcnn.py")
    runner = [*python, arm.path("board_runner.py"), *library]
    given = options.build_dir / "input.npy"
    if options.network == "mtcnn":
        np.save(given, image)
        arm.put(given, "image.npy")
        words = ["--mtcnn", arm.path("."), "--image", arm.path("image.npy"), "--output", arm.path("faces.json")]
        print(arm.call([*runner, *words, "--conf-threshold", str(options.conf_threshold)]), end="")
        arm.get("faces.json", options.build_dir / "faces.json")
        found: list[dict[str, Any]] = json.loads((options.build_dir / "faces.json").read_text())["faces"]
        return found
    np.save(given, yolo.preprocess(image))
    arm.put(given, "input_0.npy")
    print(arm.call([*runner, "--module", arm.path("yolo.out"), "--input-dir", arm.path(".")]), end="")
    arm.get("output_0.npy", options.build_dir / "output_0.npy")
    output = np.load(options.build_dir / "output_0.npy", allow_pickle=False)
    return yolo.decode(output, image.shape[:2], options.conf_threshold)


def draw(image: Any, found: list[dict[str, Any]]) -> Image.Image:
    """The image with boxes, scores, names and landmarks."""
    picture = Image.fromarray(image)
    pen = ImageDraw.Draw(picture)
    for item in found:
        pen.rectangle(item["box"], outline=(0, 255, 0), width=2)
        pen.text((item["box"][0] + 3, item["box"][1] + 2), describe(item), fill=(0, 255, 0))
        for x, y in item.get("landmarks", []):
            pen.ellipse([x - 2, y - 2, x + 2, y + 2], fill=(255, 0, 0))
    return picture


def describe(item: dict[str, Any]) -> str:
    return f"{item.get('name', 'face')} {item['score']:.3f}"


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    if options.conf_threshold is None:
        options.conf_threshold = CONFIDENCE[options.network]
    try:
        path = common.check_image(options.image or HERE / "astronaut.jpg")
        networks = sources(options)
        common.say(f"network: {options.network}, {options.dtype}, on {options.board}")
        if not options.inference_only:
            for name, source in networks.items():
                common.compile_network(source, options.build_dir / name, options)
        if not options.compile_only:
            with Image.open(path) as file:
                image = np.asarray(file.convert("RGB"))
            with common.arm_side(options) as arm:
                found = run_modules(options, arm, list(networks), image)
            options.output_dir.mkdir(parents=True, exist_ok=True)
            for item in found:
                print(f"  {describe(item):<30} box {[round(edge, 1) for edge in item['box']]}")
            target = options.output_dir / path.with_suffix(".png").name
            draw(image, found).save(target)
            target.with_suffix(".json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
            common.say(f"wrote {target} and {target.with_suffix('.json').name}")
        if options.visualize:
            for name in networks:
                one = len(networks) == 1
                page = options.visualize if one else options.visualize.with_stem(f"{options.visualize.stem}-{name}")
                common.visualize(options.build_dir / name, page)
    except C7xError as error:
        return common.end(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
