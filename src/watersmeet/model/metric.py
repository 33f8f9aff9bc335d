"""What a metric is: a number about a run, with the words that document it and the way several of them become one.

The table of metrics is the fields of `operators.counters.Counted` and `runtime.metrics.Metrics`: each is declared once,
with `metric`, and both hosts, the listener and the documentation follow from that line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import field, fields
from typing import Any, Literal

from watersmeet.dataclass import dataclass

Stage = Literal["all", "first", "last"]
Where = Literal["both", "in-process", "spark"]

HELD = "_held"  # how names of work end that is not done but there
_METRIC = "metric"


@dataclass(frozen=True)
class Kind:
    """How values of one kind come together.

    beside: of two buckets, or stages, in one batch. after: the total so far and what the next batch brought.
    since: what an operator did between two looks at its counters. standing: as of now, so that a bucket's counts until
    it tells another. As columns, one number each, which Spark adds up; without them values travel as they are, in what
    each bucket tells.
    """

    words: str
    empty: Callable[[], Any]
    beside: Callable[[Any, Any], Any]
    after: Callable[[Any, Any], Any]
    since: Callable[[Any, Any], Any]
    to_columns: Callable[[Any], Sequence[int]] | None = None
    from_columns: Callable[..., Any] = int
    standing: bool = False


@dataclass(frozen=True)
class Metric:
    """A line of the table.

    if_any: told only where there is any. stage: where a query runs in several stages, which of them count. where: the
    hosts that tell it. columns: the names of its numbers among those that Spark adds up.
    """

    name: str
    words: str
    kind: Kind
    if_any: bool
    stage: Stage
    where: Where
    columns: tuple[str, ...]

    @property
    def on_spark(self) -> bool:
        return self.where != "in-process"


def known_sum(one: int | None, other: int | None) -> int | None:
    """
    >>> known_sum(1, 2), known_sum(1, None)
    (3, None)
    """
    return None if one is None or other is None else one + other


def sum_by_name(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """
    >>> sum_by_name({"a": 1, "b": 2}, {"b": 3})
    {'a': 1, 'b': 5}
    """
    return {name: one.get(name, 0) + other.get(name, 0) for name in dict.fromkeys((*one, *other))}


def most_by_name(one: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """
    >>> most_by_name({"a": 1, "b": 2}, {"b": 3, "c": -4})
    {'a': 1, 'b': 3, 'c': -4}
    """
    return {name: max(each[name] for each in (one, other) if name in each) for name in (*one, *other)}


def _done_by_name(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in now.items()}


def _largest(values: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(values.items(), key=lambda one: one[1], reverse=True)[:MOST_OF_ALL])


def _held(work: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in work.items() if name.endswith(HELD)}


def _all_texts(one: str, other: str) -> str:
    """
    >>> _all_texts("a; b", "b; c"), _all_texts("", "a")
    ('a; b; c', 'a')
    """
    return "; ".join(dict.fromkeys(text for both in (one, other) for text in both.split("; ") if text))


def _one_number(value: int) -> tuple[int]:
    return (int(value),)


def _now(before: Any, now: Any) -> Any:
    return now


def _either(one: bool, other: bool) -> bool:
    return one or other


def _add(one: Any, other: Any) -> Any:
    return one + other


COUNT = Kind("adds up", int, _add, _add, lambda before, now: now - before, _one_number)
# Columns are integers, so seconds travel as nanoseconds.
SECONDS = Kind(
    "adds up", float, _add, _add, lambda before, now: now - before,
    lambda seconds: (int(seconds * 1e9),), lambda nanoseconds: nanoseconds / 1e9,
)  # fmt: skip
# None where it is not known; a sum with such a part is not known either.
# The second column counts the parts that are not known, as Spark's sum over NULLs would pass over them.
KNOWN = Kind(
    "adds up, while all parts are known", int, known_sum, known_sum,
    lambda before, now: None if now is None else now - (before or 0),
    lambda value: (value or 0, int(value is None)), lambda value, unknown: None if unknown else value,
)  # fmt: skip
GAUGE = Kind("as of now, added up over buckets", int, _add, _now, _now, standing=True)
LATEST = Kind("as of now", lambda: None, _now, _now, _now)
FLAG = Kind("true once it is anywhere", bool, _either, _either, _now, _one_number, lambda anywhere: anywhere > 0)
TEXT = Kind("the latest", str, _all_texts, lambda before, now: now or before, _now)
BY_NAME = Kind("adds up by name", dict, sum_by_name, sum_by_name, _done_by_name)
BY_NAME_NOW = Kind("as of now, added up over buckets by name", dict, sum_by_name, _now, _now, standing=True)
# What there is no end of is forgotten where it is little.
MOST_OF_ALL = 64
LARGEST_BY_NAME = Kind(
    f"adds up by name; of the {MOST_OF_ALL} largest", dict,
    lambda one, other: _largest(sum_by_name(one, other)), lambda one, other: _largest(sum_by_name(one, other)),
    _done_by_name,
)  # fmt: skip
# A maximum told twice does no harm, so what happened since the last look needs no difference.
MOST_BY_NAME = Kind("the largest by name", dict, most_by_name, most_by_name, _now)
# Lists only grow at their end.
LIST = Kind("one after the other", list, _add, _add, lambda before, now: now[len(before) :])
WORK = Kind(
    f"adds up by name; names that end in `{HELD}` are as of now", dict, sum_by_name,
    lambda before, now: sum_by_name(before, now) | _held(now),
    lambda before, now: _done_by_name(before, now) | _held(now),
)  # fmt: skip


def metric(
    words: str,
    kind: Kind = COUNT,
    *,
    if_any: bool = False,
    stage: Stage = "all",
    where: Where = "both",
    columns: tuple[str, ...] | None = None,
    default: Any = None,
) -> Any:
    """A field of a dataclass that is a line of the table. columns: if their names are not the field's; none if it is
    told by each bucket instead. default: if it is not the kind's."""
    line = {"words": words, "kind": kind, "if_any": if_any, "stage": stage, "where": where, "columns": columns}
    # A copy for each, as a default that can be changed would be shared by all.
    return field(default_factory=kind.empty if default is None else lambda: copy(default), metadata={_METRIC: line})


def metrics_of(table: type[Any]) -> dict[str, Metric]:
    """The metrics that a dataclass declares, by name."""
    found = {}
    for one in fields(table):
        if _METRIC in one.metadata:
            line = dict(one.metadata[_METRIC])
            own = line.pop("columns")
            numbers = (one.name,) if line["kind"].to_columns is not None and own is None else own or ()
            found[one.name] = Metric(one.name, columns=numbers, **line)
    return found
