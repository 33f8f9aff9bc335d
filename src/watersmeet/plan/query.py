"""A whole query: its root node with its options, and what these ask of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import moves_in_steps
from watersmeet.plan.expressions import SortKey
from watersmeet.plan.frequencies import Frequencies
from watersmeet.plan.method import Method
from watersmeet.plan.nodes import (
    AT,
    LOG_FIELDS,
    OP,
    Changes,
    Distinct,
    GroupBy,
    Join,
    Node,
    Over,
    Project,
    SetOperation,
    TopK,
    schema_of,
)
from watersmeet.plan.options import Options
from watersmeet.plan.shapes import SelectedJoin, is_monotone, plain_join
from watersmeet.plan.shedding import Shedding
from watersmeet.plan.spilling import Spilling
from watersmeet.plan.walks import has_windows_that_step, relations_below

Kind = Literal["rows", "changes", "inserts", "deletes", "snapshots"]


_KINDS: dict[str, Kind] = {"istream": "inserts", "dstream": "deletes", "rstream": "snapshots", "complete": "rows"}


@dataclass(frozen=True)
class Plan:
    """A whole query: its root node, its options and the text it came from. `says_less`: whether that may name views,
    without which it says less than the plan, or is about rows that it says itself."""

    root: Node
    options: Options
    sql: str = ""
    order: tuple[SortKey, ...] = ()
    """The order in which the whole answer is given, wherever it is given whole: that of ORDER BY."""
    says_less: bool = False
    frequencies: Frequencies = ()
    """The tables that say how often the keys of its streams come."""

    @property
    def relations(self) -> tuple[Stream | Table, ...]:
        """All that is read: what is joined, as often as it is, and what only says how often keys come."""
        return (*relations_below(self.root), *(table for _, table in self.frequencies))

    @property
    def plain_join(self) -> SelectedJoin | None:
        """The join that this query is, if it is one of streams and static tables and nothing else."""
        return plain_join(self.root)

    @contextmanager
    def pointing_at_options(self) -> Iterator[None]:
        """An error of an option that shows only when the query is planned or built points at it in the text too."""
        try:
            yield
        except OptionError as error:
            raise error.at(self.sql, self.options.places.get(error.option or "")) from None

    @property
    def method(self) -> Method:
        return method_of(self.root, self.options)

    @property
    def shedding(self) -> Shedding | None:
        found = shedding_of(self.root, self.options)
        return None if found is None else replace(found, frequencies=self.frequencies)

    @property
    def spilling(self) -> Spilling | None:
        return spilling_of(self.root, self.options)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the select list."""
        return schema_of(self.root)

    @property
    def kind(self) -> Kind:
        """What the query gives: the rows of a join that only grows, the changes of an answer (all of them, what
        enters it, what leaves it), or the whole answer again and again."""
        if isinstance(self.root, Changes):
            return _KINDS[self.root.kind]
        return "rows" if is_monotone(self.root) else "changes"

    @property
    def output_schema(self) -> pa.Schema:
        """The columns that come out: those of the select list; where the answer changes, before them the instant
        `_ts`, and before that, in a change log, `_op`: `+` or `-`."""
        return pa.schema([*(LOG_FIELDS[name] for name in log_columns(self.kind)), *self.schema])


def log_columns(kind: Kind) -> tuple[str, ...]:
    """The columns that stand before the select list."""
    match kind:
        case "rows":
            return ()
        case "changes":
            return (OP, AT)
    return (AT,)


def method_of(root: Node, options: Options) -> Method:
    """How the options ask the join of a plan to run; other plans take no such options."""
    match root:
        case Project(child=Join(inputs=inputs, kind="inner")):
            tables = [one.alias for one in inputs if one.is_table]
            method = Method.of(options, [one.alias for one in inputs if not one.is_table], tables)
            # The papers' joins read streams and tables; with a query in FROM, or windows that step, the engine's own
            # runs, in any order.
            plain = all(isinstance(one.relation, Stream | Table) and not moves_in_steps(one.window) for one in inputs)
            return Method.of_no_join(options) if method.is_classic and not plain else method
    return Method.of_no_join(options)


def shedding_of(root: Node, options: Options) -> Shedding | None:
    """What the options let a plan forget early: rows of a plain join of streams, and nothing else."""
    plain = plain_join(root)
    if plain is None:
        return Shedding.of_no_join(options, _why_not_shed(root))
    return Shedding.of(options, [one.alias for one in plain.join.streams])


def spilling_of(root: Node, options: Options) -> Spilling | None:
    """What the options let a plan put to disk: rows of a plain join of streams."""
    plain = plain_join(root)
    return None if plain is None else Spilling.of(options, [one.alias for one in plain.join.streams])


def check_options(root: Node, options: Options) -> None:
    """Refuse an option that the query has no use for, rather than pass it over."""
    method_of(root, options)
    shedding_of(root, options)
    spilling_of(root, options)
    if options.has("emit") and not has_windows_that_step(root):
        raise OptionError(
            "option emit says how windows of TUMBLE, HOP and SESSION are given, and the query has none",
            hint="leave it out: an answer over [RANGE …] comes as its changes anyway",
            option="emit",
        )


def _why_not_shed(root: Node) -> str:
    match root:
        case Changes(child=child):
            return _why_not_shed(child)
        case SetOperation(kind=kind) if kind.startswith("except"):
            return "EXCEPT gives rows that must not be there once a row to take away is forgotten"
        case GroupBy() | Project(child=GroupBy()):
            return "an aggregate over an incomplete join is a wrong number, not a part of the right answer"
        case Distinct():
            return "DISTINCT says when rows leave the answer, and rows that are forgotten would leave it too early"
        case Over():
            return "OVER looks at the rows around a row, and would take others once some are forgotten"
        case TopK():
            return "ORDER BY … LIMIT gives rows that do not belong there once better ones are forgotten"
    return "only a plain join of streams gives a part of its answer when rows are forgotten; this query asks for more"
