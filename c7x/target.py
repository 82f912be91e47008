"""The target string ``c_static -mcpu=c7x -mmalib=1 ...`` and the boards.

Grammar: the kind ``c_static``, then attributes separated by white space, each at most once and in any order.
``-name=value`` sets an attribute; a boolean may be written ``-name``, and its values are ``1``, ``0``, ``true`` and
``false``; an array is a comma-separated list. ``str(target)`` writes the canonical form: attributes in table order,
those that equal their default left out.

Attributes, types and defaults: target-attributes.md, section 1; ``winograd`` is c7x's own. Boards: section 6.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, cast

from c7x.errors import TargetError, UnsupportedError

KIND: Final = "c_static"

#: What is compiled for when the user names no target.
DEFAULT_TARGET: Final = "c_static -mcpu=c7x"

#: The L2 scratch memory of the DSP in bytes (module-abi.md, section 7): more than this ``l2-sram-size`` cannot give.
L2_BYTES: Final = 0x140000

Value = str | int | bool | tuple[str, ...] | None
Kind = Literal["string", "array of string", "int", "bool"]
Mode = Literal["c7x_host", "c7x_vdsp", "c7x_dload"]

DEFAULT_MODE: Final[Mode] = "c7x_host"


# ---------------------------------------------------------------------------------------------------------- boards


@dataclass(frozen=True, kw_only=True)
class Board:
    """One supported board.

    Attributes:
        name: as in ``--board``.
        host_name: the name under which ssh finds it unless the user says otherwise.
        ddr: memory variants; ``default_ddr`` is one of them.
        firmware_tidl, firmware_mmalib: what its default ``c7x_compute`` firmware is built with.
        mcu_plus_sdk, mmalib: versions of TI's packages that belong to the firmware.
    """

    name: str
    host_name: str
    ddr: tuple[str, ...]
    default_ddr: str
    firmware_tidl: bool
    firmware_mmalib: bool
    mcu_plus_sdk: str
    mmalib: str


#: Host names, memory and versions: target-attributes.md section 6; firmware options: module-abi.md section 8.10.
BOARDS: Final[Mapping[str, Board]] = {
    board.name: board
    for board in (
        Board(
            name="beagley-ai",
            host_name="beagley-ai",
            ddr=("4gb",),
            default_ddr="4gb",
            firmware_tidl=False,
            firmware_mmalib=True,
            mcu_plus_sdk="11.02.01.05",
            mmalib="11.02.00.11",
        ),
        Board(
            name="j722s-evm",
            host_name="am67a",
            ddr=("8gb",),
            default_ddr="8gb",
            firmware_tidl=True,
            firmware_mmalib=True,
            mcu_plus_sdk="11.00.00.12",
            mmalib="11.02.00.06",
        ),
    )
}


def find_board(name: str) -> Board:
    """The board called ``name``.

    Raises:
        TargetError: there is no such board; the nearest name is offered.
    """
    if name in BOARDS:
        return BOARDS[name]
    raise TargetError(
        f"unknown board {name!r}", cause=f"boards are {', '.join(BOARDS)}", hint=_did_you_mean(name, BOARDS)
    )


# ------------------------------------------------------------------------------------------------------ attributes


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One row of the attribute table.

    Attributes:
        name: as written after the dash.
        type: type of the value.
        default: the default as text, with what it depends on.
        effect: what the attribute changes.
        acts: for which mcpu and mode it has this effect in this version of c7x.
    """

    name: str
    type: Kind
    default: str
    effect: str
    acts: str

    @property
    def field(self) -> str:
        """The name of the field of ``Target``."""
        return self.name.replace("-", "_")


