"""Which trees of binary window joins are associative: both trees of each form, and a search for where they differ.

A tree is a query, and what it gives is what the reference says. The search goes through tiny instances, smallest first,
so that what it finds is as small as a counterexample can be. Where it finds none, the form has an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import combinations_with_replacement, product
from random import Random

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.reference.join import answer
from watersmeet.sql import bind

Instance = tuple[tuple[int, ...], ...]  # of a, b and c the times of their rows, in seconds
Answer = list[tuple[object, ...]]

STREAMS = "abc"
EPOCH = datetime(1970, 1, 1)
LATEST = 4  # seconds; with windows of 2 s that is twice as long
LARGER = 40  # instances of four rows and of five that are drawn where all of three rows agree
SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("ts", pa.timestamp("us"))])


@dataclass(frozen=True)
class Form:
    """Three streams joined in two trees. `argument` is why they agree, or what it takes to part them."""

    name: str
    left: str
    right: str
    associative: bool
    argument: str


@dataclass(frozen=True)
class Counterexample:
    """Rows by stream, and what both trees make of them, as the times of members; - for none."""

    instance: Instance
    left: Answer
    right: Answer

    def __str__(self) -> str:
        rows = ", ".join(f"{name}{at}" for name, times in zip(STREAMS, self.instance, strict=True) for at in times)
        return f"{rows}: {_shown(self.left)} against {_shown(self.right)}"


def _restamped(window: str, constraint: str = "") -> tuple[str, str]:
    """A result of the inner join is a row of the newest of its times, with a window of its own."""
    inner = "(SELECT ISTREAM {0}.ts AS {0}, {1}.ts AS {1} FROM {0}{w}, {1}{w} WHERE {0}.k = {1}.k{c}) AS {0}{1}{w}"
    between = constraint and f" {constraint}"
    ab = inner.format("a", "b", w=window, c=between.format("a", "b"))
    bc = inner.format("b", "c", w=window, c=between.format("b", "c"))
    left = f"SELECT ab.a, ab.b, c.ts AS c FROM {ab}, c{window}{between.format('ab', 'c')}"
    return left, f"SELECT a.ts AS a, bc.b, bc.c FROM a{window}, {bc}{between.format('a', 'bc')}"


def _nested(window: str = "", constraint: str = "", kinds: tuple[str, str] = ("", "")) -> tuple[str, str]:
    """Joins in parentheses: members keep their times, and conditions are between members."""
    columns = "SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM"
    one, other = (f"{kind} JOIN".strip() for kind in kinds)
    a, b, c = (f"{name}{window}" for name in STREAMS)
    left = f"{columns} ({a} {one} {b} ON a.k = b.k) {other} {c} ON b.k = c.k {constraint}"
    return left, f"{columns} {a} {one} ({b} {other} {c} ON b.k = c.k) ON a.k = b.k {constraint}"


def _views(window: str) -> tuple[str, str]:
    """The inner join as a relation that changes: a result is there as long as all its members are."""
    inner = "(SELECT {0}.ts AS {0}, {1}.ts AS {1}, {0}.k AS k FROM {0}{w}, {1}{w} WHERE {0}.k = {1}.k) AS {0}{1}"
    ab, bc = inner.format("a", "b", w=window), inner.format("b", "c", w=window)
    left = f"SELECT ab.a, ab.b, c.ts AS c FROM {ab}, c{window} WHERE ab.k = c.k"
    return left, f"SELECT a.ts AS a, bc.b, bc.c FROM a{window}, {bc} WHERE a.k = bc.k"


RANGE, ROWS = " [RANGE 2 SECONDS]", " [ROWS 2]"
PAIRS = "WINDOW (a, b) = 2 SECONDS AND WINDOW (b, c) = 2 SECONDS"
ALL_PAIRS = f"{PAIRS} AND WINDOW (a, c) = 3 SECONDS"
DIRECTED = "DWINDOW (a, b) = 2 SECONDS AND DWINDOW (b, c) = 2 SECONDS"
CONJUNCTION = "both trees ask for the same bounds between the same members, and AND does not mind the order"
ONE_STAMP = "a result has one time, so the next join cannot see how old its other member is"
LIVES = "a result lives from the last birth to the first death of its members; max and min do not mind the order"
# A row of one time: K05's own operator, and every join whose results are rows of a stream again.
RESTAMPED = (
    Form("RANGE, results stamped anew", *_restamped(RANGE), False, ONE_STAMP),
    Form(
        "ROWS, results stamped anew",
        *_restamped(ROWS),
        False,
        "a row that meets two others has two results, which push older ones out of the window",
    ),
    Form("form 1, results stamped anew", *_restamped("", "WINDOW = 2 SECONDS"), False, ONE_STAMP),
    Form(
        "directed, results stamped anew",
        *_restamped("", "DWINDOW ({0}, {1}) = 2 SECONDS"),
        False,
        "the left tree measures from b, its newest, as it should; the right one measures to c instead of b",
    ),
)
# Members with times of their own: the joins of this language.
BY_MEMBERS = (
    Form("RANGE, by members", *_nested(RANGE), True, CONJUNCTION),
    Form("ROWS, by members", *_nested(ROWS), True, "each member is asked whether it is among the last at the newest's"),
    Form("form 1, by members", *_nested(constraint="WINDOW = 2 SECONDS"), True, CONJUNCTION),
    Form("form 2, by members", *_nested(constraint=ALL_PAIRS), True, CONJUNCTION),
    Form("form 3, by members", *_nested(constraint=PAIRS), True, CONJUNCTION),
    Form("directed, by members", *_nested(constraint=DIRECTED), True, CONJUNCTION),
    Form(
        "path, by members",
        *_nested(constraint="WINDOW PATH (a, b, c) = (2 SECONDS, 2 SECONDS)"),
        True,
        "both directions are asked of whole combinations; of pairs one might go forth and one back",
    ),
    Form("RANGE, as relations", *_views(RANGE), True, LIVES),
    Form("ROWS, as relations", *_views(ROWS), True, LIVES),
    Form("RANGE SLIDE, as relations", *_views(" [RANGE 2 SECONDS SLIDE 1 SECOND]"), True, LIVES),
)
OUTER = (
    Form(
        "LEFT and LEFT, form 3",
        *_nested(constraint=PAIRS, kinds=("LEFT", "LEFT")),
        True,
        "the condition between b and c rejects rows without b, as for relations",
    ),
    Form(
        "inner and LEFT, form 3",
        *_nested(constraint=PAIRS, kinds=("", "LEFT")),
        True,
        "who has no c is told by b alone, with or without a",
    ),
    Form(
        "LEFT and inner, RANGE",
        *_nested(RANGE, kinds=("LEFT", "")),
        False,
        "the inner join outside drops what the LEFT join inside has kept",
    ),
    Form(
        "FULL and FULL, form 3",
        *_nested(constraint=PAIRS, kinds=("FULL", "FULL")),
        True,
        "both conditions reject rows without b",
    ),
    Form(
        "LEFT and LEFT, RANGE",
        *_nested(RANGE, kinds=("LEFT", "LEFT")),
        False,
        "windows of streams bound a and c too, and who is not there bounds nobody",
    ),
    Form(
        "inner and LEFT, RANGE",
        *_nested(RANGE, kinds=("", "LEFT")),
        False,
        "windows of streams bound a and c too: inside, c is told missing or not before a is known",
    ),
    Form(
        "inner and LEFT, form 1",
        *_nested(constraint="WINDOW = 2 SECONDS", kinds=("", "LEFT")),
        False,
        "the bound between a and c belongs to the LEFT join in one tree, and to the inner one in the other",
    ),
)
FORMS: tuple[Form, ...] = (*RESTAMPED, *BY_MEMBERS, *OUTER)


def counterexample(form: Form, *, all_of_them: bool | None = None, seed: int = 1) -> Counterexample | None:
    """The smallest instance on which both trees differ: fewest rows, then the earliest times.

    all_of_them: go through all instances of up to five rows, which takes half a minute where there is none; by default
    that is done for forms that are not associative, of others some are drawn.
    """
    catalog = Catalog()
    for name in STREAMS:
        catalog.add(Stream(name, SCHEMA, "ts"))
    plans = [bind(sql, catalog) for sql in (form.left, form.right)]
    drawn = None if (not form.associative if all_of_them is None else all_of_them) else LARGER
    for instance in instances(drawn, seed):
        tables = dict(zip(STREAMS, map(_table, instance), strict=True))
        left, right = (sorted(map(_seconds, answer(plan, tables)), key=str) for plan in plans)
        if left != right:
            return Counterexample(instance, left, right)
    return None


def instances(drawn: int | None = None, seed: int = 1) -> Iterator[Instance]:
    """All with a row of each stream; then with two of one stream, and of two, all of them or so many drawn.

    >>> next(instances())
    ((0,), (0,), (0,))
    """
    yield from _of_sizes([(1, 1, 1)], LATEST)
    for sizes in ([(2, 1, 1), (1, 2, 1), (1, 1, 2)], [(2, 2, 1), (2, 1, 2), (1, 2, 2)]):
        larger = _of_sizes(sizes, LATEST - 1)
        if drawn is not None:
            larger = Random(seed).sample(larger, drawn)
        yield from larger


def _of_sizes(sizes: Sequence[tuple[int, ...]], latest: int) -> list[Instance]:
    """With so many rows of each stream, the earliest first."""
    found = [
        instance
        for counts in sizes
        for instance in product(*(combinations_with_replacement(range(latest + 1), count) for count in counts))
    ]
    return sorted(found, key=lambda instance: max(times[-1] for times in instance))


def table_of_forms(forms: Sequence[Form] = FORMS) -> str:
    """A line for each form in Markdown: whether it is associative, the smallest counterexample, and the reason."""
    lines = ["| join | associative | the smallest counterexample | because |", "|---|---|---|---|"]
    for form in forms:
        found = counterexample(form)
        lines.append(f"| {form.name} | {'no' if found else 'yes'} | {found or '-'} | {form.argument} |")
    return "\n".join(lines)


# ---- K05's own operator ----------------------------------------------------------------------------------------------

Composite = tuple[tuple[int, ...], int]  # the times of members, and the one time that stands for them
STAMPS: dict[str, Callable[[int, int], int]] = {
    "the newest member's": max,
    "the oldest member's": min,
    "the left member's": lambda left, right: left,
    "the right member's": lambda left, right: right,
}
STRICT_S = 2  # K05: a row joins one that is less than this older


def k05_join(
    left: Sequence[Composite], right: Sequence[Composite], stamp: Callable[[int, int], int]
) -> list[Composite]:
    """K05, Section 1, over rows that were joined before: each has one time, and the older one's window counts.

    >>> k05_join([((0,), 0)], [((1,), 1), ((2,), 2)], max)
    [((0, 1), 1)]
    """
    return [((*one, *other), stamp(at, then)) for one, at in left for other, then in right if abs(at - then) < STRICT_S]


def k05_counterexample(stamp: Callable[[int, int], int]) -> Counterexample | None:
    """Three rows that K05's join treats differently as (a, b), c and as a, (b, c)."""
    for instance in instances():
        a, b, c = ([((at,), at) for at in times] for times in instance)
        trees = k05_join(k05_join(a, b, stamp), c, stamp), k05_join(a, k05_join(b, c, stamp), stamp)
        left, right = (sorted((members for members, _ in tree), key=str) for tree in trees)
        if left != right:
            return Counterexample(instance, list(left), list(right))
    return None


def table_of_stamps() -> str:
    """In Markdown, for each time that could stand for a result of K05's join."""
    lines = ["| a result's time | associative | the smallest counterexample |", "|---|---|---|"]
    for name, stamp in STAMPS.items():
        found = k05_counterexample(stamp)
        lines.append(f"| {name} | {'no' if found else 'yes'} | {found or '-'} |")
    return "\n".join(lines)


def _table(times: Sequence[int]) -> pa.Table:
    at = pa.array([second * 1_000_000 for second in times], pa.timestamp("us"))
    return pa.table(
        [pa.array(range(len(times)), pa.int64()), pa.array([1] * len(times), pa.int64()), at], schema=SCHEMA
    )


def _seconds(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(int((one - EPOCH).total_seconds()) if isinstance(one, datetime) else one for one in row)


def _shown(answer: Answer) -> str:
    return (
        " ".join("(" + ", ".join("-" if one is None else str(one) for one in row) + ")" for row in answer) or "nothing"
    )
