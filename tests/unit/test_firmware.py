"""The table of firmware kernels against the C headers and the export list."""

from __future__ import annotations

import re

import pytest

from c7x.codegen.kernels.firmware import FIRMWARE, FirmwareKernel
from c7x.codegen.program import DTYPES
from c7x.native import native_dir
from c7x.toolchain.exports import EXPORTS

HEADERS = ("c7x_kernels.h", "mmalib/mmalib_wrappers.h")


def _declared() -> dict[str, str]:
    """Prototypes of the headers by symbol, in one line each."""
    found = {}
    for name in HEADERS:
        text = (native_dir() / "kernels" / name).read_text(encoding="utf-8")
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        for prototype, symbol in re.findall(r"(int32_t (\w+)\([^)]*\));", text):
            assert symbol not in found
            found[symbol] = re.sub(r"\s+", " ", prototype)
    return found


def test_headers_and_table_agree() -> None:
    assert {symbol: kernel.prototype for symbol, kernel in FIRMWARE.items()} == _declared()


def test_availability_follows_the_name() -> None:
    assert sum(k.availability == "mmalib" for k in FIRMWARE.values()) == 10
    for symbol, kernel in FIRMWARE.items():
        expected = "mmalib" if symbol.startswith("mmalib_") else "tidl" if symbol.endswith("_tidl") else "always"
        assert kernel.availability == expected
        assert kernel.symbol == symbol


def test_export_list_and_table_agree() -> None:
    exported = {name: e.availability for name, e in EXPORTS.items() if name.startswith(("c7x_", "mmalib_"))}
    assert {symbol: kernel.availability for symbol, kernel in FIRMWARE.items()} == exported


@pytest.mark.parametrize("kernel", FIRMWARE.values(), ids=lambda k: k.symbol)
def test_arguments_are_well_formed(kernel: FirmwareKernel) -> None:
    names = [a.name for a in kernel.arguments]
    assert len(set(names)) == len(names)
    assert kernel.inputs
    assert kernel.outputs
    assert all(a.dtype in DTYPES for a in kernel.arguments)
    assert all(a.kind == "in" for a in kernel.arguments if a.optional)
    # What a header's doc comment calls int8, int16, ... is what the symbol says.
    width = re.search(r"_(?:i|int)(8|16)(?:_|$)", kernel.symbol)
    if width is not None:
        assert f"int{width[1]}" in {a.dtype for a in (*kernel.inputs[:1], *kernel.outputs[:1])}


def test_arrange_puts_expressions_in_the_order_of_the_signature() -> None:
    kernel = FIRMWARE["c7x_int8_fpn_upsample_concat_ex"]
    given = kernel.arrange(["a", "b"], ["y", "pre"], [str(i) for i in range(10)])
    assert given == ("a", "0", "1", "2", "3", "4", "b", "5", "6", "7", "y", "8", "9", "pre")
    with pytest.raises(ValueError, match="fpn"):
        kernel.arrange(["a"], ["y", "pre"], [str(i) for i in range(10)])
    with pytest.raises(ValueError, match="scalars"):
        kernel.arrange(["a", "b"], ["y", "pre"], [])


def test_mismatch_names_what_is_wrong() -> None:
    kernel = FIRMWARE["mmalib_matmul_bias_i8"]
    tensors = ["int8", "int8", "int32", "uint8", "uint8"]
    assert kernel.mismatch(tensors, ["int8"], ["int32"] * 3) is None
    assert kernel.mismatch(["int8", "int8", None, None, None], ["int8"], ["int32"] * 3) is None
    assert (
        kernel.mismatch([*tensors[:2], "int64", *tensors[3:]], ["int8"], ["int32"] * 3)
        == "bias of mmalib_matmul_bias_i8 is int32, not int64"
    )
    assert "may not be NULL" in str(kernel.mismatch([None, *tensors[1:]], ["int8"], ["int32"] * 3))
    assert "5 inputs, not 4" in str(kernel.mismatch(tensors[:4], ["int8"], ["int32"] * 3))
    assert "1 outputs, not 2" in str(kernel.mismatch(tensors, ["int8", "int8"], ["int32"] * 3))
    assert "3 scalars, not 2" in str(kernel.mismatch(tensors, ["int8"], ["int32"] * 2))
    assert "N of" in str(kernel.mismatch(tensors, ["int8"], ["int32", "int32", "float32"]))
    loop = FIRMWARE["mmalib_conv2d_i8_grouped_loop"]
    assert "bias of" in str(loop.mismatch(["int8", "int8", None, "uint8", "uint8"], ["int8"], ["int32"] * 13))
