from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from c7x.errors import TargetError, UnsupportedError
from c7x.target import (
    BOARDS,
    DEFAULT_TARGET,
    KIND,
    MODES,
    Attribute,
    Target,
    attributes,
    check_mode,
    find_board,
    mcpu_family,
)

DOCS = Path(__file__).parents[2] / "docs"


def test_defaults_are_those_of_the_table() -> None:
    target = Target.parse("c_static -mcpu=c7x")
    assert dataclasses.asdict(target) == {
        "mcpu": "c7x",
        "mattr": (),
        "device": None,
        "constants_byte_alignment": 64,
        "l1d_cache_size": 32768,
        "l2_sram_size": 1310720,
        "vector_width": 128,
        "profile_layers": False,
        "debug_alloc": False,
        "skip_runtime_checks": True,
        "use_cpp_api": True,
        "tidl_runtime": False,
        "tidl_kernels": True,
        "mmalib": False,
        "winograd": True,
        "board": None,
        "warnings": (),
    }


@pytest.mark.parametrize(
    ("mcpu", "alignment"), [("c7x", 64), ("c7524", 64), ("c66x", 64), ("arm", 16), ("generic", 16), (None, 16)]
)
def test_alignment_default_depends_on_the_processor(mcpu: str | None, alignment: int) -> None:
    text = KIND if mcpu is None else f"{KIND} -mcpu={mcpu}"
    assert Target.parse(text).constants_byte_alignment == alignment
    assert Target.parse(f"{text} -constants-byte-alignment=32").constants_byte_alignment == 32


def test_device_changes_defaults_but_not_what_is_written() -> None:
    target = Target.parse("c_static -mcpu=c7x -device=awrl6844")
    assert (target.l1d_cache_size, target.l2_sram_size, target.vector_width) == (32768, 262144, 128)
    target = Target.parse("c_static -l2-sram-size=4096 -mcpu=c7x -vector-width=512 -device=awrl6844")
    assert (target.l2_sram_size, target.vector_width) == (4096, 512)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("-mmalib", True),
        ("-mmalib=1", True),
        ("-mmalib=true", True),
        ("-mmalib=True", True),
        ("-mmalib=0", False),
        ("-mmalib=false", False),
    ],
)
def test_booleans(written: str, value: bool) -> None:
    assert Target.parse(f"c_static -mcpu=c7x {written}").mmalib is value


def test_arrays_and_white_space() -> None:
    target = Target.parse("  c_static\t-mattr=+mma,-fpu,x1   -mcpu=c7x\n")
    assert target.mattr == ("+mma", "-fpu", "x1")
    assert str(target) == "c_static -mcpu=c7x -mattr=+mma,-fpu,x1"
    assert Target.parse("c_static -mattr=").mattr == ()


def test_canonical_form_leaves_defaults_out_and_sorts() -> None:
    text = "c_static -mmalib=1 -tidl-kernels=true -skip-runtime-checks=0 -constants-byte-alignment=64 -mcpu=c7x"
    assert str(Target.parse(text)) == "c_static -mcpu=c7x -skip-runtime-checks=0 -mmalib=1"
    assert str(Target.parse("c_static -constants-byte-alignment=64")) == "c_static -constants-byte-alignment=64"


_WORDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,8}", fullmatch=True)


def _values(attribute: Attribute) -> st.SearchStrategy[Any]:
    if attribute.name == "mcpu":
        return st.sampled_from(["c7x", "c7524", "c66x", "arm", "generic"]) | _WORDS
    if attribute.name == "device":
        return st.just("awrl6844") | _WORDS
    match attribute.type:
        case "bool":
            return st.sampled_from(["0", "1", "true", "false"])
        case "int":
            return st.sampled_from(["32", "64", "128", "1024"])
        case "array of string":
            return st.lists(_WORDS, max_size=3).map(",".join)
        case "string":
            return _WORDS


_READ: dict[str, Callable[[str], Any]] = {
    "bool": lambda v: v in {"1", "true"},
    "int": int,
    "array of string": lambda v: tuple(v.split(",")) if v else (),
    "string": str,
}


@given(
    chosen=st.fixed_dictionaries({}, optional={a.name: _values(a) for a in attributes()}),
    board=st.sampled_from([None, *BOARDS]),
    order=st.randoms(use_true_random=False),
)
def test_round_trip(chosen: dict[str, str], board: str | None, order: Any) -> None:
    if board == "beagley-ai" and chosen.get("tidl-kernels") in {"1", "true"}:
        chosen.pop("tidl-kernels")
    words = [f"-{name}={value}" for name, value in chosen.items()]
    order.shuffle(words)
    target = Target.parse(" ".join([KIND, *words]), board=board)
    again = Target.parse(str(target), board=board)
    assert again == target
    assert str(again) == str(target)
    for name, value in chosen.items():
        attribute = next(a for a in attributes() if a.name == name)
        assert target.value(name) == _READ[attribute.type](value)


