"""A query as the operators that will run it: a frozen value for each, made by the optimizer for `runtime/build.py`.

Three kinds stand in each other's places: what takes rows and gives rows (`RowsNode`), what gives the changes of an
answer (`AnswerNode`), and the inputs of FROM below those (`SourceNode`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Literal

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.pace import Pace
from watersmeet.model.time import FOREVER_US
from watersmeet.model.windows import Boundary, Hop, RowsWindow, Session, SteppedRows, Window, dies_in_turn, is_counted
from watersmeet.physical.over import TopRows
from watersmeet.physical.partitioning import SpreadKeys
from watersmeet.physical.pipeline import Pipeline
from watersmeet.physical.strategy import Code, Comparison, JoinStrategy
from watersmeet.plan.expressions import Aggregate, Expression, OverCall
from watersmeet.plan.nodes import ChangesKind, Input, Join, SortKey
from watersmeet.plan.query import Kind
from watersmeet.plan.shedding import Shedding
from watersmeet.plan.spilling import Spilling

Columns = tuple[tuple[str, Expression], ...]
# When rows that have expired are noticed: as time passes, or not before the next row comes (pipeline = 'ita').
Noticing = Literal["in_time", "at_next_input"]


class PhysicalNode:
    """Every field that is a node, or a tuple of nodes, stands below this one. `word`: what EXPLAIN calls its kind for
    programs, so it stays. `row_by_row`: with one stream and no rows to count each is answered by itself, so a host may
    run it without state, and spread it; a kind that is made of another says it again."""

    word: ClassVar[str]
    row_by_row: ClassVar[bool]

    def __init_subclass__(cls, *, word: str, row_by_row: bool = False) -> None:
        cls.word, cls.row_by_row = word, row_by_row

    @property
    def children(self) -> tuple[PhysicalNode, ...]:
        found: list[PhysicalNode] = []
        # From the fields, so that a new kind of node is walked without being told how.
        for field in fields(self):  # type: ignore[arg-type]  # every kind below is a dataclass
            value: Any = getattr(self, field.name)
            found += [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, PhysicalNode)]
        return tuple(found)


def everything_below(node: PhysicalNode) -> Iterator[PhysicalNode]:
    """The node itself, then what stands below it, in the order in which FROM names it."""
    yield node
    for child in node.children:
        yield from everything_below(child)


def leaves_below(node: PhysicalNode) -> tuple[LeafNode, ...]:
    return tuple(one for one in everything_below(node) if isinstance(one, LeafNode))


@dataclass(frozen=True)
class LastOfEach:
    """The rows that an as-of join may still look up: of every key the last, of those that are what `only` asks. `op` is
    the column that tells deletions, `versions` whether the last to arrive is the latest of equal times."""

    keys: tuple[Expression, ...]
    only: tuple[Expression, ...] = ()
    op: str | None = None
    versions: bool = False


@dataclass(frozen=True)
class LeafNode(PhysicalNode, word="stream"):
    """Where the rows of one stream enter: the name they are pushed under, the columns that are read, and which rows a
    restart needs again: those not older than `reach_us`, those in a ROWS window, or those of sessions that are open; of
    what is looked up those not older, and the last of each key before that."""

    name: str
    stream: Stream
    columns: frozenset[str]
    reach_us: int
    window: RowsWindow | SteppedRows | Session | LastOfEach | None = None


@dataclass(frozen=True)
class LookedUp:
    """What a restart needs of a stream in which an as-of join looks for partners."""

    name: str
    reach_us: int
    last: LastOfEach


# ---- rows in, rows out ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SelectNode(PhysicalNode, word="select", row_by_row=True):
    """A stream alone: a strategy of one input, with nothing to visit. With a ROWS window its rows are counted too."""

    strategy: JoinStrategy
    columns: Columns

    @property
    def only(self) -> Input:
        return self.strategy.join.inputs[0]


@dataclass(frozen=True)
class WindowJoinNode(PhysicalNode, word="window_join", row_by_row=True):
    """The engine's own join. Below a changing answer it is told when rows of the `announced` inputs die, and the times
    of the `timeless` ones, which are views, are not event times."""

    strategy: JoinStrategy
    columns: Columns
    shedding: Shedding | None = None
    announced: tuple[str, ...] | None = None
    timeless: tuple[str, ...] = ()
    spilling: Spilling | None = None

    @property
    def replans(self) -> bool:
        """Whether its routes follow what it measures while it runs."""
        return self.strategy.is_flexible


@dataclass(frozen=True)
class ClassicJoinNode(PhysicalNode, word="classic_join", row_by_row=True):
    """A join by one of the papers' algorithms."""

    strategy: JoinStrategy
    columns: Columns


