"""The text of a layer profile (module-abi.md section 4): written by ``TVMPrintLayerProfile``, read back here.

``format_profile`` gives the lines as the module prints them; ``parse_profiles`` finds them again in anything a run
printed or a board logged, whatever stands around them or in front of them on the same line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from c7x.errors import FormatError

_HEADER = "===== TVM Layer Profile ====="
_RULE = "-" * 29
_END = "=" * 29

_LAYER_LINE = re.compile(r"\[ *(\d+)\] (\S+) +(\d+) cycles$")
_TOTAL_LINE = re.compile(r"Total: (\d+) cycles \((\d+) layers\)$")
_FAILED_LINE = re.compile(r"\[FAILED, in flight\] (\S+)$")


@dataclass(frozen=True, kw_only=True)
class ProfileText:
    """One profile.

    Attributes:
        layers: (kernel's C symbol, cycles) in call order. On a host the clock counts nanoseconds.
        in_flight: the kernel that had not returned success when the profile was printed; None when all have.
    """

    layers: tuple[tuple[str, int], ...]
    in_flight: str | None = None

    @property
    def total(self) -> int:
        return sum(cycles for _, cycles in self.layers)


def format_profile(profile: ProfileText) -> str:
    """The lines that a module prints, the empty one in front included."""
    lines = ["", _HEADER]
    lines += [f"[{index:3d}] {name:<40} {cycles} cycles" for index, (name, cycles) in enumerate(profile.layers)]
    lines += [_RULE, f"Total: {profile.total} cycles ({len(profile.layers)} layers)"]
    if profile.in_flight is not None:
        lines.append(f"[FAILED, in flight] {profile.in_flight}")
    return "\n".join([*lines, _END]) + "\n"


def parse_profiles(text: str) -> list[ProfileText]:
    """All profiles in a text, in order; other lines, also among theirs, are passed over.

    Raises:
        FormatError: a profile is cut off, lines of it are missing or damaged, or its total is not the sum of its
            layers.
    """
    profiles: list[ProfileText] = []
    open_profile: _Open | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.rstrip()
        if line.endswith(_HEADER):
            if open_profile is not None:
                raise open_profile.cut_off(f"the next one begins in line {number}")
            open_profile = _Open(number)
        elif open_profile is not None and (found := open_profile.read(line, number)) is not None:
            profiles.append(found)
            open_profile = None
    if open_profile is not None:
        raise open_profile.cut_off("the text ends before it does")
    return profiles


class _Open:
    """A profile whose end has not been read yet."""

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.layers: list[tuple[str, int]] = []
        self.total: tuple[int, int] | None = None
        self.in_flight: str | None = None

    def read(self, line: str, number: int) -> ProfileText | None:
        """Take one line; the profile when it was the last."""
        if (layer := _LAYER_LINE.search(line)) is not None:
            if int(layer[1]) != len(self.layers) or self.total is not None:
                raise self._damaged(f"line {number} is of layer {layer[1]}, and layer {len(self.layers)} is next")
            self.layers.append((layer[2], int(layer[3])))
        elif (total := _TOTAL_LINE.search(line)) is not None:
            self.total = (int(total[1]), int(total[2]))
        elif (failed := _FAILED_LINE.search(line)) is not None:
            self.in_flight = failed[1]
        # Another 29 equal signs would end the header's line, which was looked at before.
        elif line.endswith(_END):
            return self._finish()
        return None

    def _finish(self) -> ProfileText:
        if self.total is None:
            raise self._damaged("its line with the total is missing")
        found = ProfileText(layers=tuple(self.layers), in_flight=self.in_flight)
        cycles, count = self.total
        if count != len(self.layers):
            raise self._damaged(f"it tells of {count} layers, and {len(self.layers)} are there")
        if cycles != found.total:
            raise self._damaged(f"its total is {cycles} cycles, and its layers have {found.total}")
        return found

    def _damaged(self, fact: str) -> FormatError:
        return FormatError(
            f"the layer profile that begins in line {self.begin} is damaged: {fact}",
            cause="lines were lost or changed on the way here",
            hint="take the whole output of one run, as c7x_compute prints it on standard error",
        )

    def cut_off(self, where: str) -> FormatError:
        return FormatError(
            f"the layer profile that begins in line {self.begin} is cut off after {len(self.layers)} layers: {where}",
            cause="the log was taken too early, or the firmware's 64 KiB of printed text were full",
            hint="take the log again after the run; for a model of very many layers, run it once and not twice",
        )
