"""A plan as text: what is joined, under which bounds, what is kept how long, and who walks where.

Written to be read in 80 columns, and kept as golden files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, groupby
from textwrap import wrap
from typing import assert_never

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.explain.costs import assumptions, cost_tables, memory_lines, unique_keys
from watersmeet.explain.joins import ExplainedJoin
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.time import FOREVER_US, format_interval
from watersmeet.model.windows import ClosedWindows, Matrix, RowsWindow, SteppedRows
from watersmeet.model.wording import listed, short
from watersmeet.optimizer.choose_threshold import choose_threshold
from watersmeet.physical.estimate import MemoryEstimate
from watersmeet.physical.nodes import ContinuousNode, FromManyNode, NegativeJoinNode, PartitionedNode, PhysicalNode
from watersmeet.physical.over import top_rows
from watersmeet.physical.pipeline import WORDS
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.physical.strategy import Code, Comparison, JoinStrategy, Route, Step
from watersmeet.plan.constants import Constants
from watersmeet.plan.expressions import Call, Column, Expression, replaced, to_text
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import (
    AsOf,
    Changes,
    Derived,
    Distinct,
    GroupBy,
    Input,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    SortKey,
    TopK,
    View,
)
from watersmeet.plan.options import INVALIDATIONS
from watersmeet.plan.over_functions import keeps_for_us
from watersmeet.plan.panes import hop_by_steps
from watersmeet.plan.published import EXPIRY_CASES, PUBLISHED_PIPELINES, load
from watersmeet.plan.query import Plan
from watersmeet.plan.shapes import streams_together
from watersmeet.plan.spilling import Spilling
from watersmeet.plan.spread import Spread
from watersmeet.plan.walks import children
from watersmeet.plan.window_words import window_text
from watersmeet.runtime.shared_parts import Shared

WIDTH = 80
NO_BOUND = (-FOREVER_US, FOREVER_US)
_KINDS = {Stream: "stream", Table: "table", Constants: "constants", Derived: "query", View: "view"}
_CHANGES = {
    "complete": "given once, when the window is complete",
    "log": "all changes, with their sign as _op and their instant as _ts",
}
CLEANED = {
    "probe": "from the bucket that is probed",
    "probe_insert": "from the bucket that is probed or inserted into",
    "probe_all": "from all buckets of a window that is probed",
    "all": "from all buckets at every arrival",
}
SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "ne": "<>"}


@dataclass(frozen=True)
class Line:
    """A line of the plan at its depth; where it is too long it goes on `hang` columns to the right of its start."""

    text: str
    hang: int = 4
    depth: int = 0
    verbatim: bool = False

    def __str__(self) -> str:
        margin = " " * (2 * self.depth)
        if self.verbatim:
            return margin + self.text
        folded = wrap(
            self.text,
            WIDTH,
            initial_indent=margin,
            subsequent_indent=margin + " " * self.hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return "\n".join(folded)


@dataclass(frozen=True)
class Stores:
    """A table with a row per input; columns that say nothing are left out, and indexes that do not fit stand below."""

    explained: ExplainedJoin
    depth: int = 0

    def __str__(self) -> str:
        return "\n".join(str(replace(line, depth=self.depth)) for line in self._lines())

    def _lines(self) -> list[Line]:
        strategy = self.explained.strategy
        inputs = strategy.join.inputs
        columns = {
            "input": [_named(one) for one in inputs],
            "window": [self._window(one) for one in inputs],
            "lateness": [lateness_of(one) for one in inputs],
            "kept for": [kept_words(self.explained, one) for one in inputs],
            "rows": [_rows(strategy, one) for one in inputs],
        }
        what, describe = ("buffer", _buffers) if strategy.method.is_classic else ("index", index_words)
        indexes = {what: [describe(strategy, one) for one in inputs]}
        whole = _aligned({**columns, **indexes})
        if max(len(line.text) for line in whole) <= WIDTH - 2 * self.depth:
            return whole
        below = [_entry(f"{what} of {one.alias}", [index]) for one, index in zip(inputs, indexes[what], strict=True)]
        return [*_aligned(columns), *below]

    def _window(self, one: Input) -> str:
        if one.alias in self.explained.views:
            return "view"
        return "static table" if one.is_table else window_text(self.explained.window_of(one))


Lines = Iterator[Line | Stores]
Mapped = Callable[[Expression], Expression]
Joins = Mapping[int, ExplainedJoin]  # by the identity of the join in the plan: two may be written alike


def explain(
    plan: Plan,
    joins: Sequence[ExplainedJoin],
    physical: PhysicalPlan,
    memory: tuple[MemoryEstimate, float | None] | None = None,
    shared: Shared | None = None,
) -> str:
    """The plan as an indented tree, with how its joins run and what that costs; with an estimate of the memory and the
    recall that was measured in it, if any, what is lost. shared: what it has in common with other queries."""
    choice = physical.choice
    lines = list(_node(plan.root, {id(one.join): one for one in joins}))
    if isinstance(physical.root, PartitionedNode):
        spread = spread_words(physical.root, plan.options.spread)
        told = [] if spread is None else [Line(spread, depth=1)]
        lines = [Line(partition_words(physical.root)), *told, *_below(lines)]
    lines += _costs([one for one in joins if one.estimate is not None])
    if memory is not None:
        lines += [Line("in bounded memory"), *(Line(text, depth=1) for text in memory_lines(*memory))]
    if plan.spilling is not None:
        lines += [Line("in bounded memory"), Line(_spilling(plan.spilling), depth=1)]
    if plan.order and not any(isinstance(one, TopK) for one in (plan.root, *children(plan.root))):
        lines.append(_entry("given whole it is ordered by", [sort_key(key) for key in plan.order]))
    if plan.kind != "rows":
        lines.append(_entry("pipeline", [WORDS[choice.pipeline]]))
    expire_us = changing.expire_us if isinstance(changing := _whole(physical.root), ContinuousNode) else None
    if expire_us is not None:
        when = f"every {format_interval(expire_us)} of event time; what changes is told then"
        lines.append(_entry("rows that have left are looked for", [when]))
    if choice.pipeline in PUBLISHED_PIPELINES:
        named = [f"{name} {', '.join(map(str, cases))}" for name, cases in load(EXPIRY_CASES)(plan.root)]
        lines.append(_entry("H04's cases", named))
    if choice.costs:
        costs = [f"{name} {short(cost)} µs, {short(choice.held[name])} rows" for name, cost in choice.costs.items()]
        lines.append(_entry("to let results go, time a second and rows held", costs))
    if physical.one_thread is not None:
        lines.append(_entry("in one thread", [physical.one_thread]))
    lines += [] if shared is None else _shared(shared)
    changed = plan.options.changed()
    if changed:
        lines.append(_entry("options", [f"{name} = {value}" for name, value in changed.items()]))
    return "\n".join(map(str, lines)) + "\n"


def _shared(shared: Shared) -> Iterator[Line]:
    """What is done once, in one process."""
    for stream, queries in shared.read_once_for.items():
        yield _entry(f"in one process {stream} is read once for", queries)
    for table, queries in shared.loaded_once_for.items():
        yield _entry(f"table {table} is loaded once for", queries)
    for stream, queries in shared.kept_once_for.items():
        yield _entry(f"rows of {stream} are kept once for", queries)
    for stream, column in shared.given_by.items():
        yield _entry(f"of {stream} it is given the rows that it asks for, found by", [column])
    for walk in shared.walks:
        if len(walk.queries) > 1:
            yield _entry(f"new rows of {walk.stream} look for partners once for", walk.queries)
    for part in shared.parts:
        yield _entry(f"{part.what} is computed once for", dict.fromkeys(part.queries))
    if shared.answered_once_for:
        yield _entry("answered once for", shared.answered_once_for)


def partition_words(node: PartitionedNode) -> str:
    own = (
        f"the rows of its keys: {', '.join(map(str, node.keys.values()))}"
        if node.fragment is None
        else (f"a share of the rows of {node.fragment}")
    )
    copied = f", and with all rows of {', '.join(sorted(node.copied))}" if node.copied else ""
    return f"in {node.parts} threads, each with {own}{copied}"


def spread_words(node: PartitionedNode, said: Spread | None) -> str | None:
    """Which rows of keys that are spread go where; None where none are."""
    if node.spread is None or said is None:
        return None
    copied = listed([name for name in node.keys if name != node.spread.split])
    keys = listed([repr(value) for value in said.values])
    dealt = f"rows of {node.spread.split} with the keys {keys} are dealt out over {node.parts} threads"
    return f"spread: {dealt}" + (f", and those of {copied} copied there" if copied else "")


def _costs(joins: Sequence[ExplainedJoin]) -> Iterator[Line]:
    """The tables of each join; they stand at the margin, as they take the width there is."""
    estimates = [one.estimate for one in joins if one.estimate is not None]
    for one, estimate in zip(joins, estimates, strict=True):
        if len(joins) > 1:
            yield Line(f"{one.title}:")
        for title, table in cost_tables(estimate):
            yield Line(title)
            yield from (Line(text, depth=1, verbatim=True) for text in table)
    yield from map(Line, unique_keys(estimates))
    note = assumptions(estimates)
    if note is not None:
        yield Line(note)


def _node(node: Node, joins: Joins) -> Lines:
    if isinstance(node, Join):
        yield from _join(node, joins)
        return
    yield from step_lines(node)
    for child in children(node):
        yield from _below(_node(child, joins))


def step_lines(node: Node) -> Lines:
    """What a step does, without what stands below it; of a join what it is called."""
    match node:
        case Join():
            yield Line(join_words(node))
        case Project(columns=columns):
            yield _entry("select", [output(name, to_text(e)) for name, e in columns])
        case GroupBy(keys=keys, having=having):
            yield _entry("group by", [to_text(key) for key in keys] or ["nothing, one group of all rows"])
            if having is not None:
                yield _entry("having", [to_text(having)])
        case Distinct():
            yield Line("distinct")
        case TopK(keys=keys):
            yield _entry(f"{node.words} by", [sort_key(key) for key in keys])
        case Over():
            yield from _over(node)
        case Changes(kind=kind, child=child, every=every):
            words = _CHANGES.get(kind, kind)
            hop = hop_by_steps(child) if kind == "complete" else None
            if hop is not None and hop.slide_us < hop.size_us:
                words += "; groups go on from window to window, without a copy of a row for each"
            yield Line(words + ("" if every is None else f" every {every}"))
        case SetOperation(kind=kind, all=keep):
            order = ", one stream in the order of time" if streams_together(node) else ""
            yield Line(kind + (" all" if keep else "") + order)
        case _:
            assert_never(node)


def _over(node: Over) -> Lines:
    places = dict(node.child.columns) if isinstance(node.child, Project) else {}

    def shown(expression: Expression) -> Expression:
        """With what stands below in the place of its name, where that can be read."""
        calls = dict(node.calls)
        return replaced(expression, lambda part: _named_part(part, calls, places, shown))

    yield _entry("select", [output(name, to_text(shown(e))) for name, e in node.columns])
    if node.keep is not None:
        yield from _below([_entry("of which are kept", [to_text(shown(node.keep))])])
    yield from _below(Line(text) for text in kept_of(node))


def _named_part(
    part: Expression, calls: Mapping[str, Expression], places: Mapping[str, Expression], shown: Mapped
) -> Expression | None:
    if not isinstance(part, Column) or part.stream:
        return None
    if part.name in calls:
        return shown(calls[part.name])
    return places.get(part.name, part)


def kept_of(node: Over) -> list[str]:
    """When the rows of an OVER are given, and what it holds for those to come."""
    if node.time is None:
        top = top_rows(node)
        if top is not None and top.followed:
            return [f"changes as rows come and go: of each partition the first {top.limit} are kept in order"]
        first = "" if top is None else f", as far as its first {top.limit} by {top.function.upper()}"
        return [f"changes as rows come and go: the partition that changes is worked out anew{first}"]
    said = ["a row is given when the watermark has passed it"]
    if node.looks_ahead:
        said = ["a row is given when those after it that it asks for are certain, or at the end"]
    ranges = [keeps_for_us(call) for _, call in node.calls if keeps_for_us(call) is not None]
    bounded = len(ranges) == len(node.calls)
    if bounded:
        longest = max((size for size in ranges if size is not None), default=0)
        return [*said, f"rows are kept for {format_interval(longest)}"]
    if not any(call.partition_by for _, call in node.calls):
        return [*said, "of the rows before it that is kept which frames still need"]
    return [
        *said,
        "kept for ever: of each partition what the frames still need, so partitions should not be without end",
    ]


def sort_key(key: SortKey) -> str:
    return to_text(key.expression) + " desc" * key.descending + " nulls first" * key.nulls_first


def output(name: str, text: str) -> str:
    return text if text == name or text.endswith(f".{name}") else f"{text} as {name}"


def _join(join: Join, joins: Joins) -> Lines:
    explained = joins.get(id(join))
    if len(join.inputs) == 1:
        yield Line(f"read {_source(join.inputs[0])}")
        yield from _below(_entry("where", [to_text(predicate)]) for predicate in join.predicates)
        yield from _below(_waiting(join, explained.strategy.method) if explained is not None else ())
    elif join.asof is not None:
        yield from asof_lines(join, join.asof)
    elif explained is None:
        yield from threshold_lines(join)
    else:
        yield Line(join_words(join))
        yield from _below(_entry("then", [to_text(condition)]) for condition in join.where)
        yield from _below([*bound_lines(join.windows), *_strategy(explained)])
        yield from _below(_holding(explained.holder))
    yield from _below([*_written_times(join.inputs), *_first_rows(join.inputs)])
    for one in join.inputs:
        if isinstance(one.relation, Derived | View):
            yield from _below([Line(f"{one.alias} is"), *_below(_node(one.relation.plan, joins))])


def asof_lines(join: Join, asof: AsOf) -> Lines:
    left, right = (one.alias for one in join.inputs)
    oldest = (
        "" if asof.within_us is None or asof.back_us == 0 else f", not older than {format_interval(asof.within_us)}"
    )
    none = ", or none" if join.kind == "asof_left" else ""
    which = "versions" if asof.key else "version"
    of = f"the {which} of {right} that held at its time" if join.inputs[1].has_versions else _nearest(asof, right)
    yield Line(f"as-of join: each row of {left} with {of}{oldest}{none}")
    yield from _below(_entry("where", [to_text(predicate)]) for predicate in join.predicates)
    yield from _below(_entry("which holds if", [to_text(condition)]) for condition in asof.holding)
    yield from _below(_entry("then", [to_text(condition)]) for condition in join.where)
    kept = "of each key the last one, and those after it" if asof.within_us is None else "while they are not too old"
    yield from _below([_entry(f"rows of {right} are kept", [kept])])
    if asof.ahead_us != 0:
        yield from _below([_entry(f"rows of {left} wait", [_until(asof, right)])])


def _nearest(asof: AsOf, right: str) -> str:
    if asof.ahead_us == 0:
        return f"the latest of {right}"
    return f"the first of {right} from its time on" if asof.back_us == 0 else f"the one of {right} nearest in time"


def _until(asof: AsOf, right: str) -> str:
    partner = "for the first" if asof.back_us == 0 else "until none can be nearer"
    end = "however long that takes" if asof.until_us is None else f"{format_interval(asof.until_us)} at most"
    return f"{partner}, {end}"


def threshold_lines(join: Join) -> Lines:
    """Of a join that has no strategy, as it puts nothing together."""
    against = choose_threshold(join, ())
    assert against is not None
    rows, values = against.rows.alias, against.values.alias
    key = " of its key" if against.keys else ""
    yield Line(f"each row of {rows} against the one value{key} in {values}")
    yield from _below(_entry("where", [to_text(predicate)]) for predicate in join.predicates)
    order = f"rows of {rows} are kept in the order of {against.comparison.own}"
    yield from _below([Line(f"{order}: when a value moves, only those between are given or taken back")])


def join_words(join: Join) -> str:
    left, *others = (one.alias for one in join.inputs)
    waits = ", once it is certain that none can come" if join.certain else ", while they have none"
    match join.kind:
        case "left":
            return f"left join: combinations, and rows of {left} without a partner{waits}"
        case "full":
            return f"full join: combinations, and rows of {left} and of {others[0]} without a partner{waits}"
        case "semi":
            return f"semi join: rows of {left} that have a partner in {others[0]}, each once"
        case "anti":
            return f"anti join: rows of {left} without a partner in {others[0]}{waits}"
    return f"join {len(join.inputs)} inputs, no intermediate results"


def _written_times(inputs: Sequence[Input]) -> Lines:
    """How streams have their event times where they come from, if not as timestamps, and what becomes of NULLs."""
    for stream in {one.relation.name: one.relation for one in inputs if isinstance(one.relation, Stream)}.values():
        remarks = [] if stream.reading is None else [f"{stream.time} is {stream.reading}"]
        remarks += [f"{stream.time} is the moment at which rows arrive"] if stream.by_arrival else []
        remarks += ["NULL is skipped"] if stream.arrival.skips_nulls else []
        if remarks:
            yield _entry(f"event time of {stream.name}", remarks)


def _first_rows(inputs: Sequence[Input]) -> Lines:
    """Of which streams duplicates are left out."""
    for one in inputs:
        if isinstance(one.relation, Stream) and one.relation.first is not None:
            first = one.relation.first
            away = format_interval(first.within_us)
            keys = ", ".join(first.keys)
            yield Line(f"of {one.alias} only the first row of each {keys} within {away}, as rows arrive")


def _source(one: Input) -> str:
    kind = _KINDS[type(one.relation)]
    made = "".join(f" with {to_text(e)} as {name}" for name, e in one.made)
    window = made + ("" if one.window is None else f" [{window_text(one.window)}]")
    return f"{kind} {one.relation.name}{window}" + ("" if one.alias == one.relation.name else f" as {one.alias}")


# -- bounds between event times -------------------------------------------------------------------------------


def bound_lines(windows: ClosedWindows) -> Lines:
    if len(windows.streams) < 2:
        return
    several = len(windows.alternatives) > 1
    for k, matrix in enumerate(windows.alternatives):
        yield Line("time bounds after closure" + (f", alternative {k + 1}" if several else ""))
        yield from _below(_pairs(windows.streams, matrix))


def _pairs(streams: Sequence[str], matrix: Matrix) -> list[Line]:
    """What is known of the difference of every pair; pairs with the same bound share a line."""
    alike: dict[tuple[int, int], list[str]] = {}
    pairs = list(combinations(range(len(streams)), 2))
    for u, v in pairs:
        alike.setdefault((-matrix[v][u], matrix[u][v]), []).append(f"{streams[v]} - {streams[u]}")
    # Fewer pairs are soon read one by one.
    if len(alike) == 1 and len(pairs) > 3 and _is_symmetric(*next(iter(alike))):
        alike = {bound: ["every pair"] for bound in alike}
    written = [f"{', '.join(pair)}: {_bound(*bound)}" for bound, pair in alike.items() if bound != NO_BOUND]
    return [Line(text) for text in written] or [Line("none")]


def _bound(low_us: int, high_us: int) -> str:
    low, high = format_interval(low_us), format_interval(high_us)
    if _is_symmetric(low_us, high_us):
        return f"within {high}"
    if low_us == -FOREVER_US:
        return f"at most {high}"
    return f"at least {low}" if high_us == FOREVER_US else f"{low} to {high}"


def _is_symmetric(low_us: int, high_us: int) -> bool:
    return low_us == -high_us and high_us < FOREVER_US


# -- how a join runs ------------------------------------------------------------------------------------------


def _holding(holder: FromManyNode | None) -> Iterator[Line]:
    """How it is known, below a changing answer, which combinations leave."""
    if isinstance(holder, NegativeJoinNode):
        yield Line("combinations are not held: when a row leaves, what it met is found again")
    elif holder is not None:
        yield Line("combinations are held until the first of their members leaves")


def _strategy(explained: ExplainedJoin) -> Lines:
    strategy = explained.strategy
    join, method = strategy.join, strategy.method
    if method.is_classic:
        yield from _method(method)
    yield Line("stores")
    yield from _below([Stores(explained)])
    for one in join.inputs:
        predicates = strategy.filters.get(one.alias, ())
        if predicates:
            yield _entry(f"filter {one.alias} first", [to_text(p) for p in predicates])
    yield from _waiting(join, method)
    if method.order_rule is not None:
        yield _entry("order by a rule", [method.order_rule.name, method.order_rule.words])
    if not method.is_classic or method.kind.loops:
        yield Line("new rows of" if method.is_lazy else "a new row of")
        for route in strategy.routes:
            yield from _below(_route(route, method))
    if strategy.verified:
        yield _entry("then, on the values behind hashed keys", [to_text(test) for test in strategy.verified])
    late = [(test, _tested_late(strategy, test)) for test in strategy.residuals]
    if any(origins for _, origins in late):
        yield _entry("then, on whole combinations", [_of(test, strategy, origins) for test, origins in late if origins])
    if explained.otherwise:
        yield _entry("partners also where, in stores of their own", [to_text(test) for test in explained.otherwise])


def _method(method: Method) -> Lines:
    """The algorithm, when it joins, and when rows that have expired leave."""
    yield _entry("algorithm", [method.algorithm, method.kind.words])
    if method.instead_of_own is not None:
        takes, own = (f"{ns:.0f} ns" for ns in method.instead_of_own)
        why = f"for rows that are all at hand: {takes} a row, the engine's own join {own}; join = 'own' takes that"
        yield from _below([_entry("chosen", [why])])
    if method.refresh_us is not None:
        refresh = f"new rows together, every {format_interval(method.refresh_us)} of event time"
    else:
        refresh = "each row as it arrives"
    yield from _below([_entry("joins", [refresh]), _entry("expired rows leave", [_expiry(method)])])
    if method.chain is not None:
        yield from _below([_entry("chain", [" -> ".join(method.chain)])])
    if method.kind.merges:
        yield from _below([_entry("windows", [method.windows])])
    if method.turns == "round_robin":
        yield from _below([_entry("reads", ["one row of each stream in turn; a stream without rows is passed over"])])


def _expiry(method: Method) -> str:
    if method.expire_us is not None:
        return f"in a pass over all windows every {format_interval(method.expire_us)}"
    if method.is_lazy:
        return "in a pass over all windows whenever rows are joined"
    if method.kind.forgets is not None:
        return method.kind.forgets
    # groupby wants equals side by side; in the order of the option, so that a plan always reads the same.
    alike = groupby(sorted(method.invalidate.items(), key=lambda said: INVALIDATIONS.index(said[1])), lambda s: s[1])
    said = {how: [alias for alias, _ in group] for how, group in alike}
    if len(said) == 1:
        return CLEANED[next(iter(said))]
    return "; ".join(f"{', '.join(sorted(aliases))}: {CLEANED[how]}" for how, aliases in said.items())


def _whole(root: PhysicalNode) -> PhysicalNode:
    return root.inner if isinstance(root, PartitionedNode) else root


def _spilling(spilling: Spilling) -> str:
    return f"up to {spilling.written}; what results need of the oldest rows beyond that lies on disk"


def _waiting(join: Join, method: Method) -> Iterator[Line]:
    counts_rows = any(isinstance(one.window, RowsWindow) for one in join.inputs)
    if method.is_classic and (counts_rows or not method.kind.any_order):
        yield Line("rows wait for the watermark, as the algorithm takes them in time order")
    elif counts_rows:
        yield Line("rows wait for the watermark, as ROWS windows count in time order")


def _named(one: Input) -> str:
    return one.alias if one.alias == one.relation.name else f"{one.alias} ({one.relation.name})"


def lateness_of(one: Input) -> str:
    lateness_us = one.relation.lateness_us if isinstance(one.relation, Stream) else 0
    return format_interval(lateness_us) if lateness_us else "-"


def _is_visited(strategy: JoinStrategy, one: Input) -> bool:
    return any(one.alias in route.visits and one.alias != route.origin for route in strategy.routes)


def kept_words(explained: ExplainedJoin, one: Input) -> str:
    """For how long rows of an input are kept."""
    if one.alias in explained.views:
        return "while there"
    # To the operator a window of rows that moves in steps has no end: it is told when rows leave.
    counted = isinstance(explained.window_of(one), SteppedRows)
    return "its count" if counted else _kept_for(explained.strategy, one)


def _kept_for(strategy: JoinStrategy, one: Input) -> str:
    if not _is_visited(strategy, one):
        return "not kept"
    if one.is_table:
        return "always"
    kept_us = strategy.join.kept_us(one.alias)
    if isinstance(one.window, RowsWindow):
        return "its count" if kept_us >= FOREVER_US else f"its count or {format_interval(kept_us)}"
    return format_interval(kept_us)


def _rows(strategy: JoinStrategy, one: Input) -> str:
    rows = strategy.rows_kept.get(one.alias)
    return "-" if rows is None or not _is_visited(strategy, one) else f"~{rows:,.0f}"


def index_words(strategy: JoinStrategy, one: Input) -> str:
    hashed = [f"hash({', '.join(map(_own, key))})" for key in strategy.hash_keys(one.alias)]
    return ", ".join([*hashed, *(f"sorted({_own(key)})" for key in strategy.sorted_keys(one.alias))]) or "-"


def _buffers(strategy: JoinStrategy, one: Input) -> str:
    """What an algorithm of the papers scans: a list of the rows, or buckets by key."""
    if strategy.method.kind.forgets is not None:
        return "-"
    count = strategy.method.buckets.get(one.alias)
    found: dict[str, None] = {}
    for route in strategy.routes:
        # A route that begins elsewhere scans that input from end to end.
        if route.start == one.alias != route.origin:
            found["list"] = None
        for step in route.steps:
            if step.stream == one.alias and (step.stream != route.origin or strategy.method.is_lazy):
                keyed = access_of(step, strategy.method) == "bucket"
                found[f"{count} buckets({', '.join(map(_own, step.key))})" if keyed else "list"] = None
    return ", ".join(found) or "-"


def access_of(step: Step, method: Method) -> str:
    if not method.is_classic:
        return step.access
    return "bucket" if method.kind.hashes and step.equalities else "scan"


def _route(route: Route, method: Method) -> Iterator[Line]:
    """The steps from one origin; neighbours that are found in the same way share a line."""
    begins = f"{route.origin} " if route.start == route.origin else f"{route.origin}: {route.start} "
    start, hang = begins, len(begins) + 7
    # By the tests too: two inputs that are found by the same key of the same row need one line.
    for (access, tests, then), steps in groupby(
        route.steps, key=lambda step: (access_of(step, method), _tests(step), step.then)
    ):
        visited = ", ".join(f"new {s.stream}" if s.stream == route.origin else s.stream for s in steps)
        yield Line(f"{start}-> {visited} by {access}: {', '.join(tests)}", hang)
        start = " " * len(start)
        for test in then:
            yield Line(f"{start}   then those with {to_text(test)}", hang)


def _tested_late(strategy: JoinStrategy, test: Expression) -> tuple[str, ...]:
    """For the new rows of which streams whole combinations are tested."""
    return tuple(one.origin for one in strategy.routes if not any(test in step.then for step in one.steps))


def _of(test: Expression, strategy: JoinStrategy, origins: tuple[str, ...]) -> str:
    return to_text(test) + ("" if len(origins) == len(strategy.routes) else f" (of a new row of {', '.join(origins)})")


def _tests(step: Step) -> tuple[str, ...]:
    tests = [f"{_own(own)} = {_text(bound.expression)}" for bound, own in step.equalities]
    return tuple(tests + [_comparison(c) for c in step.comparisons]) or ("time only",)


def _comparison(c: Comparison) -> str:
    return f"{_own(c.own)} {SYMBOLS[c.operator]} {_text(c.bound.expression)}"


def _own(code: Code) -> str:
    """A code of the input that a line is about: its name is not repeated for a plain column."""
    expression = _uncast(code.expression)
    return expression.name if isinstance(expression, Column) else to_text(expression)


def _text(expression: Expression) -> str:
    """A sum that is taken generously reads like a plain one: its predicate is tested again and stands below."""
    return to_text(_uncast(expression)).replace("+~", "+").replace("-~", "-")


def _uncast(expression: Expression) -> Expression:
    """Without the casts that only widen a number so that two of different types can be compared."""
    match expression:
        case Call(function="cast", args=(inner,), type=kind) if _widens(inner.type, kind):
            return inner
    return expression


def _widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    if pa.types.is_integer(narrow):
        # A double holds integers of up to 53 bits.
        return bool(wide == pa.int64() or (wide == pa.float64() and narrow.bit_width <= 32))
    return bool(narrow == pa.float32() and wide == pa.float64())


# -- layout ---------------------------------------------------------------------------------------------------


def _entry(title: str, items: Iterable[str]) -> Line:
    return Line(f"{title}: {', '.join(items)}")


def _aligned(columns: Mapping[str, Sequence[str]]) -> list[Line]:
    shown = {title: cells for title, cells in columns.items() if title == "input" or set(cells) != {"-"}}
    widths = [max(map(len, (title, *cells))) for title, cells in shown.items()]
    rows = [tuple(shown), *zip(*shown.values(), strict=True)]
    return [Line("  ".join(map(str.ljust, row, widths)).rstrip()) for row in rows]


def _below(lines: Iterable[Line | Stores]) -> list[Line | Stores]:
    return [replace(line, depth=line.depth + 1) for line in lines]