@dataclass(frozen=True)
class InTimeOrderNode(PhysicalNode, word="in_time_order", row_by_row=True):
    """What counts rows, or takes them one by one as they happened, is given them once the watermark has passed."""

    inner: SelectNode | WindowJoinNode | ClassicJoinNode

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(one.alias for one in self.inner.strategy.join.streams)


@dataclass(frozen=True)
class AsTheyComeNode(PhysicalNode, word="as_they_come", row_by_row=True):
    """What needs no order is given what the watermark has passed in time order, and the rest when nothing more is at
    hand; or always the rows of its streams in turn."""

    inner: ClassicJoinNode

    @property
    def in_turns(self) -> bool:
        return self.inner.strategy.method.turns == "round_robin"

    @property
    def aliases(self) -> tuple[str, ...]:
        return tuple(one.alias for one in self.inner.strategy.join.streams)


class SidedNode:
    """A join of two sides, which may be joins themselves."""

    join: Join
    side_aliases: tuple[str, ...]
    streams: tuple[tuple[str, ...], ...]

    @property
    def aliases(self) -> tuple[str, ...]:
        """The streams it reads, in the order of the leaves."""
        inside = dict(zip(self.side_aliases, self.streams, strict=True))
        return tuple(name for one in self.join.streams for name in inside.get(one.alias, (one.alias,)))


@dataclass(frozen=True)
class OuterJoinNode(SidedNode, PhysicalNode, word="outer_join"):
    """A join of two sides of which rows are given, or asked for, without a partner. `joining` finds who matches, with
    hidden columns beside those asked for; `sides` are the inputs that are joins themselves, `streams` what each reads,
    in the same order. A row may decide about others for `remembered_us` after its time."""

    join: Join
    joining: SelectNode | WindowJoinNode
    columns: Columns
    sides: tuple[SelectNode | WindowJoinNode | OuterJoinNode | AsofJoinNode, ...]
    side_aliases: tuple[str, ...]
    streams: tuple[tuple[str, ...], ...]
    remembered_us: int
    looked_up: tuple[LookedUp, ...] = ()
    """Of the streams those in which as-of joins look for partners, here and in the sides."""


@dataclass(frozen=True)
class AsofJoinNode(SidedNode, PhysicalNode, word="asof_join"):
    """For each row of one side the latest partner. The left side may be a join itself; then `sides` has it."""

    join: Join
    columns: Columns
    sides: tuple[SelectNode | WindowJoinNode | OuterJoinNode | AsofJoinNode, ...]
    side_aliases: tuple[str, ...]
    streams: tuple[tuple[str, ...], ...]
    remembered_us: int
    looked_up: tuple[LookedUp, ...] = ()


@dataclass(frozen=True)
class ContinuousNode(PhysicalNode, word="changing_answer"):
    """An answer that changes, as rows with instants and signs."""

    child: AnswerNode
    kind: Kind
    schema: pa.Schema
    pipeline: Pipeline
    schedule: str = "pull"  # who runs next among H04's operators as printed
    expire_us: int | None = None  # how often it is looked for rows that have left, if not as time goes on

    @property
    def kept_whole(self) -> bool:
        """Whether a host keeps the state itself and not the rows it came of, which would be all there ever were. What
        is kept so goes on after the end of all input, if more comes after all."""
        endless = any(leaf.reach_us >= FOREVER_US for leaf in leaves_below(self))
        return endless and _only_looks_back(self.child)


def _only_looks_back(node: AnswerNode) -> bool:
    """OVER by event time, of a stream as it comes or of such an OVER: no row of it ever leaves. Or the first rows of
    partitions, of a stream that is kept for ever."""
    match node:
        case NetNode(child=OverChangingNode(grows=True, top=TopRows(), child=FromOneNode(source=StreamSourceNode()))):
            return True
        case OverStreamNode(child=FromOneNode(source=StreamSourceNode(window=None))):
            return True
        case OverStreamNode(child=FromOneNode(source=ChangesSourceNode(window=None, child=child))):
            return _only_looks_back(child)
    return False


