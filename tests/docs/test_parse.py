"""The extractor of the documentation's code finds blocks and what is said about them."""

from __future__ import annotations

import pytest

from tests.docs.blocks import commands, parse


def test_fenced_and_indented_blocks() -> None:
    page = "# T\n\ntext\n\n    c7x run build\n\n    c7x stop\n\nmore\n\n```python\nimport c7x\n```\n"
    first, second = parse(page)
    assert (first.language, first.line, first.text) == ("bash", 5, "c7x run build\n\nc7x stop\n")
    assert (second.language, second.line, second.text) == ("python", 11, "import c7x\n")


def test_indented_lines_of_lists_notes_and_paragraphs_are_no_blocks() -> None:
    for page in (
        "* item\n\n    more of it\n",
        "1. item\n\n    more\n",
        "text\n    goes on\n",
        "!!! note\n\n    text\n",
    ):
        assert parse(page) == []


def test_a_block_after_a_list_and_text_is_one() -> None:
    assert len(parse("* item\n\ntext\n\n    c7x run\n")) == 1


def test_directives() -> None:
    (block,) = parse("<!-- heavy; needs: facenet-pytorch -->\n\n    python run.py\n")
    assert block.notes == {"heavy": "", "needs": "facenet-pytorch"}
    (block,) = parse("<!-- given: import a; b = 1 -->\n```python\nb\n```\n")
    assert block.notes == {"given": "import a; b = 1"}
    (block,) = parse("<!-- an ordinary comment -->\n\n    c7x run\n")
    assert block.notes == {}
    (block,) = parse("<!-- text -->\n\n    c_static -mcpu=c7x\n")
    assert block.language == "text"


def test_a_directive_is_for_one_block() -> None:
    first, second = parse("<!-- not run: board -->\n\n    c7x deploy\n\nand\n\n    c7x run\n")
    assert (first.notes, second.notes) == ({"not run": "board"}, {})


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("<!-- not run: too slow -->\n\n    c7x run\n", "'too slow' is none of"),
        ("<!-- not run -->\n\n    c7x run\n", "'' is none of"),
        ("<!-- not run: board -->\ntext\n", "stands before no block"),
        ("```\nc7x run\n```\n", "the language ''"),
        ("```rust\nfn\n```\n", "the language 'rust'"),
        ("```bash\nc7x run\n", "not closed"),
    ],
)
def test_mistakes(page: str, words: str) -> None:
    with pytest.raises(ValueError, match=r"page\.md:") as caught:
        parse(page)
    assert words in str(caught.value)


def test_files() -> None:
    (block,) = parse("```python\n# model.py\nimport torch\n```\n")
    assert block.file == "model.py"
    (block,) = parse("```cpp\n// main.cpp\n#include <x>\n```\n")
    assert block.file == "main.cpp"
    (block,) = parse("```bash\n# run.sh\nls\n```\n")
    assert block.file is None
    (block,) = parse("```cpp\n// a remark\nint x;\n```\n")
    assert block.file is None


def test_prompts() -> None:
    (block,) = parse("```console\n$ c7x version\nc7x 0.1.0\n$ ls\n```\n")
    assert commands(block) == "c7x version\nls\n"
