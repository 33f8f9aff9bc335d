"""What the parser hands to the binder: clauses as frozen values, scalar expressions as sqlglot trees.

Every piece carries its span, the (start, end) offsets into the original text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import reduce
from typing import Any, ClassVar, Literal

import pyarrow as pa
from sqlglot import exp

from watersmeet.dataclass import dataclass
from watersmeet.model.declaration import Setting
from watersmeet.model.declaration import Span as Span
from watersmeet.model.windows import Hop, Session, Window
from watersmeet.plan.memory import Memory

StreamWord = Literal["istream", "dstream", "rstream"]
SetKind = Literal["union", "except", "intersect"]
JoinWord = Literal["inner", "left", "right", "full", "semi", "anti", "asof", "asof_left"]
LengthUnit = Literal["us", "day", "week", "month"]
FillWord = Literal["locf", "interpolate", "keepnull", "constant"]
ConstraintKind = Literal["all", "pair", "directed", "path"]


@dataclass(frozen=True)
class Name:
    text: str
    span: Span


@dataclass(frozen=True)
class WindowClause:
    """`[RANGE …]` and its kin; partition columns are still names, and the time of a landmark is a text."""

    window: Window
    partition_by: tuple[Name, ...]
    span: Span
    landmark: Name | None = None


@dataclass(frozen=True)
class Constraint:
    """`WINDOW …` or `DWINDOW …` between streams."""

    kind: ConstraintKind
    streams: tuple[Name, ...]
    sizes_us: tuple[int, ...]
    span: Span


@dataclass(frozen=True)
class Length:
    """An interval as it stands in windows: so many days, weeks or months of the calendar, or microseconds, which are
    those of days that have 24 hours, too."""

    us: int
    unit: LengthUnit = "us"
    count: int = 0

    @property
    def days(self) -> int:
        return self.count * 7 if self.unit == "week" else self.count


@dataclass(frozen=True)
class WindowFunction:
    """`TUMBLE(…)`, `HOP(…)`, `CUMULATE(…)` or `SESSION(…)`; columns are still names, and the calendar has no zone yet.
    `time` is the column of DESCRIPTOR. `has_days`: as a size beside a slide that is shorter, so they have 24 hours."""

    window: Hop | Session
    partition_by: tuple[Name, ...]
    time: Name | None
    span: Span
    has_days: bool = False


@dataclass(frozen=True)
class FirstRows:
    """`DEDUPLICATE(…)`; columns are still names, none for all. `time` is the column of DESCRIPTOR."""

    within_us: int
    keys: tuple[Name, ...]
    time: Name | None
    span: Span


@dataclass(frozen=True)
class Fill:
    """How a column is filled between two rows: `LOCF(x)`, `INTERPOLATE(x)`, `KEEPNULL(x)` or `CONSTANT(x, 0)`."""

    how: FillWord
    column: Name
    value: exp.Expr | None = None


@dataclass(frozen=True)
class GapFillSyntax:
    """`GAP_FILL(…)`; columns are still names. `time` is the column that goes on by the step."""

    time: Name | None
    step: Length
    fills: tuple[Fill, ...]
    keys: tuple[Name, ...]
    span: Span


@dataclass(frozen=True)
class UnnestSyntax:
    """`UNNEST(list) [WITH ORDINALITY] AS name (entry, number)`; with `keeps` a row without entries is given, too."""

    values: exp.Expr
    columns: tuple[Name, ...]
    numbered: bool
    span: Span
    keeps: bool = False


@dataclass(frozen=True)
class ValuesSyntax:
    """`VALUES (1, 'a'), (2, 'b')`; one row without columns where a SELECT has no FROM."""

    rows: tuple[tuple[exp.Expr, ...], ...]
    span: Span

    word: ClassVar[str] = "VALUES"


@dataclass(frozen=True)
class SeriesSyntax:
    """`GENERATE_SERIES(1, 10)` with its last value, or `RANGE(1, 10)` without."""

    word: Literal["GENERATE_SERIES", "RANGE"]
    args: tuple[exp.Expr, ...]
    span: Span


@dataclass(frozen=True)
class ChangesSyntax:
    """`CHANGES(view)`: the log of what enters and leaves an answer."""

    of: Name | QuerySyntax
    span: Span


@dataclass(frozen=True)
class SourceSyntax:
    """One entry of FROM: a name or a subquery, with window and alias, what makes windows of its rows, and the time of
    FOR SYSTEM_TIME AS OF."""

    relation: Name | QuerySyntax | ChangesSyntax | ValuesSyntax | SeriesSyntax
    alias: Name | None
    window: WindowClause | None
    span: Span
    function: WindowFunction | None = None
    as_of: exp.Expr | None = None
    first: FirstRows | None = None
    unnest: UnnestSyntax | None = None
    columns: tuple[Name, ...] = ()
    """`AS t (a, b)`."""
    lateral: bool = False
    """Whether it is a query that sees what stands before it."""
    gaps: GapFillSyntax | None = None

    @property
    def named(self) -> Name | None:
        """What it is called: by an alias, or as what it reads."""
        read = self.relation.of if isinstance(self.relation, ChangesSyntax) else self.relation
        return self.alias or (read if isinstance(read, Name) else None)

    @property
    def shown(self) -> str:
        """The name by which its columns are asked for."""
        return "subquery" if self.named is None else self.named.text


@dataclass(frozen=True)
class JoinSyntax:
    """Two parts of FROM, joined. Without a condition all of their rows meet: a comma, or CROSS JOIN (`crossed`).
    `using` are columns that both have, which must be equal and become one."""

    kind: JoinWord
    left: FromSyntax
    right: FromSyntax
    condition: exp.Expr | None
    span: Span
    using: tuple[Name, ...] = ()
    crossed: bool = False
    natural: bool = False
    """Whether it is a NATURAL JOIN, which is refused once it is known what would do."""


FromSyntax = SourceSyntax | JoinSyntax


def sources_in(tree: FromSyntax) -> tuple[SourceSyntax, ...]:
    """The entries of FROM, from left to right."""
    return (tree,) if isinstance(tree, SourceSyntax) else (*sources_in(tree.left), *sources_in(tree.right))


def joins_in(tree: FromSyntax) -> tuple[JoinSyntax, ...]:
    """The joins of FROM, in the order of their conditions."""
    return () if isinstance(tree, SourceSyntax) else (*joins_in(tree.left), *joins_in(tree.right), tree)


@dataclass(frozen=True)
class Star:
    """`*`, or `a.*`."""

    source: Name | None
    span: Span


@dataclass(frozen=True)
class SelectItem:
    expression: exp.Expr
    alias: Name | None
    span: Span
    inside: Name | None = None
    """What its own query calls it, where a list of columns has given it another name."""

    @property
    def known_as(self) -> Name | None:
        return self.alias if self.inside is None else self.inside


@dataclass(frozen=True)
class OrderKey:
    expression: exp.Expr
    descending: bool
    nulls_first: bool = False


@dataclass(frozen=True)
class LimitSyntax:
    """`LIMIT n OFFSET m`, or `OFFSET m ROWS FETCH FIRST n ROWS ONLY`: all behind the first m where `rows` is None."""

    rows: int | None
    offset: int
    ties: bool
    """Whether rows that ORDER BY does not tell from the last one come, too."""
    span: Span


@dataclass(frozen=True)
class SelectSyntax:
    stream_word: StreamWord | None
    distinct: bool
    items: tuple[SelectItem | Star, ...]
    tree: FromSyntax
    where: exp.Expr | None
    constraints: tuple[Constraint, ...]
    group_by: tuple[exp.Expr, ...]
    having: exp.Expr | None
    every: Length | None
    span: Span
    grouping_sets: tuple[tuple[int, ...], ...] | None = None
    """Where there are several ways to group, or all rows are one group: by the positions of the keys, each of them."""
    named_windows: tuple[tuple[Name, exp.Window], ...] = ()
    """`WINDOW w AS (…)`."""
    qualify: exp.Expr | None = None
    distinct_on: tuple[exp.Expr, ...] = ()
    """`DISTINCT ON (…)`: of the rows that are alike in these the first by ORDER BY, which stands behind the SELECT."""
    chooses: str | None = None
    """As what QUALIFY was written, if it was not."""
    window_names: tuple[tuple[str, str], ...] = ()
    """Under which names a window that is grouped by may be ordered by: itself, or one of its columns."""

    @property
    def is_grouped(self) -> bool:
        """Whether it has a GROUP BY."""
        return bool(self.group_by) or self.grouping_sets is not None

    @property
    def selected(self) -> list[exp.Expr]:
        """The expressions of the select list."""
        return [item.expression for item in self.items if isinstance(item, SelectItem)]

    @property
    def sources(self) -> tuple[SourceSyntax, ...]:
        return sources_in(self.tree)

    @property
    def on(self) -> tuple[exp.Expr, ...]:
        """The conditions of the joins."""
        written = (join.condition for join in joins_in(self.tree))
        return tuple(condition for condition in written if condition is not None)

    @property
    def joins_inside_only(self) -> bool:
        plain = all(join.kind == "inner" and not join.using for join in joins_in(self.tree))
        return plain and all(source.as_of is None for source in self.sources)


@dataclass(frozen=True)
class Compound:
    kind: SetKind
    all: bool
    left: Body
    right: Body
    span: Span


@dataclass(frozen=True)
class QuerySyntax:
    """A whole query, or a parenthesised one inside a set operation or FROM."""

    body: Body
    order_by: tuple[OrderKey, ...]
    limit: LimitSyntax | None
    every: Length | None
    settings: tuple[Setting, ...]
    span: Span
    named: tuple[NamedSyntax, ...] = ()
    emit: Setting | None = None  # EMIT CHANGES of any answer, EMIT FINAL of windows


@dataclass(frozen=True)
class NamedSyntax:
    """`name (columns) AS (query)` of WITH."""

    name: Name
    columns: tuple[Name, ...]
    query: QuerySyntax


Body = SelectSyntax | Compound | QuerySyntax


def stream_word(body: Body) -> StreamWord | None:
    """ISTREAM, DSTREAM or RSTREAM of the first SELECT, which holds for the whole answer."""
    match body:
        case SelectSyntax(stream_word=word):
            return word
        case Compound(left=first) | QuerySyntax(body=first):
            return stream_word(first)


@dataclass(frozen=True)
class CreateStream:
    """`schema` is None when the column list is left out: it then comes from the source."""

    name: str
    schema: pa.Schema | None
    options: Mapping[str, str]
    span: Span
    name_span: Span
    settings: tuple[Setting, ...] = field(default=(), repr=False)
    replace: bool = False


@dataclass(frozen=True)
class CreateTable:
    name: str
    schema: pa.Schema | None
    options: Mapping[str, str]
    span: Span
    name_span: Span
    settings: tuple[Setting, ...] = field(default=(), repr=False)
    replace: bool = False


@dataclass(frozen=True)
class CreateView:
    name: str
    columns: tuple[Name, ...]
    query: QuerySyntax
    span: Span
    name_span: Span
    replace: bool = False


@dataclass(frozen=True)
class CreateSink:
    """`query`: None for a sink that takes what goes beside answers."""

    name: str
    options: Mapping[str, str]
    query: QuerySyntax | None
    span: Span
    name_span: Span
    settings: tuple[Setting, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Explain:
    """`EXPLAIN [ANALYZE] query`, or with its options in parentheses."""

    query: QuerySyntax
    analyze: bool
    format: Literal["text", "json"]
    span: Span


@dataclass(frozen=True)
class SetEngine:
    """`SET engine = 'local'`: where a script is to run."""

    engine: Literal["local", "spark"]
    span: Span


@dataclass(frozen=True)
class SetMemory:
    """`SET memory = '64 MB'`: what the joins of a script may keep together."""

    memory: Memory
    span: Span


Statement = CreateStream | CreateTable | CreateView | CreateSink | QuerySyntax | Explain | SetEngine | SetMemory


class Duration(exp.Expression, exp.Condition):
    """An interval in microseconds, inside an expression."""

    arg_types: ClassVar[dict[str, bool]] = {"us": True}


class Months(exp.Expression, exp.Condition):
    """An interval of months, which has no length of its own, inside an expression."""

    arg_types: ClassVar[dict[str, bool]] = {"months": True}


class Constant(exp.Expression, exp.Condition):
    """A value that was given for a place in the text, inside an expression."""

    arg_types: ClassVar[dict[str, bool]] = {"literal": True}


class Bound(exp.Expression, exp.Condition):
    """What has been bound already, where it stands inside of something else."""

    arg_types: ClassVar[dict[str, bool]] = {"bound": True}


class Subquery(exp.Expression, exp.Condition):
    """A query inside an expression."""

    arg_types: ClassVar[dict[str, bool]] = {"query": True}


class JsonAccess(exp.Expression, exp.Condition):
    """`j -> path` and, with the value as text, `j ->> path`. by_steps: PostgreSQL's `j #> '{a,b}'`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "as_text": False, "by_steps": False}


