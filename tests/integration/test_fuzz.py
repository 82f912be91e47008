"""The fuzz corpus of tests/fuzz is what it is said to be; CTest runs it, and ``make fuzz`` goes on from it."""

from __future__ import annotations

import re

import pytest

from tests.fuzz import seeds

TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in seeds.CORPUS.parent.glob("fuzz_*.cc"))
#: Modules have to hold 4 KiB of zeros before their weights (module ABI, section 6).
LARGEST = {"elf": 10_000}


def test_every_target_has_a_corpus() -> None:
    assert TARGETS == ["client", "elf", "protocol", "tensorfile", "weights"]
    assert sorted(path.name for path in seeds.CORPUS.iterdir()) == TARGETS


@pytest.mark.parametrize("target", TARGETS)
def test_files_are_small_and_few(target: str) -> None:
    files = sorted((seeds.CORPUS / target).iterdir())
    assert 4 <= len(files) <= 250
    for path in files:
        assert path.stat().st_size <= LARGEST.get(target, 4096), path
        assert re.fullmatch(r"[a-z0-9-]+", path.name), path


def test_seeds_are_those_of_the_product() -> None:
    for target, files in seeds.seeds().items():
        for name, data in files.items():
            assert (seeds.CORPUS / target / f"seed-{name}").read_bytes() == data, (
                f"{target}: run python -m tests.fuzz.seeds"
            )


def test_modules_are_of_both_machines() -> None:
    for machine, number in (("x86-64", 62), ("aarch64", 183)):
        for name in ("plain", "weights"):
            module = (seeds.CORPUS / "elf" / f"seed-{machine}-{name}").read_bytes()
            assert module[:4] == b"\x7fELF"
            assert int.from_bytes(module[18:20], "little") == number
            assert (b"_binary_weights_bin_start" in module) == (name == "weights")