ATTRIBUTES: Final[tuple[Attribute, ...]] = (
    Attribute(
        name="mcpu",
        type="string",
        default="none",
        effect="the processor; `c7...` selects the C7x. `c66...`, `arm...` and `generic` are known names; "
        "any other is kept with a warning",
        acts="c7: every mode; all others parse, but cannot be compiled for",
    ),
    Attribute(
        name="mattr",
        type="array of string",
        default="empty",
        effect="processor features; accepted so that existing strings parse",
        acts="nowhere",
    ),
    Attribute(
        name="device",
        type="string",
        default="none",
        effect="`awrl6844` changes three defaults: l1d-cache-size 32768, l2-sram-size 262144, vector-width 128",
        acts="every mcpu, when the string is parsed",
    ),
    Attribute(
        name="constants-byte-alignment",
        type="int",
        default="16; 64 with a c66 or c7 mcpu",
        effect="alignment in bytes of constants that lib0.c holds as C arrays; the layout of weights.bin "
        "does not depend on it",
        acts="c7, every mode",
    ),
    Attribute(
        name="l1d-cache-size",
        type="int",
        default="32768",
        effect="L1 data cache in bytes, a hint for tiling",
        acts="nowhere yet; kernels choose their tiles from the shapes",
    ),
    Attribute(
        name="l2-sram-size",
        type="int",
        default="1310720; 262144 with device awrl6844",
        effect="L2 memory in bytes into which operands of `mmalib_*` calls are copied; the DSP has 1310720, and more "
        "is taken as that. Less than 256 switches staging off",
        acts="c7 with mmalib, every mode, for quantised models",
    ),
    Attribute(
        name="vector-width",
        type="int",
        default="128",
        effect="vector width in bits, a hint for vectorisation",
        acts="nowhere yet; kernels use vectors of 8 lanes",
    ),
    Attribute(
        name="profile-layers",
        type="bool",
        default="0",
        effect="reads the cycle counter around every kernel call and adds `TVMPrintLayerProfile`",
        acts="c7, every mode; under c7x_host the counter shows host time",
    ),
    Attribute(
        name="debug-alloc",
        type="bool",
        default="0",
        effect="prints where every buffer lies in the arena and adds `TVMPrintAllocSummary`",
        acts="c7, every mode",
    ),
    Attribute(
        name="skip-runtime-checks",
        type="bool",
        default="1",
        effect="0 makes `cg_main_dsp` check the shape and dtype of every input and say what is wrong",
        acts="c7, every mode",
    ),
    Attribute(
        name="use-cpp-api",
        type="bool",
        default="1",
        effect="chooses direct calls (1) or packed calls (0) for operations of a VM at run time",
        acts="nowhere: generated code has no VM, its calls are always direct",
    ),
    Attribute(
        name="tidl-runtime",
        type="bool",
        default="0",
        effect="the entry calls `tidl_bridge_init_all` once",
        acts="c7, mode c7x_dload on a board whose firmware has TIDL; refused elsewhere",
    ),
    Attribute(
        name="tidl-kernels",
        type="bool",
        default="1; 0 with board beagley-ai",
        effect="allows calls of `c7x_int8_max_pool_tidl`, which only firmware with TIDL provides",
        acts="c7, every mode: a module that calls it without is refused; c7x itself uses `c7x_int8_max_pool`, which "
        "every firmware has",
    ),
    Attribute(
        name="mmalib",
        type="bool",
        default="0",
        effect="moves quantised layers to MMALIB, TI's library for the matrix multiply accelerator, and to the "
        "firmware's other int8 kernels",
        acts="c7, every mode, for quantised models",
    ),
    Attribute(
        name="winograd",
        type="bool",
        default="1",
        effect="0 keeps 3x3 convolutions of real numbers on direct sums: their weights are stored as they are instead "
        "of 16/9 as large, and results come closer to PyTorch's, for more multiplications. An attribute of c7x alone",
        acts="c7, every mode, for float32 convolutions",
    ),
)

_BY_NAME: Final[Mapping[str, Attribute]] = {a.name: a for a in ATTRIBUTES}

_BASE_DEFAULTS: Final[Mapping[str, Value]] = {
    "mcpu": None,
    "mattr": (),
    "device": None,
    "constants-byte-alignment": 16,
    "l1d-cache-size": 32768,
    "l2-sram-size": L2_BYTES,
    "vector-width": 128,
    "profile-layers": False,
    "debug-alloc": False,
    "skip-runtime-checks": True,
    "use-cpp-api": True,
    "tidl-runtime": False,
    "tidl-kernels": True,
    "mmalib": False,
    "winograd": True,
}

#: Defaults that the processor family or the device replaces.
_FAMILY_DEFAULTS: Final[Mapping[str, Mapping[str, Value]]] = {
    "c66": {"constants-byte-alignment": 64},
    "c7": {"constants-byte-alignment": 64},
}
_DEVICE_DEFAULTS: Final[Mapping[str, Mapping[str, Value]]] = {
    "awrl6844": {"l1d-cache-size": 32768, "l2-sram-size": 262144, "vector-width": 128},
}

