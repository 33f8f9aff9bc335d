"""How modules know each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path

import grimp
import pytest

from watersmeet.io.connectors.registry import OURS, connector_named
from watersmeet.io.providers import PROVIDERS
from watersmeet.plan import published


def test_imports_make_no_circle() -> None:
    """Those inside functions and for typing count as well: a circle is one thing, whenever it is loaded."""
    graph = grimp.build_graph("watersmeet", cache_dir=None)
    imported = {one: graph.find_modules_directly_imported_by(one) for one in graph.modules}
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def told_by_name() -> Iterator[str]:
    """What is loaded when it is asked for: written as `module:name`, so that no tool sees it go."""
    yield from OURS.values()
    yield from PROVIDERS.values()
    for connector in map(connector_named, OURS):
        yield from (one for one in (connector.source, connector.sink, connector.table) if isinstance(one, str))
    yield from (one for one in vars(published).values() if isinstance(one, str) and one.startswith("watersmeet.papers"))
    yield from (one.made_by for one in published.ALGORITHMS.values() if one.made_by is not None)
    yield from (one.found_by for one in published.ORDER_RULES.values())


@pytest.mark.parametrize("where", sorted(set(told_by_name())))
def test_what_is_loaded_by_name_is_there(where: str) -> None:
    """Read, not loaded: libraries that it needs may not be installed."""
    module, _, name = where.partition(":")
    if not name:  # the beginning of others
        return
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    assigned = [one for node in tree.body if isinstance(node, ast.Assign) for one in node.targets]
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert name in made | {one.id for one in assigned if isinstance(one, ast.Name)}