@pytest.mark.parametrize(
    ("text", "fact", "hint"),
    [
        ("", "does not begin with c_static", "c_static -mcpu=c7x"),
        ("-mcpu=c7x", "does not begin with c_static", "c_static -mcpu=c7x"),
        ("llvm -mcpu=c7x", "llvm -mcpu=c7x", "c_static -mcpu=c7x"),
        ("c_static -mcp=c7x", "unknown target attribute -mcp", "did you mean -mcpu?"),
        ("c_static --mcpu=c7x", "unknown target attribute --mcpu", "did you mean -mcpu?"),
        ("c_static -profile_layers", "unknown target attribute -profile_layers", "did you mean -profile-layers?"),
        ("c_static -mcpu c7x", "-mcpu: the value is missing", "-mcpu=c7x"),
        ("c_static -mcpu=c7x mmalib=1", "'mmalib=1' in the target is not an attribute", "did you mean -mmalib?"),
        ("c_static -mcpu=", "-mcpu=: the value is missing", "-mcpu=c7x"),
        ("c_static -mcpu=c7x;rm", "'c7x;rm' is not valid", "-mcpu=c7x"),
        ("c_static -mmalib=yes", "-mmalib=yes: 'yes' is not a boolean", "-mmalib=1"),
        ("c_static -mmalib=off", "-mmalib=off: 'off' is not a boolean", "-mmalib=0"),
        ("c_static -mmalib=", "-mmalib=: '' is not a boolean", "-mmalib=1"),
        ("c_static -vector-width", "-vector-width: the value is missing", "-vector-width=128"),
        ("c_static -vector-width=wide", "'wide' is not valid", "-vector-width=128"),
        ("c_static -vector-width=120", "'120' is not valid", "-vector-width=128"),
        ("c_static -constants-byte-alignment=0", "'0' is not valid", "-constants-byte-alignment=1"),
        ("c_static -constants-byte-alignment=48", "'48' is not valid", "-constants-byte-alignment=32"),
        ("c_static -l2-sram-size=-1", "'-1' is not valid", "-l2-sram-size=1"),
        ("c_static -l2-sram-size=99999999999999999999", "is not valid", "-l2-sram-size=1310720"),
        ("c_static -l1d-cache-size=1e5", "'1e5' is not valid", "-l1d-cache-size=32768"),
        ("c_static -mattr=a,,b", "'a,,b' is not valid", "-mattr="),
        ("c_static -mcpu=c7x -mcpu=c7x", "-mcpu is given twice", "keep one -mcpu"),
        ("c_static -mmalib -mmalib=0", "-mmalib is given twice", "keep one -mmalib"),
    ],
)
def test_bad_strings(text: str, fact: str, hint: str) -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(text)
    assert fact in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


@given(st.text(max_size=60))
def test_any_text_parses_or_is_refused_by_a_target_error(text: str) -> None:
    try:
        target = Target.parse(f"c_static {text}")
    except TargetError as error:
        assert error.hint
    else:
        assert Target.parse(str(target)) == target


def test_suggested_values_are_valid() -> None:
    for bad in ("c_static -vector-width=7", "c_static -constants-byte-alignment=99999", "c_static -mmalib=nope"):
        with pytest.raises(TargetError) as caught:
            Target.parse(bad)
        suggestion = re.search(r"write (-\S+)", caught.value.hint or "")
        assert suggestion is not None
        Target.parse(f"c_static {suggestion[1]}")


def test_beagley_ai_has_no_tidl_kernels() -> None:
    target = Target.parse("c_static -mcpu=c7x", board="beagley-ai")
    assert target.tidl_kernels is False
    assert str(target) == "c_static -mcpu=c7x -tidl-kernels=0"
    assert Target.parse(str(target), board="beagley-ai") == target
    with pytest.raises(TargetError, match="tidl-kernels=1 is not possible on board beagley-ai") as caught:
        Target.parse("c_static -mcpu=c7x -tidl-kernels", board="beagley-ai")
    assert "without TIDL" in str(caught.value)
    assert Target.parse("c_static -mcpu=c7x -tidl-kernels=1", board="j722s-evm").tidl_kernels is True