_FAMILIES: Final = ("c66", "c7", "arm", "generic")
_KNOWN_MCPU: Final = ("c7x", "c66x", "arm", "generic")


def _power_of_two(value: int) -> bool:
    return value > 0 and value & (value - 1) == 0


#: What an integer must satisfy, and how that is said.
_INT_RULES: Final[Mapping[str, tuple[Callable[[int], bool], str]]] = {
    "constants-byte-alignment": (lambda v: _power_of_two(v) and v <= 4096, "a power of two from 1 to 4096"),
    "l1d-cache-size": (lambda v: 0 < v < 2**31, "a number of bytes from 1 to 2147483647"),
    "l2-sram-size": (lambda v: 0 < v < 2**31, "a number of bytes from 1 to 2147483647"),
    "vector-width": (lambda v: _power_of_two(v) and 32 <= v <= 1024, "a power of two from 32 to 1024 (bits)"),
}

_BOOLS: Final[Mapping[str, bool]] = {"1": True, "true": True, "0": False, "false": False}

# A word keeps the canonical string free of quoting; features may begin with a sign.
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_FEATURE = re.compile(r"[+-]?[A-Za-z0-9_][A-Za-z0-9_.+-]*")


def attributes() -> tuple[Attribute, ...]:
    """The attribute table, in the order of the canonical string; the CLI's help and docs/target.md come from it."""
    return ATTRIBUTES


def mcpu_family(mcpu: str | None) -> str | None:
    """``c66``, ``c7``, ``arm`` or ``generic`` by the beginning of the name; None for any other and for no name."""
    if mcpu is None:
        return None
    return next((family for family in _FAMILIES if mcpu.startswith(family)), None)


def _did_you_mean(word: str, known: Iterable[str], before: str = "") -> str | None:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.0)
    return f"did you mean {before}{near[0]}?" if near else None


def _parse_value(attribute: Attribute, text: str | None) -> Value:
    """The value of ``-name=text``; None stands for ``-name`` alone."""
    written = f"-{attribute.name}" if text is None else f"-{attribute.name}={text}"
    match attribute.type:
        case "bool":
            if text is None:
                return True
            if text.lower() in _BOOLS:
                return _BOOLS[text.lower()]
            raise TargetError(
                f"{written}: {text!r} is not a boolean",
                cause="values are 1, 0, true and false, or none at all for 1",
                hint=f"write -{attribute.name}={_nearest_bool(text)}",
            )
        case "int":
            allowed, rule = _INT_RULES[attribute.name]
            if text is not None and re.fullmatch(r"[0-9]{1,18}", text) and allowed(int(text)):
                return int(text)
            raise TargetError(
                f"{written}: {'the value is missing' if not text else f'{text!r} is not valid'}",
                cause=f"it must be {rule}",
                hint=f"write -{attribute.name}={_nearest_int(attribute.name, text)}",
            )
        case "string":
            if text is not None and _WORD.fullmatch(text):
                return text
            raise TargetError(
                f"{written}: {'the value is missing' if not text else f'{text!r} is not valid'}",
                cause="it must be one word of letters, digits and _ . + -",
                hint=f"write -{attribute.name}={'c7x' if attribute.name == 'mcpu' else 'awrl6844'}",
            )
        case "array of string":
            items = tuple(text.split(",")) if text else ()
            if text is not None and all(_FEATURE.fullmatch(item) for item in items):
                return items
            raise TargetError(
                f"{written}: {'the value is missing' if text is None else f'{text!r} is not valid'}",
                cause="it must be words separated by commas",
                hint=f"write -{attribute.name}=+first,+second",
            )


def _nearest_bool(text: str) -> str:
    return "0" if text.lower() in {"no", "off", "n", "f", "none", "never"} or text.lower().startswith("fa") else "1"


def _nearest_int(name: str, text: str | None) -> int:
    """The valid value nearest to ``text``, the base default when ``text`` is no number."""
    fallback = cast("int", _BASE_DEFAULTS[name])
    if text is None or not re.fullmatch(r"-?[0-9]{1,18}", text):
        return fallback
    allowed, _ = _INT_RULES[name]
    candidates = [value for value in (*(1 << n for n in range(31)), 2**31 - 1) if allowed(value)]
    return min(candidates, key=lambda value: abs(value - int(text)))