@dataclass(frozen=True)
class PartitionedNode(PhysicalNode, word="partitioned"):
    """The same several times, in threads: rows of each stream go by their key to one of the `parts`; those of the
    fragment to any, and of those that are copied to all. Some keys may be `spread`."""

    inner: PlainNode | ContinuousNode
    parts: int
    keys: Mapping[str, Code]
    fragment: str | None = None
    copied: frozenset[str] = frozenset()
    spread: SpreadKeys | None = None


JoinNode = SelectNode | WindowJoinNode | ClassicJoinNode
OrderedNode = InTimeOrderNode | AsTheyComeNode
PlainNode = SelectNode | WindowJoinNode | ClassicJoinNode | OrderedNode | OuterJoinNode | AsofJoinNode
RowsNode = PlainNode | ContinuousNode | PartitionedNode


# ---- the inputs of FROM below a changing answer ---------------------------------------------------------------------


class _Windowed:
    """Rows that live as long as a window says."""

    window: Window | None

    @property
    def announced(self) -> bool:
        """Whether the death of a row becomes known only later."""
        return is_counted(self.window)

    @property
    def in_turn(self) -> bool:
        """Whether rows die in the order they were born."""
        return dies_in_turn(self.window)


@dataclass(frozen=True)
class StreamSourceNode(_Windowed, PhysicalNode, word="window"):
    alias: str
    leaf: LeafNode
    window: Window | None
    boundary: Boundary
    made: Columns = ()


@dataclass(frozen=True)
class JoinSourceNode(_Windowed, PhysicalNode, word="rows_as_stream"):
    """A join that only grows, or a selection, as a stream; `time` names the column that is its event time."""

    alias: str
    inner: PlainNode
    leaves: tuple[LeafNode, ...]
    time: str
    window: Window | None
    boundary: Boundary

    @property
    def aliases(self) -> tuple[str, ...]:
        """What the inner join calls its streams, in the order of the leaves."""
        if isinstance(self.inner, OuterJoinNode | AsofJoinNode):
            return self.inner.aliases
        inner = self.inner.inner if isinstance(self.inner, OrderedNode) else self.inner
        return tuple(one.alias for one in inner.strategy.join.streams)


@dataclass(frozen=True)
class ChangesSourceNode(_Windowed, PhysicalNode, word="changes_as_stream"):
    """What enters or leaves an answer, as a stream. With `ordered` its rows have an order at equal times."""

    alias: str
    child: AnswerNode
    kind: ChangesKind
    time: str
    window: Window | None
    boundary: Boundary
    ordered: bool = False


@dataclass(frozen=True)
class ViewSourceNode(PhysicalNode, word="view"):
    """An answer whose rows live while they are in it."""

    alias: str
    child: AnswerNode

    # Not fields, as they have no annotation: the same for every view.
    announced = True
    in_turn = False


SourceNode = StreamSourceNode | JoinSourceNode | ChangesSourceNode | ViewSourceNode


# ---- changes of an answer -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FromOneNode(PhysicalNode, word="from_one"):
    """One input: rows chosen, as the columns asked for. `read` are the columns of the input; with `negative` its rows
    are held as they came, and chosen once more when they leave."""

    source: SourceNode
    read: pa.Schema
    predicates: tuple[Expression, ...]
    columns: Columns
    noticing: Noticing
    negative: bool


@dataclass(frozen=True)
class FromManyNode(PhysicalNode, word="join_holding_results"):
    """Several inputs: combinations, held until the first member leaves. `join` is as it was written. `joining` finds
    the combinations with, besides the `columns` asked for, what their lives are told from (`physical/hidden.py`):
    times, and the serial numbers of the `numbered` inputs."""

    join: Join
    sources: tuple[SourceNode, ...]
    joining: WindowJoinNode
    columns: Columns
    numbered: tuple[str, ...]
    noticing: Noticing

    @property
    def ranged(self) -> tuple[Input, ...]:
        """The inputs whose rows' deaths are known from the start."""
        announced = {source.alias for source in self.sources if source.announced}
        return tuple(one for one in self.join.streams if one.alias not in announced)

    @property
    def tables(self) -> tuple[tuple[str, Table], ...]:
        return tuple((one.alias, one.relation) for one in self.join.inputs if isinstance(one.relation, Table))


@dataclass(frozen=True)
class NegativeJoinNode(FromManyNode, word="join_by_negative_tuples"):
    """The same without holding combinations: when a row leaves, what it was joined with is found again. `held` are the
    columns of each stream that this takes."""

    held: tuple[tuple[str, pa.Schema], ...]


