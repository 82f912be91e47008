"""The text of a layer profile is read back exactly, whatever stands around it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from c7x.codegen import emit
from c7x.errors import FormatError
from c7x.report.profile_text import ProfileText, format_profile, parse_profiles

NAMES = st.from_regex(r"__tvm_ffi_[A-Za-z0-9_]{0,60}", fullmatch=True)
PROFILES = st.builds(
    ProfileText,
    layers=st.lists(st.tuples(NAMES, st.integers(0, 2**53)), max_size=30).map(tuple),
    in_flight=st.none() | NAMES,
)
#: Lines that a log may hold besides: anything that is no line of a profile.
NOISE = st.lists(
    st.text(st.characters(codec="ascii", categories=("L", "N", "P", "Zs")), max_size=40).filter(
        lambda line: not re.search(r"cycles|FAILED|==", line)
    ),
    max_size=4,
).map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(profile=PROFILES)
def test_round_trip(profile: ProfileText) -> None:
    assert parse_profiles(format_profile(profile)) == [profile]


@given(profiles=st.lists(PROFILES, max_size=3), noise=NOISE)
def test_round_trip_in_a_log(profiles: list[ProfileText], noise: str) -> None:
    text = noise + "".join(format_profile(p) + noise for p in profiles)
    assert parse_profiles(text) == profiles


@given(profile=PROFILES)
def test_stamps_in_front_of_every_line(profile: ProfileText) -> None:
    stamped = "".join(f"[C7x_1 ]   {i}.250 s: {line}\r\n" for i, line in enumerate(format_profile(profile).split("\n")))
    assert parse_profiles(stamped) == [profile]


@given(profile=PROFILES, share=st.floats(0, 1))
def test_a_cut_off_text_is_never_taken_for_a_profile(profile: ProfileText, share: float) -> None:
    text = format_profile(profile).rstrip("\n")
    cut = text[: int(share * (len(text) - 1))]
    if "===== TVM Layer Profile =====" in cut:
        with pytest.raises(FormatError, match="cut off after"):
            parse_profiles(cut)
    else:
        assert parse_profiles(cut) == []


def test_the_text_is_that_of_the_interface() -> None:
    profile = ProfileText(layers=(("__tvm_ffi_conv2d", 1234), ("n" * 45, 7)), in_flight="__tvm_ffi_mean")
    assert format_profile(profile).split("\n") == [
        "",
        "===== TVM Layer Profile =====",
        f"[  0] {'__tvm_ffi_conv2d':<40} 1234 cycles",
        f"[  1] {'n' * 45} 7 cycles",
        "-----------------------------",
        "Total: 1241 cycles (2 layers)",
        "[FAILED, in flight] __tvm_ffi_mean",
        "=============================",
        "",
    ]


def test_generated_code_prints_the_same_lines() -> None:
    """What lib0.c prints is written down twice, in C and in Python."""
    c_text = emit._PROFILE
    for fixed in ("===== TVM Layer Profile =====", "-----------------------------", "============================="):
        assert f'"{fixed}\\n"' in c_text
        assert f"{fixed}\n" in format_profile(ProfileText(layers=(), in_flight="x"))
    assert '"[%3d] %-40s %llu cycles\\n"' in c_text
    assert '"Total: %llu cycles (%d layers)\\n"' in c_text
    assert '"[FAILED, in flight] %s\\n"' in c_text


GOOD = format_profile(ProfileText(layers=(("a", 10), ("b", 20), ("c", 30))))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GOOD.replace("[  1] ", "[  2] "), "line 4 is of layer 2, and layer 1 is next"),
        (re.sub(r"\[  1\].*\n", "", GOOD), "line 4 is of layer 2, and layer 1 is next"),
        (re.sub(r"\[  2\].*\n", "", GOOD), "tells of 3 layers, and 2 are there"),
        (re.sub(r"Total.*\n", "", GOOD), "total is missing"),
        (GOOD.replace("20 cycles", "21 cycles"), "its total is 60 cycles, and its layers have 61"),
        (GOOD[:-60] + GOOD, "the next one begins in line"),
    ],
)
def test_damaged_texts(text: str, words: str) -> None:
    with pytest.raises(FormatError, match=re.escape(words)) as caught:
        parse_profiles(text)
    assert caught.value.hint


def test_no_profile() -> None:
    assert parse_profiles("") == []
    assert parse_profiles("Cycles: 12\nDone\n") == []