def _defaults(mcpu: str | None, device: str | None) -> dict[str, Value]:
    values = dict(_BASE_DEFAULTS)
    values.update(_FAMILY_DEFAULTS.get(mcpu_family(mcpu) or "", {}))
    values.update(_DEVICE_DEFAULTS.get(device or "", {}))
    return values


# ---------------------------------------------------------------------------------------------------------- target


@dataclass(frozen=True, kw_only=True)
class Target:
    """What to compile for. Made by ``Target.parse``, which resolves every default; field names are the attribute
    names with underscores. ``warnings`` are sentences for the user and take no part in comparisons."""

    mcpu: str | None
    mattr: tuple[str, ...]
    device: str | None
    constants_byte_alignment: int
    l1d_cache_size: int
    l2_sram_size: int
    vector_width: int
    profile_layers: bool
    debug_alloc: bool
    skip_runtime_checks: bool
    use_cpp_api: bool
    tidl_runtime: bool
    tidl_kernels: bool
    mmalib: bool
    winograd: bool
    board: str | None = None
    warnings: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def parse(cls, text: str, board: str | None = None) -> Target:
        """Parse a target string; ``board`` (a key of ``BOARDS``) adds the board's rules.

        Raises:
            TargetError: no or another kind, an unknown or repeated attribute, a value of the wrong type or range,
                an unknown board, or an attribute that the board contradicts.
        """
        written = _parse_attributes(text)
        mcpu = cast("str | None", written.get("mcpu"))
        device = cast("str | None", written.get("device"))
        values = _defaults(mcpu, device) | written
        if board is not None and not find_board(board).firmware_tidl:
            if written.get("tidl-kernels") is True:
                raise TargetError(
                    f"-tidl-kernels=1 is not possible on board {board}",
                    cause=f"the firmware of {board} is built without TIDL and has no c7x_int8_max_pool_tidl",
                    hint="leave -tidl-kernels out, or write -tidl-kernels=0",
                )
            values["tidl-kernels"] = False
        fields = {_BY_NAME[name].field: value for name, value in values.items()}
        return cls(**fields, board=board, warnings=_warnings(mcpu, device, written))  # type: ignore[arg-type]

    def value(self, name: str) -> Value:
        """The value of the attribute ``name`` (with dashes); KeyError when there is no such attribute."""
        return cast("Value", getattr(self, _BY_NAME[name].field))

    def __str__(self) -> str:
        """The canonical string: it parses back to an equal target when given the same board."""
        defaults = _defaults(self.mcpu, self.device)
        words = [KIND]
        for attribute in ATTRIBUTES:
            value = self.value(attribute.name)
            if value == defaults[attribute.name]:
                continue
            match value:
                case bool():
                    words.append(f"-{attribute.name}={int(value)}")
                case tuple():
                    words.append(f"-{attribute.name}={','.join(value)}")
                case _:
                    words.append(f"-{attribute.name}={value}")
        return " ".join(words)

    @property
    def family(self) -> str | None:
        """``c66``, ``c7``, ``arm``, ``generic``, or None for any other processor."""
        return mcpu_family(self.mcpu)

    def to_tvm(self) -> dict[str, object]:
        """The configuration for ``tvm.target.Target``: public TVM knows the kind ``c``, not ``c_static``."""
        config: dict[str, object] = {"kind": "c", "constants-byte-alignment": self.constants_byte_alignment}
        if self.mcpu is not None:
            config["mcpu"] = self.mcpu
        return config

    def check_supported(self, mode: str = DEFAULT_MODE) -> None:
        """Check that this version of c7x compiles for this target in this mode.

        Raises:
            TargetError: there is no such mode, or the board contradicts an attribute.
            UnsupportedError: the mode, the processor, or an attribute is known but not supported.
        """
        check_mode(mode)
        if self.family != "c7":
            named = "no -mcpu" if self.mcpu is None else f"-mcpu={self.mcpu}"
            raise UnsupportedError(
                f"compiling for a target with {named} is not supported in mode {mode}",
                cause=_UNSUPPORTED_FAMILY[self.family],
                hint="write -mcpu=c7x",
            )
        if self.tidl_runtime and mode != "c7x_dload":
            raise UnsupportedError(
                f"-tidl-runtime=1 is not supported in mode {mode}",
                cause="tidl_bridge_init_all comes with TI's TIDL bridge, which only a module on a board can link",
                hint="write -tidl-runtime=0, or leave it out",
            )
        if self.tidl_runtime and self.board is not None and not BOARDS[self.board].firmware_tidl:
            raise TargetError(
                f"-tidl-runtime=1 is not possible on board {self.board}",
                cause=f"the firmware of {self.board} is built without TIDL",
                hint="leave -tidl-runtime out, or write -tidl-runtime=0",
            )


