"""A physical plan as operators: for every kind of node, what it becomes. Nothing is chosen here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import RowsWindow
from watersmeet.operators.constants import constant_rows
from watersmeet.operators.contract import Operator
from watersmeet.operators.counted_elsewhere import NONE, CountedElsewhere
from watersmeet.operators.join.keeping import JoinedAgain, Keeping
from watersmeet.operators.join.layout import Layout
from watersmeet.operators.join.window_join import Planner, WindowJoin
from watersmeet.operators.partition_key import PartitionKey
from watersmeet.operators.select import CountedSelect, Select
from watersmeet.operators.time_order import Counting, InTimeOrder
from watersmeet.optimizer.choose_partition_key import choose_partition_key
from watersmeet.optimizer.choose_threads import faster_alone
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.optimizer.replan import Replanner
from watersmeet.optimizer.spread_keys import spread_along
from watersmeet.physical.nodes import (
    AsofJoinNode,
    AsTheyComeNode,
    ClassicJoinNode,
    ContinuousNode,
    InTimeOrderNode,
    JoinNode,
    OuterJoinNode,
    PartitionedNode,
    PlainNode,
    RowsNode,
    SelectNode,
    WindowJoinNode,
)
from watersmeet.physical.partitioning import Dimension
from watersmeet.physical.plan import PhysicalPlan
from watersmeet.plan.asof_conditions import asof_conditions
from watersmeet.plan.constants import Constants
from watersmeet.plan.expressions import columns_of
from watersmeet.plan.nodes import AT, OP, Input, Join
from watersmeet.plan.published import AS_THEY_COME, CLASSIC_JOIN, STREAM_MANAGER, STREAMS_IN_ORDER, load
from watersmeet.plan.query import Plan, log_columns

if TYPE_CHECKING:
    from watersmeet.operators.keeping.known_frequencies import KnownFrequencies
    from watersmeet.operators.merged_logs import Log
    from watersmeet.operators.outer.asof_join import AsofJoin
    from watersmeet.operators.outer.outer_join import OuterJoin
    from watersmeet.operators.outer.sides import Side
    from watersmeet.operators.partitioned import Partitioned
    from watersmeet.runtime.common_parts import BuiltParts


@dataclass(frozen=True)
class LoadTable:
    """Takes the rows of a static table into an operator; before others take their place, these are forgotten."""

    operator: Operator
    alias: str

    def __call__(self, rows: pa.RecordBatch) -> None:
        self.operator.load_table(self.alias, rows)

    def forget(self) -> None:
        self.operator.forget_table(self.alias)


@dataclass(frozen=True)
class LoadTableOfParts:
    """The same for all parts of an operator: each has the whole table."""

    operator: Partitioned
    loads: Sequence[LoadTable]

    def __call__(self, rows: pa.RecordBatch) -> None:
        self.operator.in_turn([partial(load, rows) for load in self.loads])

    def forget(self) -> None:
        self.operator.in_turn([load.forget for load in self.loads])


@dataclass(frozen=True)
class LoadFrequencies:
    """Tells a join in bounded memory how often the keys of a stream come."""

    known: KnownFrequencies
    alias: str

    def __call__(self, rows: pa.RecordBatch) -> None:
        self.known.read(self.alias, rows)

    def forget(self) -> None:
        raise AssertionError("these tables are read once")


LoadsTable = LoadTable | LoadTableOfParts | LoadFrequencies
MakePlanner = Callable[[WindowJoinNode], Planner | None]


@dataclass
class Built:
    """An operator, the streams it reads by the names their rows are pushed under, what takes its tables, the joins
    inside it, in the order in which its plan has them, the columns of each stream that it looks at, if that is known,
    why it runs in one thread, where several were asked for, the plan that it was made by, and what is to be said of
    what it shares."""

    operator: Operator
    streams: dict[str, Stream]
    tables: Sequence[tuple[Table, LoadsTable]]
    joins: list[WindowJoin] = field(default_factory=list)
    columns: Mapping[str, frozenset[str]] | None = None
    one_thread: str | None = None
    physical: PhysicalPlan | None = None
    shares: list[str] = field(default_factory=list)

    @property
    def looked_at(self) -> dict[str, list[str]]:
        """The columns that it looks at, in a fixed order, and its time, by the names rows are pushed under."""
        found = {}
        for alias, stream in self.streams.items():
            read = None if self.columns is None else self.columns[alias] | {stream.time}
            found[alias] = [name for name in stream.schema.names if read is None or name in read]
        return found

    def notices(self, plan: Plan) -> list[str]:
        """What is to be said once, at the start."""
        if self.one_thread is None:
            return self.shares
        return [*self.shares, f"threads = {plan.options.threads}, but the query runs in one thread: {self.one_thread}"]


def build_query(plan: Plan, *, refresh_at_push: bool = False, to_the_end: bool = False) -> Built:
    """The operator that answers a plan in this process, and what it reads; see `plan_query`."""
    with plan.pointing_at_options():
        return build_plan(planned_here(plan, refresh_at_push=refresh_at_push, to_the_end=to_the_end))


def planned_here(plan: Plan, *, refresh_at_push: bool = False, to_the_end: bool = False) -> PhysicalPlan:
    """How a plan runs in this process, in as many threads as were asked for, or in one with the reason."""
    # Who names keys that have many rows knows more of them than is estimated there.
    why = faster_alone(plan) if to_the_end and plan.options.spread is None else None
    if why is not None:
        alone = replace(plan, options=plan.options.but(threads=1))
        return replace(plan_query(alone, refresh_at_push=refresh_at_push, to_the_end=True), one_thread=why)
    return in_threads(plan, plan_query(plan, refresh_at_push=refresh_at_push, to_the_end=to_the_end))


def build(plan: Plan, *, refresh_at_push: bool = False) -> Operator:
    """The operator alone."""
    return build_query(plan, refresh_at_push=refresh_at_push).operator


def build_plan(plan: PhysicalPlan, planner: MakePlanner | None = None, parts: BuiltParts | None = None) -> Built:
    """planner: what looks for better routes for a join, instead of what usually does. parts: those that it has in
    common with other plans, or has several times."""
    builder = Builder(planner or _planner, parts=parts)
    operator = builder.operator(plan.root)
    rules = {leaf.name: leaf.stream.first for leaf in plan.leaves if leaf.stream.first is not None}
    if rules:
        from watersmeet.operators.deduplicate import Deduplicate

        operator = Deduplicate(operator, rules)
    return Built(
        operator, plan.streams, builder.tables, builder.joins, _columns_read(plan, parts), plan.one_thread, plan
    )


def _columns_read(plan: PhysicalPlan, parts: BuiltParts | None) -> dict[str, frozenset[str]]:
    """Of every stream, by the names its rows are pushed under; what they are placed by is among them."""
    read = {leaf.name: leaf.columns if parts is None else parts.columns_of(leaf) for leaf in plan.leaves}
    keys = plan.root.keys if isinstance(plan.root, PartitionedNode) else {}
    return read | {name: read[name] | {c.name for c in columns_of(key.expression)} for name, key in keys.items()}


def in_threads(plan: Plan, physical: PhysicalPlan) -> PhysicalPlan:
    """A plan in as many threads as were asked for; where its answer does not come apart by a key, with the reason."""
    if plan.options.threads == 1:
        return physical
    if isinstance(physical.root, SelectNode):
        return replace(physical, one_thread="rows that are only selected stay in their order")
    key = choose_partition_key(plan, physical)
    if key is None:
        return replace(physical, one_thread="no column keeps together all rows that belong together")
    operator = build_plan(physical, lambda node: None).operator
    why = operator.undivided(key)
    (place,) = spread_along(plan, physical, (Dimension(plan.options.threads, key.codes, key.fragment),))
    if why is None and place.spread is not None:
        from watersmeet.operators.spread_state import tells_copies

        why = None if tells_copies(operator) else "keys are spread, and its joins do not tell copies of rows apart"
    if why is None and plan.kind != "rows" and not operator.key_columns(key):
        why = "rows of different keys may be equal, and one that enters as another leaves says nothing"
    if why is not None:
        return replace(physical, one_thread=why)
    assert not isinstance(physical.root, PartitionedNode)
    root = PartitionedNode(physical.root, plan.options.threads, key.codes, key.fragment, key.copied, place.spread)
    return replace(physical, root=root)


def _planner(node: WindowJoinNode) -> Planner | None:
    return Replanner(node.strategy) if node.replans else None


def built_join(join: Join, operator: Operator) -> Built:
    """An operator made elsewhere for a plain join, with what it reads."""
    streams = {one.alias: one.relation for one in join.streams if isinstance(one.relation, Stream)}
    return Built(operator, streams, _tables(join, operator))


def _log_of(node: PlainNode | ContinuousNode) -> Log | None:
    """How its answer is a log of changes, if it is one."""
    from watersmeet.operators.merged_logs import Log

    before = log_columns(node.kind) if isinstance(node, ContinuousNode) else ()
    return Log(before.index(AT), before.index(OP) if OP in before else None) if before else None


class Builder:
    """Turns nodes into operators, and collects what takes tables."""

    def __init__(
        self, planner: MakePlanner, elsewhere: CountedElsewhere = NONE, parts: BuiltParts | None = None
    ) -> None:
        """elsewhere: which rows another operator of the same plan has as well, which counts them."""
        self.parts = parts
        self.tables: list[tuple[Table, LoadsTable]] = []
        self.joins: list[WindowJoin] = []
        self._planner, self._elsewhere = planner, elsewhere

    def operator(self, node: RowsNode) -> Operator:
        match node:
            case SelectNode():
                return Select(node.strategy.join.predicates, node.columns)
            case WindowJoinNode():
                return self.window_join(node)
            case InTimeOrderNode():
                return InTimeOrder(self._counting(node.inner), list(node.aliases))
            case AsTheyComeNode():
                made: Operator = load(_taking(node))(self._classic(node.inner), list(node.aliases))
                return made
            case OuterJoinNode():
                return self.outer_join(node)
            case AsofJoinNode():
                return self.asof_join(node)
            case ContinuousNode():
                # A plain join starts without them: they are most of the operators there are.
                from watersmeet.runtime.build_changing import AnswerBuilder

                return AnswerBuilder(self).operator(node)
            case PartitionedNode():
                return self._partitioned(node)
        raise TypeError(f"{type(node).__name__} takes its rows in time order only")

    def _partitioned(self, node: PartitionedNode) -> Operator:
        from watersmeet.operators.partitioned import Partitioned

        key = PartitionKey(node.keys, node.fragment, node.copied, spread=node.spread)
        parts = (CountedElsewhere.in_part(part, node.parts, key) for part in range(node.parts))
        builders = [Builder(self._planner, one) for one in parts]
        operators = [builder.operator(node.inner) for builder in builders]
        made = Partitioned(operators, key, _log_of(node.inner))
        self.joins += [join for builder in builders for join in builder.joins]
        for loads in zip(*(builder.tables for builder in builders), strict=True):
            self.tables.append((loads[0][0], LoadTableOfParts(made, [load for _, load in loads])))
        return made

    def outer_join(self, node: OuterJoinNode) -> OuterJoin:
        from watersmeet.operators.outer.outer_join import Kept, OuterJoin

        # In the order in which the plan has them: other joins are known by their places among all.
        joining = self.operator(node.joining)
        sides = self._sides(node)
        kept = []
        for alias, certain in node.join.certain:
            other = next(one for one in node.join.inputs if one.alias != alias)
            shown = (*(e for _, e in node.columns), *node.join.where)
            read = sorted({c.name for e in shown for c in columns_of(e) if c.stream == alias})
            kept.append(Kept(alias, node.join.input(alias).schema, read, certain, other.is_table))
        return OuterJoin(
            node.join, joining, node.columns, kept, sides, node.remembered_us, node.looked_up, self._elsewhere
        )

    def asof_join(self, node: AsofJoinNode) -> AsofJoin:
        from watersmeet.operators.outer.asof_join import AsofJoin, Latest
        from watersmeet.operators.outer.changes_of_table import ChangesOfTable

        right = node.join.inputs[1]
        found = asof_conditions(node.join.predicates, right.alias)
        schema, changes = right.schema, None
        if isinstance(right.relation, Stream) and right.relation.versions is not None:
            changes = ChangesOfTable(right.relation.name, right.relation.versions.op)
            schema = _read_of(node, right, changes.op)
        keys = [key for key, _ in found.equal]
        sides = self._sides(node)
        kept = (node.remembered_us, node.looked_up, self._elsewhere)
        assert node.join.asof is not None
        if node.join.asof.key:
            from watersmeet.operators.outer.lookup_join import LookupJoin, Versions

            assert changes is not None
            versions = Versions(schema, node.join.asof.key, [key for _, key in found.equal], changes)
            return LookupJoin(node.join, node.columns, versions, keys, found.left_only, sides, *kept)
        latest = Latest(schema, [key for _, key in found.equal], found.right_only, changes)
        return AsofJoin(node.join, node.columns, latest, keys, found.left_only, sides, *kept)

    def _sides(self, node: OuterJoinNode | AsofJoinNode) -> dict[str, Side]:
        from watersmeet.operators.outer.sides import Side

        sides = {}
        for alias, side, streams in zip(node.side_aliases, node.sides, node.streams, strict=True):
            time = node.join.input(alias).time
            assert time is not None
            sides[alias] = Side(self.operator(side), streams, time)
        return sides

    def _counting(self, node: JoinNode) -> Counting:
        match node:
            case SelectNode(only=only):
                assert isinstance(only.window, RowsWindow)
                return CountedSelect(only.alias, only.window, node.strategy.join.predicates, node.columns)
            case ClassicJoinNode():
                return self._classic(node)
            case WindowJoinNode():
                return self.window_join(node)

    def _classic(self, node: ClassicJoinNode) -> Counting:
        classic: Counting = load(CLASSIC_JOIN)(node.strategy, node.columns)
        self.tables += _tables(node.strategy.join, classic)
        return classic

    def window_join(self, node: WindowJoinNode, again: Mapping[str, pa.Schema] | None = None) -> WindowJoin:
        """again: by input, the columns that joining a stored row once more takes."""
        joining = _window_join(node, self._planner(node), self._elsewhere, again)
        self.joins.append(joining)
        self.tables += _tables(node.strategy.join, joining)
        if node.shedding is not None and node.shedding.frequencies:
            from watersmeet.operators.keeping.bounded import BoundedMemory

            assert isinstance(joining.keeping, BoundedMemory)
            known = joining.keeping.frequencies
            assert known is not None
            self.tables += [(one, LoadFrequencies(known, alias)) for alias, one in node.shedding.frequencies]
        return joining


def _window_join(
    node: WindowJoinNode, planner: Planner | None, elsewhere: CountedElsewhere, again: Mapping[str, pa.Schema] | None
) -> WindowJoin:
    keeping: Callable[[Layout], Keeping] = Keeping if again is None else partial(JoinedAgain, again=again)
    if node.shedding is not None:
        # A query without a bound does not wait for its kernels.
        from watersmeet.operators.keeping.bounded import BoundedMemory

        keeping = partial(BoundedMemory, shedding=node.shedding)
    if node.spilling is not None:
        from watersmeet.operators.keeping.spilling import SpillingMemory

        keeping = partial(SpillingMemory, spilling=node.spilling)
    return WindowJoin(
        node.strategy,
        node.columns,
        keeping=keeping,
        announced=node.announced,
        timeless=node.timeless,
        planner=planner,
        elsewhere=elsewhere,
    )


def _taking(node: AsTheyComeNode) -> str:
    if not node.in_turns:
        return AS_THEY_COME
    return STREAM_MANAGER if node.inner.strategy.method.kind.any_order else STREAMS_IN_ORDER


def _read_of(node: AsofJoinNode, one: Input, op: str | None) -> pa.Schema:
    """The columns that are read of the side which is looked up, once its rows are known by their keys."""
    assert node.join.asof is not None
    compared = node.join.predicates if node.join.asof.key else ()
    shown = (*(e for _, e in node.columns), *node.join.where, *node.join.asof.holding, *compared)
    read = {c.name for e in shown for c in columns_of(e) if c.stream == one.alias} | {op, one.time}
    return pa.schema([field for field in one.schema if field.name in read])


def _tables(join: Join, operator: Operator) -> list[tuple[Table, LoadTable]]:
    """What takes the tables that are read; those that the query says itself are taken here."""
    tables = [(one.relation, LoadTable(operator, one.alias)) for one in join.inputs if isinstance(one.relation, Table)]
    for table, take in tables:
        if isinstance(table, Constants):
            take(constant_rows(table))
    return [(table, take) for table, take in tables if not isinstance(table, Constants)]


def join_inside(operator: Operator) -> Operator:
    """The operator itself, without what only sorts its rows."""
    return operator.inner if isinstance(operator, InTimeOrder) else operator