class Xor(exp.Expression, exp.Binary):
    """`x # y` of bits."""


class AsDate(exp.Expression, exp.Condition):
    """What TO_DATE stands for: a cast to DATE that was not written as one."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class AllKeys(exp.Expression, exp.Condition):
    """`GROUP BY ALL`: by all that is selected and is no aggregate."""

    arg_types: ClassVar[dict[str, bool]] = {}


class WindowCondition(exp.Expression, exp.Condition):
    """A window constraint written as a conjunct of WHERE or ON."""

    arg_types: ClassVar[dict[str, bool]] = {"constraint": True}


def locate(node: exp.Expr, span: Span) -> None:
    # One node comes back through many levels of the parser, and the innermost knows its extent: it stays.
    node.meta.setdefault("span", span)


def name_parts(column: exp.Column) -> list[exp.Expr]:
    """The names between the dots, from left to right."""
    return [part for key in ("catalog", "db", "table", "this") if (part := column.args.get(key)) is not None]


def all_of(conditions: Iterable[exp.Expr | None]) -> exp.Expr | None:
    """Those that there are, joined by AND; None if there are none."""
    written = [one for one in conditions if one is not None]
    return reduce(lambda one, other: exp.And(this=one, expression=other), written) if written else None


def span_of(node: exp.Expr) -> Span | None:
    """Where an expression stands in the text: as recorded, else around its parts."""
    known: Any = node.meta.get("span")
    if known is not None:
        return (known[0], known[1])
    # Set by sqlglot on names and literals; its end is the last character, ours the one behind it.
    if "start" in node.meta and "end" in node.meta:
        return (node.meta["start"], node.meta["end"] + 1)
    parts = [span for child in node.iter_expressions() if (span := span_of(child)) is not None]
    return (min(s for s, _ in parts), max(e for _, e in parts)) if parts else None
