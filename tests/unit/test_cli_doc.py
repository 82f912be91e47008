"""docs/cli.md names every command and option, and no others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from c7x.cli import app

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "cli.md").read_text(encoding="utf-8")
ROOT: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = ROOT.commands


def _options(command: Any) -> set[str]:
    """The options of a command, with those of its own commands."""
    nested = set().union(*map(_options, getattr(command, "commands", {}).values()))
    own = {name for p in command.params if p.param_type_name == "option" for name in (*p.opts, *p.secondary_opts)}
    return own | nested


EVERY = set().union(*map(_options, COMMANDS.values())) | _options(ROOT) | {"--help", "-h"}


def test_commands() -> None:
    assert re.findall(r"^\| `c7x (\w+)", PAGE, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_option_is_documented(name: str) -> None:
    assert re.search(rf"`(?:[^`]*[ ,])?{name}[ `]", PAGE)


def test_no_option_is_invented() -> None:
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", PAGE)) <= EVERY


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_an_example(name: str) -> None:
    assert f"c7x {name}" in COMMANDS[name].epilog


@pytest.mark.parametrize("page", [*sorted(p.name for p in DOCS.glob("*.md")), "../README.md"])
def test_commands_in_examples_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in re.findall(r"^ {4}c7x (\w+)", text, re.MULTILINE):
        assert name in COMMANDS
    for name, option in re.findall(r"`c7x ([a-z]+)[^`]*?(--[a-z0-9-]+)", text):
        assert option in _options(COMMANDS[name]) | {"--help"}
    # vm["main"](x) in code is no link.
    prose = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", prose):
        assert (DOCS / page).parent.joinpath(link).exists(), link
