"""By which column the streams of a continuous query may be cut, so that every part gives its share of the answer.

A *bucket key* is a column of every stream such that rows which meet, are compared or are counted together have
the same value in it: an equality of a join, a column that is grouped by, a column of DISTINCT or a set operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Stream, Table
from watersmeet.model.windows import Session, Window, is_counted
from watersmeet.physical.nodes import LeafNode
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Call, Column, Expression
from watersmeet.plan.nodes import (
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
    View,
    schema_of,
)
from watersmeet.plan.walks import children

Places = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class BucketKey:
    """For each stream, by its place among all of the query, the column; and the output columns that carry it."""

    streams: Places
    outputs: frozenset[str]


def choose_bucket_key(root: Node) -> dict[int, str] | None:
    """The column of each stream, by its place in the query from left to right; None: only the whole will do."""
    found = _keys(root, count())
    if not found:
        return None
    return dict(found[0].streams)


def bucket_codes(root: Node, leaves: Sequence[LeafNode]) -> dict[str, Code] | None:
    """The same by the names that the rows of each stream are pushed under, as what they are placed by."""
    key = choose_bucket_key(root)
    if key is None:
        return None
    return {
        leaf.name: Code(leaf.name, Column(leaf.name, key[place], leaf.stream.schema.field(key[place]).type))
        # From left to right is the order of the leaves.
        for place, leaf in enumerate(leaves)
    }


def _keys(node: Node, places: Iterator[int]) -> list[BucketKey]:
    match node:
        case Project(child=Join() as join, columns=columns):
            return [_named(key, columns) for key in _join_keys(join, places)]
        case Project(child=GroupBy(child=Join() as join, keys=grouped), columns=columns):
            found = [(key, shared) for key in _join_keys(join, places) if (shared := key.held_by(grouped))]
            return [_named(key.only(shared), columns) for key, shared in found]
        case Distinct(child=child):
            return [key for key in _keys(child, places) if key.outputs]
        case SetOperation(left=left, right=right):
            return _of_both(left, right, places)
        case Over(child=child):
            return [key for one in _keys(child, places) if (key := _kept_apart(one, node)) is not None]
        case Changes(kind="istream" | "dstream" | "complete" | "log", child=child):
            return _keys(child, places)
    # All rows are compared with each other, or sent at moments that depend on all, or nothing is known of the node.
    for child in children(node):
        # Asked all the same, so that the streams in it are counted and later ones keep their places.
        _keys(child, places)
    return []


def _kept_apart(key: BucketKey, over: Over) -> BucketKey | None:
    """A key by which every function of OVER keeps rows apart, under the names that it has afterwards."""
    for _, call in over.calls:
        if not any(isinstance(e, Column) and e.name in key.outputs for e in call.partition_by):
            return None
    names = (name for name, e in over.columns if isinstance(e, Column) and e.name in key.outputs)
    return BucketKey(key.streams, frozenset(names))


@dataclass(frozen=True)
class _JoinKey:
    """A key of a FROM: the columns that carry it, by alias, and where it lies in the streams."""

    columns: frozenset[tuple[str, str]]
    streams: Places

    def held_by(self, expressions: Sequence[Expression]) -> tuple[Column, ...]:
        return tuple(e for e in expressions if isinstance(e, Column) and (e.stream, e.name) in self.columns)

    def only(self, columns: Sequence[Column]) -> _JoinKey:
        return _JoinKey(frozenset((c.stream, c.name) for c in columns), self.streams)


def _named(key: _JoinKey, columns: Sequence[tuple[str, Expression]]) -> BucketKey:
    names = (name for name, e in columns if isinstance(e, Column) and (e.stream, e.name) in key.columns)
    return BucketKey(key.streams, frozenset(names))


def _of_both(left: Node, right: Node, places: Iterator[int]) -> list[BucketKey]:
    """A set operation compares whole rows: any column will do that both sides can be cut by."""
    mine, theirs = _keys(left, places), _keys(right, places)
    names, others = schema_of(left).names, schema_of(right).names
    found = []
    for one in mine:
        for other in theirs:
            shared = [a for a, b in zip(names, others, strict=True) if a in one.outputs and b in other.outputs]
            if shared:
                found.append(BucketKey((*one.streams, *other.streams), frozenset(shared)))
    return found


def _join_keys(join: Join, places: Iterator[int]) -> list[_JoinKey]:
    """Groups of equal columns that reach every input but the static tables, which every bucket has whole."""
    options = {one.alias: _input_keys(one, places) for one in join.inputs if not isinstance(one.relation, Table)}
    if len(options) == 1:
        ((alias, only),) = options.items()
        return [_JoinKey(frozenset({(alias, name)}), streams) for name, streams in only.items()]
    found = []
    for group in _equal_columns(join):
        chosen = {alias: [n for a, n in sorted(group) if a == alias and n in keys] for alias, keys in options.items()}
        if all(chosen.values()):
            # Of several columns that hold the key the first by name; they are equal in every row that matters.
            streams = tuple(place for alias, names in chosen.items() for place in options[alias][names[0]])
            found.append(_JoinKey(frozenset(_carrying(join, group)), streams))
    return found


def _carrying(join: Join, group: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The columns in which every row of an answer has the key: where a row has no partner, those of the partner have
    none. Where either may be missing, no column does."""
    if join.kind == "inner":
        return group
    always = {join.inputs[0].alias} if join.kind != "full" else set()
    return {(alias, name) for alias, name in group if alias in always}


def _input_keys(one: Input, places: Iterator[int]) -> dict[str, Places]:
    """The columns by which an input can be cut, and where each lies in the streams."""
    match one.relation:
        case Stream() as stream:
            place = next(places)
            plain = [field.name for field in stream.schema if not pa.types.is_nested(field.type)]
            if stream.versions is not None:  # versions of one key end each other
                plain = [name for name in plain if name in stream.versions.key]
            if stream.first is not None:  # duplicates must meet each other
                plain = [name for name in plain if name in stream.first.keys]
            keys: dict[str, Places] = {name: ((place, name),) for name in plain if name != stream.time}
        case Derived(plan=node) | View(plan=node):
            keys = {name: key.streams for key in _keys(node, places) for name in key.outputs}
        case Table():
            return {}
    return {name: where for name, where in keys.items() if _counts_apart(one.window, name)}


def _counts_apart(window: Window | None, column: str) -> bool:
    """A ROWS window counts over all rows, unless it counts by that very column; sessions are of all rows, too."""
    return not (is_counted(window) or isinstance(window, Session)) or column in getattr(window, "partition_by", ())


def _equal_columns(join: Join) -> list[set[tuple[str, str]]]:
    groups: list[set[tuple[str, str]]] = []
    for predicate in join.predicates:
        match predicate:
            # Equal values of two types may have different codes, and would then lie in different buckets.
            case Call(function="eq", args=(Column() as a, Column() as b)) if a.type == b.type:
                pair = {(a.stream, a.name), (b.stream, b.name)}
                touching = [group for group in groups if group & pair]
                groups = [group for group in groups if not group & pair] + [pair.union(*touching)]
    return groups
