"""Prints the commands of c7x, one a line, for the images' entry point. Reads the source: nothing need be installed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path


def command_names(folder: Path) -> list[str]:
    """The names that ``@app.command`` and ``app.add_typer`` give in the modules of ``c7x/cli``, sorted."""
    names = set()
    for node in (node for path in folder.glob("*.py") for node in ast.walk(ast.parse(path.read_text("utf-8")))):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "app.command":
                    given = [ast.literal_eval(word) for word in decorator.args]
                    names.add(given[0] if given else node.name.rstrip("_").replace("_", "-"))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "app.add_typer":
            names.update(ast.literal_eval(word.value) for word in node.keywords if word.arg == "name")
    return sorted(names)


if __name__ == "__main__":
    print("\n".join(command_names(Path(sys.argv[1]))))
