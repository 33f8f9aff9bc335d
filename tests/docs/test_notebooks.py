"""The example notebooks run, and give what stands in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.notebooks import NOTEBOOKS, code_cells, outputs_of


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_gives_what_stands_in_it(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    kept = [cell["outputs"] for cell in code_cells(notebook)]
    assert outputs_of(notebook) == kept
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["name"]) == (4, "python3")


def test_there_are_notebooks() -> None:
    assert [path.name for path in NOTEBOOKS] == ["first_query.ipynb", "push.ipynb"]