def test_unknown_board() -> None:
    with pytest.raises(TargetError) as caught:
        Target.parse(DEFAULT_TARGET, board="beagle")
    assert "'beagle'" in caught.value.message
    assert caught.value.hint == "did you mean beagley-ai?"


def test_boards() -> None:
    assert find_board("j722s-evm").host_name == "am67a"
    assert find_board("beagley-ai").host_name == "beagley-ai"
    for name, board in BOARDS.items():
        assert board.name == name
        assert board.default_ddr in board.ddr
    with pytest.raises(dataclasses.FrozenInstanceError):
        find_board("j722s-evm").name = "other"  # type: ignore[misc]


def test_unknown_processor_is_a_warning() -> None:
    target = Target.parse("c_static -mcpu=c6x")
    assert target.mcpu == "c6x"
    assert target.warnings == ("unknown -mcpu=c6x; did you mean -mcpu=c66x?",)
    assert Target.parse("c_static -mcpu=c7504").warnings == ()


def test_other_warnings() -> None:
    assert "-mmalib=1 has no effect" in Target.parse("c_static -mcpu=arm -mmalib").warnings[0]
    assert "-device=am67 is not known" in Target.parse("c_static -mcpu=c7x -device=am67").warnings[0]


@pytest.mark.parametrize("text", ["c_static", "c_static -mcpu=c66x", "c_static -mcpu=arm", "c_static -mcpu=generic"])
def test_other_processors_parse_but_are_not_compiled_for(text: str) -> None:
    target = Target.parse(text)
    with pytest.raises(UnsupportedError) as caught:
        target.check_supported("c7x_host")
    assert (target.mcpu or "no -mcpu") in caught.value.message
    assert caught.value.hint == "write -mcpu=c7x"


def test_modes() -> None:
    Target.parse(DEFAULT_TARGET).check_supported("c7x_host")
    for mode, reason in MODES.items():
        if reason is not None:
            with pytest.raises(UnsupportedError, match=f"mode {mode} is not supported"):
                check_mode(mode)
    with pytest.raises(TargetError) as caught:
        check_mode("c7x_hots")
    assert caught.value.hint == "did you mean c7x_host?"


def test_tidl_runtime_is_refused_where_it_cannot_link() -> None:
    with pytest.raises(UnsupportedError, match="tidl-runtime=1"):
        Target.parse("c_static -mcpu=c7x -tidl-runtime").check_supported("c7x_host")


def test_family() -> None:
    assert [mcpu_family(m) for m in ("c7x", "c66x", "c66", "armv8", "generic-x", "x86", None)] == [
        "c7",
        "c66",
        "c66",
        "arm",
        "generic",
        None,
        None,
    ]


def test_to_tvm_uses_keys_that_public_tvm_knows() -> None:
    assert Target.parse(DEFAULT_TARGET).to_tvm() == {"kind": "c", "mcpu": "c7x", "constants-byte-alignment": 64}
    assert Target.parse("c_static").to_tvm() == {"kind": "c", "constants-byte-alignment": 16}


def test_frozen_and_hashable() -> None:
    target = Target.parse(DEFAULT_TARGET)
    assert hash(target) == hash(Target.parse(DEFAULT_TARGET))
    with pytest.raises(dataclasses.FrozenInstanceError):
        target.mcpu = "arm"  # type: ignore[misc]


def test_table_matches_the_fields() -> None:
    names = {f.name for f in dataclasses.fields(Target)} - {"board", "warnings"}
    assert {a.field for a in attributes()} == names
    assert {"mcpu", "mmalib", "use-cpp-api"} <= {a.name for a in attributes()}


def test_default_texts_are_the_defaults() -> None:
    target = Target.parse("c_static")
    words = {None: "none", (): "empty", True: "1", False: "0"}
    for attribute in attributes():
        value = target.value(attribute.name)
        shown = str(value) if type(value) is int else words[value]  # type: ignore[index]
        assert attribute.default.split(";")[0] == shown, attribute.name


def test_docs_show_the_table() -> None:
    rows = [f"| `{a.name}` | {a.type} | {a.default} | {a.effect} | {a.acts} |" for a in attributes()]
    text = (DOCS / "target.md").read_text(encoding="utf-8")
    shown = [line for line in text.splitlines() if re.match(r"\| `[a-z0-9-]+` \| (string|int|bool|array)", line)]
    assert shown == rows, "docs/target.md must show:\n" + "\n".join(rows)
    for board in BOARDS.values():
        assert re.search(rf"\| `{board.name}` \|.*\b{board.host_name}\b", text)
    for mode in MODES:
        assert f"`{mode}`" in text