@dataclass(frozen=True)
class FromMatchedNode(PhysicalNode, word="outer_join_of_windows"):
    """An outer, semi or anti join: `combinations` are what matches, with the members' numbers in hidden columns. Where
    it is matched by one condition or another, those are by one, and `otherwise` find the same rows' by the others."""

    combinations: FromManyNode
    columns: Columns
    otherwise: tuple[WindowJoinNode, ...] = ()


@dataclass(frozen=True)
class ThresholdNode(PhysicalNode, word="rows_against_a_value"):
    """Rows compared with the one value of their key. `join` is as it was written; `keys` are those of the rows and of
    the values, the comparison has what is asked of the rows first."""

    join: Join
    rows: FromOneNode
    values: AnswerNode
    keys: tuple[tuple[Code, Code], ...]
    comparison: Comparison
    columns: Columns


@dataclass(frozen=True)
class FromGrowingNode(PhysicalNode, word="outer_join_of_rows"):
    """An outer, semi, anti or as-of join that only grows, over inputs that are not all streams as they come. `inner`
    has no sides of its own, and gives the event time of each row besides the columns asked for."""

    sources: tuple[SourceNode, ...]
    inner: OuterJoinNode | AsofJoinNode
    columns: Columns


@dataclass(frozen=True)
class GroupByNode(PhysicalNode, word="group_by"):
    """The child's columns are so many keys, then the arguments of the aggregates, each by its name. `fifo`: rows leave
    in the order in which they came. `final`: groups that have lost all their rows are complete, and stay in the
    answer; where these are of windows that end, `ends` are the keys that tell when, and before that they are withdrawn.
    `always`: everything is one group, which is in the answer from the first event of the streams below on,
    with rows or without."""

    child: AnswerNode
    keys: int
    aggregates: tuple[tuple[Aggregate, str | None], ...]
    having: Expression | None
    columns: Columns
    fifo: bool
    final: bool = False
    always: bool = False
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class EachStepNode(PhysicalNode, word="groups_at_each_step"):
    """All groups of HOP at every step, with the window that ends there."""

    child: AnswerNode
    window: Hop
    having: Expression | None
    columns: Columns


@dataclass(frozen=True)
class DistinctNode(PhysicalNode, word="distinct"):
    child: AnswerNode


@dataclass(frozen=True)
class SetOperationNode(PhysicalNode, word="set_operation"):
    kind: Literal["union", "except", "intersect"]
    all: bool
    left: AnswerNode
    right: AnswerNode


@dataclass(frozen=True)
class TogetherNode(PhysicalNode, word="streams_together"):
    """Several streams as one, in the order of their times, at equal times from the first to the last. Those that are
    `arrived` have an order of their own, others go by their values."""

    branches: tuple[AnswerNode, ...]
    arrived: tuple[bool, ...]


@dataclass(frozen=True)
class TopKNode(PhysicalNode, word="first_rows"):
    child: AnswerNode
    keys: tuple[SortKey, ...]
    limit: int | None
    offset: int


@dataclass(frozen=True)
class OverStreamNode(PhysicalNode, word="over_rows_of_a_stream"):
    """OVER by event time, over rows that come in time order and never leave."""

    child: AnswerNode
    calls: tuple[tuple[str, OverCall], ...]
    keep: Expression | None
    columns: Columns


@dataclass(frozen=True)
class OverChangingNode(PhysicalNode, word="over_rows_that_change"):
    """OVER over rows that come and go. With `top` only the first rows of a partition are worked out; where the child
    only `grows`, the others are not kept either."""

    child: AnswerNode
    calls: tuple[tuple[str, OverCall], ...]
    keep: Expression | None
    columns: Columns
    top: TopRows | None
    grows: bool


@dataclass(frozen=True)
class NetNode(PhysicalNode, word="net_changes"):
    """What an instant changes in the end: a row that leaves and enters at once says nothing."""

    child: AnswerNode


@dataclass(frozen=True)
class SnapshotsNode(PhysicalNode, word="snapshots"):
    """The whole answer, again and again, in an order if one was asked for."""

    child: AnswerNode
    every: Pace
    order: tuple[SortKey, ...] = ()


AnswerNode = (
    FromOneNode
    | FromManyNode
    | FromMatchedNode
    | ThresholdNode
    | FromGrowingNode
    | GroupByNode
    | EachStepNode
    | DistinctNode
    | SetOperationNode
    | TogetherNode
    | TopKNode
    | OverStreamNode
    | OverChangingNode
    | NetNode
    | SnapshotsNode
)
