"""A plan as text: what is joined, under which bounds, what is kept how long, and who walks where.

Written to be read in 80 columns, and kept as golden files.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from watersmeet.model.catalog import Stream
from watersmeet.model.time import FOREVER_US, format_interval
from watersmeet.model.windows import ClosedWindows, Range, Rows, Unbounded, Window
from watersmeet.plan.expressions import to_text
from watersmeet.plan.nodes import (
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Plan,
    Project,
    SetOperation,
    TopK,
)
from watersmeet.plan.strategy import Comparison, JoinStrategy, Route, Step

WIDTH = 80
SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "<>"}


def explain(plan: Plan, strategy: JoinStrategy | None = None) -> str:
    """The plan as an indented tree; with a strategy, also how its join runs."""
    lines = list(_node(plan.root, strategy))
    changed = plan.options.changed()
    if changed:
        lines.append("options: " + ", ".join(f"{name} = {value}" for name, value in changed.items()))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _node(node: Node, strategy: JoinStrategy | None) -> Iterable[str]:
    match node:
        case Project(child=child, columns=columns):
            yield from _entry("select", [_output(name, to_text(e)) for name, e in columns])
            yield from _indented(_node(child, strategy))
        case Join():
            yield from _join(node, strategy)
        case GroupBy(child=child, keys=keys, having=having):
            yield from _entry("group by", [to_text(key) for key in keys] or ["(all rows)"])
            if having is not None:
                yield from _entry("having", [to_text(having)])
            yield from _indented(_node(child, strategy))
        case Distinct(child=child):
            yield "distinct"
            yield from _indented(_node(child, strategy))
        case TopK(child=child, keys=keys, limit=limit):
            order = [to_text(e) + (" desc" if down else "") for e, down in keys]
            yield from _entry(f"first {limit} by", order)
            yield from _indented(_node(child, strategy))
        case Changes(kind=kind, child=child, every_us=every):
            yield kind + ("" if every is None else f" every {format_interval(every)}")
            yield from _indented(_node(child, strategy))
        case SetOperation(kind=kind, all=keep, left=left, right=right):
            yield kind + (" all" if keep else "")
            yield from _indented(_node(left, strategy))
            yield from _indented(_node(right, strategy))


def _output(name: str, text: str) -> str:
    return text if text == name or text.endswith(f".{name}") else f"{text} as {name}"


def _join(join: Join, strategy: JoinStrategy | None) -> Iterable[str]:
    if len(join.inputs) == 1:
        yield f"filter of {_source(join.inputs[0])}"
        for predicate in join.predicates:
            yield from _indented(_entry("where", [to_text(predicate)]))
    else:
        yield f"join of {len(join.inputs)} inputs, no intermediate results"
        yield from _indented(_bounds(join.windows))
        if strategy is not None:
            yield from _indented(_strategy(strategy))
    for one in join.inputs:
        if isinstance(one.relation, Derived):
            yield f"  {one.alias} is"
            yield from _indented(_indented(_node(one.relation.plan, None)))


def _bounds(windows: ClosedWindows) -> Iterable[str]:
    several = len(windows.alternatives) > 1
    for k, matrix in enumerate(windows.alternatives):
        yield ("bounds after closure" if not several else f"bounds after closure, alternative {k + 1}") + ":"
        written = [
            _bound(windows.streams[u], windows.streams[v], matrix[u][v], matrix[v][u])
            for u in range(len(windows.streams))
            for v in range(u + 1, len(windows.streams))
        ]
        yield from _indented(line for line in written if line) if any(written) else ["  none"]


def _bound(u: str, v: str, later_us: int, earlier_us: int) -> str:
    """What is known of `v - u`, from both sides."""
    if later_us >= FOREVER_US and earlier_us >= FOREVER_US:
        return ""
    low = "" if earlier_us >= FOREVER_US else f"{format_interval(-earlier_us)} <= "
    high = "" if later_us >= FOREVER_US else f" <= {format_interval(later_us)}"
    return f"{low}{v} - {u}{high}"


def _strategy(strategy: JoinStrategy) -> Iterable[str]:
    yield "stores:"
    rows: list[tuple[str, ...]] = [("input", "from", "window", "kept for", "rows kept", "index")]
    rows += [_store(strategy, one) for one in strategy.join.inputs]
    yield from _indented(_aligned(rows))
    for one in strategy.join.inputs:
        predicates = strategy.filters.get(one.alias, ())
        if predicates:
            yield from _entry(f"filter {one.alias} before storing", [to_text(p) for p in predicates])
    yield "a new row of"
    for route in strategy.routes:
        yield from _indented(_route(route))
    if strategy.verified:
        yield from _entry("then, on real values", [to_text(test) for test in strategy.verified])
    if strategy.residuals:
        yield from _entry("then, on whole combinations", [to_text(test) for test in strategy.residuals])


def _store(strategy: JoinStrategy, one: Input) -> tuple[str, ...]:
    kept_for = "always" if one.is_table else format_interval(strategy.join.retention_us(one.alias))
    if isinstance(one.window, Rows):
        kept_for = "its rows"
    visited = any(step.stream == one.alias for route in strategy.routes for step in route.steps)
    if not visited:
        kept_for = "not kept"
    rows = strategy.rows_kept.get(one.alias) if visited else 0
    indexes = [f"hash({_names(key)})" for key in strategy.hash_keys(one.alias)]
    indexes += [f"sorted({_names([key])})" for key in strategy.sorted_keys(one.alias)]
    return (one.alias, _source(one), window_text(one.window), kept_for, _count(rows), ", ".join(indexes) or "none")


def _names(codes: Iterable[object]) -> str:
    return ", ".join(str(code).split(".", 1)[-1] if "(" not in str(code) else str(code) for code in codes)


def _count(rows: float | None) -> str:
    return "unknown" if rows is None else f"~{rows:,.0f}"


def _source(one: Input) -> str:
    kind = "table" if one.is_table else "stream" if isinstance(one.relation, Stream) else "query"
    return f"{kind} {one.relation.name}"


def window_text(window: Window | None) -> str:
    match window:
        case None:
            return "-"
        case Range(size_us=0):
            return "NOW"
        case Range(size_us=size):
            return f"RANGE {format_interval(size)}"
        case Rows(count=count, partition_by=()):
            return f"ROWS {count}"
        case Rows(count=count, partition_by=keys):
            return f"PARTITION BY {', '.join(keys)} ROWS {count}"
        case Unbounded():
            return "UNBOUNDED"


def _route(route: Route) -> Iterable[str]:
    yield f"{route.origin}"
    for step in route.steps:
        yield from _entry(f"  -> {step.stream} by {step.access}", _tests(step))


def _tests(step: Step) -> list[str]:
    tests = [f"{own} = {bound}" for bound, own in step.equalities]
    return tests + [_comparison(c) for c in step.comparisons] or ["time only"]


def _comparison(c: Comparison) -> str:
    return f"{c.own} {SYMBOLS[c.operator]} {c.bound}"


def _entry(title: str, items: Sequence[str]) -> list[str]:
    """A title and a list, folded under itself when it is long."""
    return wrap(f"{title}: {', '.join(items)}", WIDTH, subsequent_indent="    ", drop_whitespace=True,
                initial_indent="", break_long_words=False, break_on_hyphens=False) or [f"{title}:"]  # fmt: skip


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
