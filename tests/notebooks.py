"""The example notebooks without Jupyter: their cells are run one after the other, and what they give is compared.

`python -m tests.notebooks` writes what they give into them; with `--compare` it only says whether that differs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))
Output = dict[str, Any]


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs_of(notebook: dict[str, Any]) -> list[list[Output]]:
    """What each cell of code gives, in the form in which notebooks keep it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_run("".join(cell["source"]), names) for cell in code_cells(notebook)]


def _run(source: str, names: dict[str, Any]) -> list[Output]:
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    outputs: list[Output] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        html = getattr(value, "_repr_html_", None)
        if html is not None:
            shown = {"text/html": _lines(html()), **shown}
        outputs.append({"data": shown, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def rewrite(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    for cell, outputs in zip(code_cells(notebook), outputs_of(notebook), strict=True):
        cell["outputs"], cell["execution_count"] = outputs, None
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def differs(path: Path) -> bool:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return outputs_of(notebook) != [cell["outputs"] for cell in code_cells(notebook)]


if __name__ == "__main__":
    if sys.argv[1:] == ["--compare"]:
        sys.exit(", ".join(f"{path.name} gives something else" for path in NOTEBOOKS if differs(path)) or None)
    for path in NOTEBOOKS:
        rewrite(path)
