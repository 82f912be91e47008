"""The page of ``c7x visualize``: groups of layers, C cut out of lib0.c, and a page that needs nothing from outside."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from c7x.errors import FormatError, WorkspaceError
from c7x.report.blocks import Block, Item, group_layers
from c7x.report.c_source import call_texts, kernel_texts
from c7x.report.layers import Layer
from c7x.report.visualize import page, page_data, visualize_stage
from c7x.workspace import Workspace


def layer(index: int, *modules: str, op: str = "add", source: str = "model.py:1", kernel: str = "k") -> Layer:
    return Layer(
        index=index,
        kernel=kernel,
        name=f"n{index}",
        backend="c7x",
        relax_ops=(op,),
        nodes=(),
        source=(source,),
        modules=modules,
        macs=0,
        bytes_in=0,
        bytes_out=0,
        dtype="float32",
        inputs=(),
        outputs=(),
    )


def numbered(rows: list[tuple[str, str]]) -> list[Layer]:
    """Layers of (operator, module); an empty module is none."""
    return [layer(i, *([module] if module else []), op=op) for i, (op, module) in enumerate(rows)]


def shape(items: Any) -> list[Any]:
    """Titles and sizes: ``["title*repeat", ...]``."""
    return [item if isinstance(item, int) else [f"{item.title}*{item.repeat}", *shape(item.items)] for item in items]


def leaves(items: Any) -> list[int]:
    return [leaf for item in items for leaf in ([item] if isinstance(item, int) else leaves(item.items))]


# ------------------------------------------------------------------------------------------------------------- groups


def test_alike_blocks_come_together() -> None:
    block = [("conv2d", "conv1"), ("conv2d", "conv2"), ("add", "")]
    rows = [
        ("conv2d", "stem"),
        *[(op, f"blocks.{i}{'.' * bool(m)}{m}") for i in range(3) for op, m in block],
        ("matmul", "fc"),
    ]
    assert shape(group_layers(numbered(rows))) == [
        0,
        [
            "blocks.0 to blocks.2*3",
            ["blocks.0*0", 1, 2, 3],
            ["blocks.1*0", 4, 5, 6],
            ["blocks.2*0", 7, 8, 9],
        ],
        10,
    ]


def test_blocks_that_differ_stay_apart() -> None:
    rows = [("conv2d", "b.0.a"), ("add", "b.0.b"), ("conv2d", "b.1.a"), ("conv2d", "b.1.b"), ("add", "b.1.c")]
    assert shape(group_layers(numbered(rows))) == [["b*0", ["b.0*0", 0, 1], ["b.1*0", 2, 3, 4]]]


def test_a_layer_without_a_module_belongs_to_its_neighbours() -> None:
    rows = [("conv2d", "b.0.a"), ("relu", ""), ("conv2d", "b.0.c"), ("mean", "fc")]
    assert shape(group_layers(numbered(rows))) == [["b.0*0", 0, 1, 2], 3]


def test_a_function_without_modules_shows_what_it_repeats() -> None:
    layers = [layer(i, op=op, source=f"model.py:{i % 3}") for i, op in enumerate(["conv2d", "relu", "pool"] * 4)]
    (found,) = group_layers(layers)
    assert isinstance(found, Block)
    assert (found.repeat, len(found.items)) == (4, 4)
    assert shape(found.items)[0] == ["n0 to n2*0", 0, 1, 2]


def test_every_layer_is_in_the_tree_once_and_in_order() -> None:
    names = ["", "a", "a.b", "a.b.c", "b", "b.0", "a.b"]
    layers = numbered([(("add", "mul")[i % 3 == 0], names[i * i % 7]) for i in range(200)])
    items: list[Item] = group_layers(layers)
    assert leaves(items) == list(range(200))
    assert group_layers([]) == []


# ------------------------------------------------------------------------------------------------------------- C text

LIB0 = """\
#define C7X_X 1
static C7X_INLINE void k_conv_pad(const float* in, float* out) {
  out[0] = in[0];
}

static int32_t k_conv(const float* in0, float* out0) {
  if (in0) {
    k_conv_pad(in0, out0);
  }
  return 0;
}

static void k_conv_2_pad(float* x) {
  x[1] = 0;
}

static int32_t k_conv_2(const float* in0, float* out0) {
  return 0;
}

static const float cg_constant_0[2] = {1.0f, 2.0f};

