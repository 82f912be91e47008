"""C text for values: literals that read back bit-equal, and comments and identifiers that cannot break the file."""

from __future__ import annotations

import keyword
import math
import re

import numpy as np

_INT_SUFFIX = {"int64": "LL", "uint64": "ULL", "uint32": "U"}


def literal(value: object, dtype: str) -> str:
    """The C99 and C++14 literal of ``value`` as ``dtype`` (a key of ``program.DTYPES``).

    Floats use the shortest decimal text that reads back to the same bits; NaN and infinity use the macros of math.h
    (every NaN becomes the quiet one: payloads carry no meaning in PyTorch).
    """
    if dtype in ("float32", "float64"):
        number = np.float32(value) if dtype == "float32" else np.float64(value)  # type: ignore[arg-type]
        suffix = "f" if dtype == "float32" else ""
        if np.isnan(number):
            return "NAN" if dtype == "float32" else "(double)NAN"
        if np.isinf(number):
            sign = "-" if number < 0 else ""
            return f"({sign}INFINITY)" if dtype == "float32" else f"({sign}(double)INFINITY)"
        text = np.format_float_scientific(number, unique=True, trim="0")
        plain = np.format_float_positional(number, unique=True, trim="0")
        text = min((plain, text), key=len) if number != 0 else ("-0.0" if math.copysign(1, number) < 0 else "0.0")
        return f"({text}{suffix})" if text.startswith("-") else f"{text}{suffix}"
    integer = int(value)  # type: ignore[call-overload]
    if dtype == "bool":
        return "1" if integer else "0"
    if dtype == "int64" and integer == -(2**63):
        return "(-9223372036854775807LL - 1)"
    if dtype == "int32" and integer == -(2**31):
        return "(-2147483647 - 1)"
    text = f"{integer}{_INT_SUFFIX.get(dtype, '')}"
    return f"({text})" if integer < 0 else text


def comment(text: str) -> str:
    """``text`` made safe to stand inside a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").replace("\n", " ")


def c_string(text: str) -> str:
    """A C string literal of ``text`` in UTF-8, every byte outside printable ASCII escaped in octal."""
    out = []
    for byte in text.encode("utf-8"):
        char = chr(byte)
        if char in '"\\?':
            out.append("\\" + char)
        elif 32 <= byte < 127:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


_C_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while class "
    "namespace template this new delete operator private protected public friend virtual bool true false".split()
)


def c_identifier(text: str) -> str:
    """``text`` as a C identifier: foreign characters become underscores, a leading digit or a keyword gets a prefix."""
    name = re.sub(r"\W", "_", text, flags=re.ASCII) or "model"
    if name[0].isdigit() or name in _C_KEYWORDS or keyword.iskeyword(name):
        name = f"m_{name}"
    return name