_UNSUPPORTED_FAMILY: Final[Mapping[str | None, str]] = {
    "c66": "c7x generates code for the C7x only; the string parses so that scripts for the C66x can be read",
    "arm": "c7x generates code for the C7x only; on Arm Linux, mode c7x_host with -mcpu=c7x builds with its compiler",
    "generic": "c7x generates code for the C7x only; lib0.c for -mcpu=c7x is portable C and runs on any host",
    None: "c7x generates code for the C7x only",
}

#: Why a mode that has a name cannot be used; None where it can.
MODES: Final[Mapping[str, str | None]] = {
    "c7x_host": None,
    "c7x_vdsp": None,
    "c7x_dload": None,
    "c7x": "it names the build of the DSP's firmware, which c7x does not build",
    "c66x": "c7x generates code for the C7x only",
    "c66x_host": "c7x generates code for the C7x only",
}


def check_mode(mode: str) -> None:
    """Check that this version of c7x has the mode.

    Raises:
        TargetError: there is no such mode.
        UnsupportedError: the mode is known, but not supported by this version.
    """
    if mode not in MODES:
        raise TargetError(
            f"unknown mode {mode!r}", cause=f"modes are {', '.join(MODES)}", hint=_did_you_mean(mode, MODES)
        )
    if reason := MODES[mode]:
        raise UnsupportedError(f"mode {mode} is not supported", cause=reason, hint=f"use mode {DEFAULT_MODE}")


def _parse_attributes(text: str) -> dict[str, Value]:
    """What the string says, by attribute name, without defaults."""
    words = text.split()
    if not words or words[0] != KIND:
        raise TargetError(
            f"the target {text!r} does not begin with {KIND}",
            cause="the kind is missing" if not words or words[0].startswith("-") else f"{words[0]!r} is another kind",
            hint=f"write {DEFAULT_TARGET!r}",
        )
    written: dict[str, Value] = {}
    for word in words[1:]:
        name, equals, value = word.removeprefix("-").partition("=")
        if not word.startswith("-"):
            raise TargetError(
                f"{word!r} in the target is not an attribute",
                cause="attributes are written -name=value, without a space around the equals sign",
                hint=_did_you_mean(name, _BY_NAME, before="-"),
            )
        if name not in _BY_NAME:
            raise TargetError(
                f"unknown target attribute {word.partition('=')[0]}",
                cause=f"attributes are {', '.join(_BY_NAME)}",
                hint=_did_you_mean(name.lstrip("-"), _BY_NAME, before="-"),
            )
        if name in written:
            raise TargetError(
                f"target attribute -{name} is given twice",
                cause=f"the target is {text!r}",
                hint=f"keep one -{name}",
            )
        written[name] = _parse_value(_BY_NAME[name], value if equals else None)
    return written


def _warnings(mcpu: str | None, device: str | None, written: Mapping[str, Value]) -> tuple[str, ...]:
    warnings = []
    if mcpu is not None and mcpu_family(mcpu) is None:
        warnings.append(f"unknown -mcpu={mcpu}; {_did_you_mean(mcpu, _KNOWN_MCPU, before='-mcpu=')}")
    if device is not None and device not in _DEVICE_DEFAULTS:
        warnings.append(f"-device={device} is not known and changes nothing; known: {', '.join(_DEVICE_DEFAULTS)}")
    if written.get("mmalib") is True and mcpu_family(mcpu) != "c7":
        warnings.append("-mmalib=1 has no effect without a c7 -mcpu")
    if mcpu_family(mcpu) == "c7" and cast("int", written.get("l2-sram-size", 0)) > L2_BYTES:
        warnings.append(f"-l2-sram-size={written['l2-sram-size']} is more than the L2 of the C7x; {L2_BYTES} are used")
    return tuple(warnings)
