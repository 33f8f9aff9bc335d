"""Ways to ask for a join: named ones for grids, random ones for random queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hypothesis import strategies as st

from tests.properties.strategies import Case
from tests.runners import bound_plan
from watersmeet.plan.nodes import Join, Project

INVALIDATIONS = ("probe", "probe_insert", "probe_all", "all")
# For three streams a, b, c that are joined on a common key.
NAMED = {
    "nested loops": "join = 'nested_loop'",
    "nested loops, probe": "join = 'nested_loop', invalidate = 'probe'",
    "nested loops, passes": "join = 'nested_loop', expire = '3 seconds'",
    "hash": "join = 'hash', buckets = 3",
    "hash, one bucket": "join = 'hash', buckets = 1, invalidate = 'probe'",
    "hash, probe all": "join = 'hash', buckets = 5, invalidate = 'probe_all'",
    "hash, per stream": "join = 'hash', buckets = 'a:2, b:7', invalidate = 'a:probe, b:all'",
    "hash, passes": "join = 'hash', buckets = 4, expire = '2 seconds'",
    "hash in order": "join = 'hash', order = 'c, a, b'",
    "hybrid": "join = 'hybrid', invalidate = 'all'",
    "lazy loops": "join = 'nested_loop', refresh = '2 seconds'",
    "lazy hash": "join = 'hash', buckets = 3, refresh = '1 second', expire = '4 seconds'",
    "general lazy loops": "join = 'nested_loop', refresh = '3 seconds', order = 'a: b,a,c; b: c,a,b; c: a,c,b'",
    "general lazy hash": "join = 'hash', buckets = 2, refresh = '3 seconds', order = 'a: b,c,a; b: c,b,a; c: c,a,b'",
    "naive": "join = 'naive'",
    "naive, corrected lazy": "join = 'naive', refresh = '5 seconds'",
    "own join in order": "order = 'b, c, a'",
}
# Those of H02. The first answers every join; what the others refuse, and in which words, is in REFUSALS.
H02 = {
    "N-way": "join = 'w_join'",
    "pipeline": "join = 'nlw'",
    "pipeline in order": "join = 'nlw', order = 'c, a, b'",
    "hash pipeline": "join = 'hw', buckets = 3",
    "merge": "join = 'merge'",
    "merge, greatest window": "join = 'merge', windows = 'gca'",
    "merge, local windows": "join = 'merge', windows = 'lca'",
    "ripple": "join = 'ripple'",
    "xjoin": "join = 'xjoin', buckets = 5",
}


def streams_and_tables(case: Case) -> tuple[list[str], list[str]]:
    """The aliases of a query's inputs, streams and static tables, in FROM order."""
    root = bound_plan(case.sql, case.sources).root
    assert isinstance(root, Project)
    assert isinstance(root.child, Join)
    inputs = root.child.inputs
    return [i.alias for i in inputs if not i.is_table], [i.alias for i in inputs if i.is_table]


def with_options(case: Case, more: str) -> Case:
    """The same query with more options."""
    before = case.options.strip().removeprefix("OPTIONS (").removesuffix(")")
    return replace(case, options=f"\nOPTIONS ({', '.join(filter(None, [before, more]))})")


@st.composite
def methods(draw: st.DrawFn, streams: Sequence[str], tables: Sequence[str]) -> str:
    """Options that ask for any algorithm in any of its variants."""
    if draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([said for said in H02.values() if "order" not in said]))
    algorithm = draw(st.sampled_from(["nested_loop", "hash", "hybrid", "hybrid", "naive", "auto"]))
    said = [f"join = '{algorithm}'"]
    inputs = [*streams, *tables]
    if algorithm in ("hash", "hybrid") and draw(st.booleans()):
        said.append(f"buckets = '{draw(_settings(inputs, ['1', '2', '3', '7']))}'")
    lazy = draw(st.booleans())
    if lazy:
        every = draw(st.sampled_from([1, 2, 5]))
        said.append(f"refresh = '{every} seconds'")
        if draw(st.booleans()):
            said.append(f"expire = '{every + draw(st.integers(0, 3))} seconds'")
    elif draw(st.booleans()):
        said.append(f"expire = '{draw(st.integers(1, 5))} seconds'")
    elif draw(st.booleans()):
        said.append(f"invalidate = '{draw(_settings(streams, INVALIDATIONS))}'")
    if draw(st.booleans()):
        said.append(f"order = '{draw(_orders(streams, tables, lazy))}'")
    return ", ".join(said)


@st.composite
def _settings(draw: st.DrawFn, aliases: Sequence[str], values: Sequence[str]) -> str:
    if draw(st.booleans()):
        return draw(st.sampled_from(values))
    return ", ".join(f"{alias}: {draw(st.sampled_from(values))}" for alias in aliases)


@st.composite
def _orders(draw: st.DrawFn, streams: Sequence[str], tables: Sequence[str], lazy: bool) -> str:
    """One order for all, or one for each stream, in which only a lazy join may have its new rows further in."""
    named = [*streams, *tables] if draw(st.booleans()) else streams
    if draw(st.booleans()):
        return ", ".join(draw(st.permutations(named)))
    orders = []
    for stream in streams:
        others = draw(st.permutations([alias for alias in named if alias != stream]))
        at = draw(st.integers(0, len(others))) if lazy else 0
        orders.append(f"{stream}: {', '.join([*others[:at], stream, *others[at:]])}")
    return "; ".join(orders)
