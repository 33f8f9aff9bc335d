"""How modules know each other."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def test_imports_make_no_circle() -> None:
    """Those inside functions and for typing count as well: a circle is one thing, whenever it is loaded."""
    graph = grimp.build_graph("watersmeet", cache_dir=None)
    imported = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
