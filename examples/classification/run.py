"""Classifies an image on the virtual DSP or a board: ResNet-18 when its weights are here, else a net for digits.

    python examples/classification/run.py
    python examples/classification/run.py --image dog.jpg --network resnet18
    python examples/classification/run.py --board beagley-ai

Quantises and compiles the network, builds board_runner.cpp for the Arm side, copies it there with module, input and
labels, and runs it. docs/examples.md goes through it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from c7x.errors import C7xError, DependencyError
from c7x.tensorfile import write_tensors
from examples import common
from examples.classification import digits, resnet18
from examples.detection.trained import IMAGE

HERE = Path(__file__).resolve().parent
NETWORKS = {"digits": digits, "resnet18": resnet18}
IMAGES = {"digits": HERE / "digit.png", "resnet18": IMAGE}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Classify an image on a C7x DSP, or on the virtual DSP.")
    common.add_options(
        parser, build_dir="build/classification", remote_dir="/tmp/classification_example", image="one of the example"
    )
    parser.add_argument("--network", choices=["auto", *NETWORKS], default="auto", help="default: %(default)s")
    return parser.parse_args(arguments)


def choose(network: str) -> str:
    """The network to run; says why (DependencyError: ResNet-18 was asked for and is not here)."""
    if network == "digits":
        return network
    problem = resnet18.missing()
    if problem is None:
        return "resnet18"
    if network == "resnet18":
        raise DependencyError("ResNet-18 cannot run", cause=problem, hint="--network digits runs a net for digits")
    common.say(f"ResNet-18 cannot run: {problem}; classifying digits instead")
    return "digits"


def run_modules(options: argparse.Namespace, arm: common.ArmSide, folder: Path, image: Path, network: str) -> None:
    """Runs the module on the Arm side and shows what its program prints."""
    model = NETWORKS[network]
    write_tensors(folder / "image.bin", [model.preprocess(image)])
    (folder / "labels.txt").write_text("".join(f"{name}\n" for name in model.labels()), encoding="utf-8")
    built = common.cmake_build(HERE, options.build_dir / f"runner-{options.board}", board=options.board)
    programs = [built / "board_runner", built / "arm" / "libc7x_arm_runtime.so.1"]
    for path in (common.require_module(folder), folder / "image.bin", folder / "labels.txt", *programs):
        arm.put(path)
    arm.call(["chmod", "+x", arm.path("board_runner")])
    files = [arm.path(name) for name in ("lib0.out", "image.bin", "labels.txt")]
    print(arm.call([arm.path("board_runner"), *files]), end="")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        network = choose(options.network)
        image = common.check_image(options.image or IMAGES[network])
        folder = options.build_dir / network
        common.say(f"network: {network}, {options.dtype}, on {options.board}")
        if not options.inference_only:
            common.compile_network(HERE / f"{network}.py", folder, options)
        if not options.compile_only:
            with common.arm_side(options) as arm:
                run_modules(options, arm, folder, image, network)
        if options.visualize:
            common.visualize(folder, options.visualize)
    except C7xError as error:
        return common.end(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