int32_t cg_main(const void *const *inputs, void *const *outputs, const void *weights, void *arena) {
  /* 0: a: conv2d */
  status = k_conv(a, b);
  if (status != 0) return status;
  /* 1: b: conv2d */
  status = k_conv_2(b, c);
  if (status != 0) return status;
  return status;
}
"""


def test_kernels_with_their_helpers() -> None:
    found = kernel_texts(LIB0, {"k_conv", "k_conv_2", "mmalib_conv"})
    assert list(found) == ["k_conv", "k_conv_2"]
    assert found["k_conv"].count("{") == 3
    assert "k_conv_pad(const float* in" in found["k_conv"]
    assert "k_conv_2" not in found["k_conv"]
    assert found["k_conv_2"].startswith("static void k_conv_2_pad")
    assert found["k_conv_2"].endswith("  return 0;\n}")


def test_calls() -> None:
    first, second, missing = call_texts(LIB0, 3)
    assert first == "  /* 0: a: conv2d */\n  status = k_conv(a, b);\n  if (status != 0) return status;"
    assert second.endswith("k_conv_2(b, c);\n  if (status != 0) return status;")
    assert missing == ""
    assert call_texts("", 1) == [""]


# ------------------------------------------------------------------------------------------------------------ the page


def tensor(buffer: str, place: str = "arena", offset: int | None = 0) -> dict[str, Any]:
    return {"buffer": buffer, "dtype": "float32", "shape": [4], "bytes": 16, "place": place, "offset": offset}


def write_build(folder: Path, count: int = 3) -> Workspace:
    """A chain of ``count`` layers, the last of which reads the first's value as well."""
    ws = Workspace(folder / "build")
    layers = [layer(i, f"blocks.{i // 2}.conv", kernel="k_conv").to_json() for i in range(count)]
    calls = [
        {
            "inputs": [tensor(f"b{i - 1}") if i else tensor("x", "input"), *([tensor("b0")] if i == count - 1 else [])],
            "outputs": [tensor(f"b{i}")],
        }
        for i in range(count)
    ]
    buffers = [{"name": f"b{i}", "bytes": 128, "offset": 0, "first": i, "last": i} for i in range(count)]
    with ws.stage("codegen") as run:
        run.write_text("lib0.c", LIB0)
        run.write_json("layers.json", layers)
        run.write_json("memory.json", {"arena_bytes": 128, "buffers": buffers, "calls": calls})
        offload = [{**record, "offloaded": True, "reason": None} for record in layers]
        totals = {"macs": 0, "macs_offloaded": 0, "float_ops_between_boundaries": 0}
        run.write_json("offload.json", {"layers": offload, "totals": totals})
        run.write_json("io.json", {"inputs": [], "outputs": [], "arena_bytes": 128, "weights_bytes": 0})
        run.facts.update(model="</script><b>", target="c_static -mcpu=c7x", mode="c7x_host")
    return ws


def embedded(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


def test_the_page_holds_everything_and_asks_for_nothing(tmp_path: Path) -> None:
    text = page(page_data(write_build(tmp_path)))
    assert embedded(text)["edges"] == [[0, 1], [0, 2], [1, 2]]
    assert embedded(text)["kernels"]["k_conv"].startswith("static C7X_INLINE")
    assert "@STYLE@" not in text
    assert "default-src 'none'" in text
    outside = [url for url in re.findall(r"https?://[^\s\"'<]+", text) if url != "http://www.w3.org/2000/svg"]
    assert outside == []
    assert not re.search(r"<(?:link|img|script|iframe)[^>]+(?:href|src)=\"(?!data:)", text)


def test_names_from_a_model_are_text_and_never_markup(tmp_path: Path) -> None:
    text = page(page_data(write_build(tmp_path)))
    assert embedded(text)["model"] == "</script><b>"
    assert "<title>&lt;/script&gt;&lt;b&gt;: layers</title>" in text
    assert text.count("</script>") == 2


def test_the_same_build_gives_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for name in ("one", "two"):
        ws = write_build(tmp_path / name)
        visualize_stage(ws)
        texts.append(ws.path("report.html").read_bytes())
    assert texts[0] == texts[1]
    assert str(tmp_path).encode() not in texts[0]


def test_where_the_page_goes(tmp_path: Path) -> None:
    ws = write_build(tmp_path)
    result = visualize_stage(ws, output=tmp_path / "page.html")
    assert result["output"] == str(tmp_path / "page.html")
    assert not ws.has("report.html")
    assert visualize_stage(ws, output=ws.path("report.html"))["layers"] == 3
    assert ws.manifest["stages"][-1]["name"] == "visualize"
    with pytest.raises(WorkspaceError, match="cannot write"):
        visualize_stage(ws, output=tmp_path / "none" / "page.html")


def test_reports_of_other_builds_are_refused(tmp_path: Path) -> None:
    ws = write_build(tmp_path)
    ws.path("profile.json").write_text(json.dumps({"layers": [{"index": 0, "kernel": "other"}]}))
    with pytest.raises(FormatError, match="not about this build's layers") as caught:
        visualize_stage(ws)
    assert "c7x profile" in str(caught.value.hint)
    ws.path("profile.json").write_text(json.dumps({"layers": [{"index": 0, "kernel": "k_conv"}]}))
    with pytest.raises(WorkspaceError, match="do not belong together"):
        visualize_stage(ws)


def test_without_a_build(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="there is no build directory"):
        visualize_stage(Workspace(tmp_path / "none"))


def test_the_picture_in_the_documentation_is_small() -> None:
    picture = Path(__file__).parents[2] / "docs/images/report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200_000
