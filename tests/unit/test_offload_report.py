"""The offload report: every call has a place in the user's model, and the figures people read are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from c7x import ui
from c7x.codegen.layers import offload_report
from c7x.codegen.program import Program
from c7x.codegen.walk import program_from_relax
from c7x.errors import FormatError
from c7x.report.offload import (
    count_kinds,
    kinds_of,
    offload_summary,
    operator_text,
    place_text,
    runner_text,
)
from c7x.workspace import Workspace

# --- where a call comes from ------------------------------------------------------------------------------------------

PROVENANCE = (
    '{"first": {"source": "net.py:3", "module": "a"}, "second": {"source": "net.py:4", "module": ""}, '
    '"third": {"source": "net.py:5", "module": "b.0"}}'
)


def _program(*, as_tuple: bool, place: str = PROVENANCE) -> Program:
    from tvm import relax

    from c7x.graph.pipeline import lower_graph

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, 8, 6, 6], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.exp(x), name_hint="first")
            z = builder.emit(relax.op.nn.softmax(y, -1), name_hint="second")
            z = builder.emit(relax.op.add(z, y), name_hint="third")
            result = builder.emit_output(relax.Tuple([z]) if as_tuple else z)
        builder.emit_func_output(result)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("c7x_provenance", place)
    return program_from_relax(lower_graph(mod), "model")


@pytest.mark.parametrize("as_tuple", [True, False])
def test_every_call_keeps_its_origin(as_tuple: bool) -> None:
    """Also the last one, whose result has another name in a function that returns it as it is."""
    places = [call.provenance for call in _program(as_tuple=as_tuple).calls]
    assert [p.source for p in places] == [("net.py:3",), ("net.py:4",), ("net.py:5",)]
    assert [p.modules for p in places] == [("a",), (), ("b.0",)]
    assert [p.relax_ops for p in places] == [("exp",), ("nn.softmax",), ("add",)]


def test_a_step_belongs_to_the_node_it_is_named_after() -> None:
    from tvm import relax

    from c7x.graph.pipeline import lower_graph

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType([1, 8, 6, 6], "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.permute_dims(x, [0, 2, 3, 1]), name_hint="convolution_1__conv_last")
            result = builder.emit_output(relax.Tuple([y]))
        builder.emit_func_output(result)
    mod = builder.get()
    mod["main"] = mod["main"].with_attr("c7x_provenance", '{"convolution_1": {"source": "net.py:8", "module": "c"}}')
    (call,) = program_from_relax(lower_graph(mod), "model").calls
    assert (call.provenance.nodes, call.provenance.source) == (("convolution_1",), ("net.py:8",))


def test_what_stands_nowhere_takes_the_place_of_what_it_serves() -> None:
    places = [c.provenance for c in _program(as_tuple=True, place='{"second": {"source": "net.py:4"}}').calls]
    # The first call prepares what the second reads; the last one has only calls before it.
    assert [p.source for p in places] == [("net.py:4",)] * 3
    assert [p.nodes for p in places] == [(), ("second",), ()]
    assert all(not c.provenance.is_known for c in _program(as_tuple=True, place="{}").calls)


def test_reasons_of_loops_say_what_they_do() -> None:
    report = offload_report(_program(as_tuple=True))
    reasons = {layer["kernel"].removeprefix("__tvm_ffi_"): layer["reason"] for layer in report["layers"]}
    assert reasons["exp"] == "no c7x kernel covers exp; it runs as TVM's fused loops"
    assert reasons["softmax_6"] is None


# --- figures and texts ------------------------------------------------------------------------------------------------


def layer(kernel: str, ops: list[str], **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "index": 0, "kernel": kernel, "name": "x", "relax_ops": ops, "nodes": [], "source": ["net.py:1"], "modules": [],
        "macs": 0, "bytes_in": 1, "bytes_out": 1, "dtype": "int8", "reason": None, "backend": "c7x",
        **fields,
    }  # fmt: skip
    return {**given, "offloaded": given["backend"] != "tvm"}


Q = ["dequantize", "dequantize", "dequantize"]
LAYERS = [
    layer("c7x_int8_quantize", ["quantize"]),
    layer("mmalib_conv2d_i8", [*Q, "nn.conv2d", "add", "nn.relu", "quantize"], backend="mmalib", macs=600),
    layer("__tvm_ffi_qconv2d_3x3", [*Q, "nn.conv2d", "add", "quantize"], macs=300, reason="not on MMALIB: dilation 2"),
    layer("c7x_int8_residual_add_relu", ["dequantize", "dequantize", "add", "nn.relu", "quantize"]),
    layer("__tvm_ffi_fused_add", ["add", "add"], backend="tvm", dtype="float32", reason="no int8 kernel for add"),
    layer("__tvm_ffi_qmax_pool_2x2", ["nn.max_pool2d"]),
    layer("__tvm_ffi_permute_dims", ["reshape", "permute_dims"], backend="tvm"),
    layer("__tvm_ffi_qconv2d_1x1", ["matmul", "add", "quantize"], nodes=["linear_1"], macs=60),
    layer("__tvm_ffi_batch_matmul", ["matmul"], nodes=["bmm"], macs=40, dtype="float32"),
]


def test_operators_in_words() -> None:
    assert [operator_text(item) for item in LAYERS] == [
        "quantize", "conv2d + add + relu", "conv2d + add", "add + relu", "add", "max_pool2d", "layout", "matmul + add",
        "matmul",
    ]  # fmt: skip
    assert operator_text(layer("c7x_int8_relu", ["call_dps_packed"])) == "relu"
    assert operator_text(layer("k", ["reshape", "dequantize"])) == "dequantize"
    assert operator_text(layer("k", ["reshape", "concat"])) == "reshape + concat"


def test_who_runs_it_and_where_it_stands() -> None:
    assert [runner_text(item) for item in LAYERS[:5]] == ["firmware", "MMALIB", "kernel", "firmware", "loop"]
    assert place_text(layer("k", [], source=["a.py:1", "a.py:2"])) == "a.py:1, a.py:2"
    assert place_text(layer("k", [], source=[], modules=["0"])) == "module 0"
    assert place_text(layer("k", [], source=[])) == "-"


def test_kinds_are_counted_with_a_bias_as_part_of_its_operator() -> None:
    assert kinds_of(LAYERS[1]) == {"convolution": 1}
    assert kinds_of(LAYERS[4]) == {"add": 2}
    assert kinds_of(LAYERS[6]) == {}
    # A hard swish, written out.
    assert kinds_of(layer("k", ["dequantize", "add", "maximum", "minimum", "multiply", "divide", "quantize"])) == {}
    assert count_kinds(LAYERS) == [
        {"kind": "convolution", "total": 2, "offloaded": 2, "integer": 2, "mmalib": 1},
        {"kind": "linear", "total": 1, "offloaded": 1, "integer": 1, "mmalib": 0},
        {"kind": "matmul", "total": 1, "offloaded": 1, "integer": 0, "mmalib": 0},
        {"kind": "add", "total": 3, "offloaded": 1, "integer": 1, "mmalib": 0},
        {"kind": "pool", "total": 1, "offloaded": 1, "integer": 1, "mmalib": 0},
    ]
    assert count_kinds([]) == []


def _workspace(tmp_path: Path, report: object) -> Workspace:
    ws = Workspace(tmp_path / "build")
    with ws.stage("codegen", inputs=[]) as run:
        run.write_json("offload.json", report)
    return ws


def test_summary_and_tables(tmp_path: Path) -> None:
    totals = {"macs": 1000, "macs_offloaded": 1000, "float_ops_between_boundaries": 1}
    summary = offload_summary(_workspace(tmp_path, {"layers": LAYERS, "totals": totals}))
    assert summary is not None
    assert summary["totals"] == {**totals, "macs_integer": 960, "macs_mmalib": 600}
    console = ui.make_console(stderr=False, no_color=True)
    with console.capture() as shown:
        for part in ui.offload_tables(summary):
            console.print(part)
    text = shown.get()
    # A reason is written once, below, and its number stands in the row.
    assert text.count("not on MMALIB: dilation 2") == 1
    assert [line.split()[-1] for line in text.splitlines() if "qconv2d_3x3" in line] == ["[1]"]
    assert "1,000 multiply-accumulates: kernels 100.0%, integer kernels 96.0%, MMALIB 60.0%" in text
    assert "compute real numbers between quantized ones: 1" in text


def test_a_float_model_has_no_boundary_to_speak_of(tmp_path: Path) -> None:
    totals = {"macs": 0, "macs_offloaded": 0, "float_ops_between_boundaries": 0}
    summary = offload_summary(_workspace(tmp_path, {"layers": [], "totals": totals}))
    assert summary is not None
    parts = [str(part) for part in ui.offload_tables(summary)]
    assert parts[-1] == "0 multiply-accumulates"


def test_before_codegen_there_is_no_report_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    assert offload_summary(Workspace(tmp_path / "nothing")) is None
    with pytest.raises(FormatError, match="not an offload report"):
        offload_summary(_workspace(tmp_path, {"layers": [{"macs": 1}], "totals": {}}))
    with pytest.raises(FormatError, match="not an offload report"):
        offload_summary(_workspace(tmp_path / "list", []))
