"""What ON of an as-of join says: by whose time partners are chosen, which way they are looked for, and how far."""

from __future__ import annotations

from collections.abc import Iterable

from watersmeet.dataclass import dataclass
from watersmeet.errors import WindowError
from watersmeet.model.windows import Bound, Each, Range, RowsWindow, Stepped, SteppedRows, is_counted
from watersmeet.plan.nodes import Input
from watersmeet.sql.enriching import enriched, may_have_several
from watersmeet.sql.join_tree import Leaf, Outer
from watersmeet.sql.scope import Text


@dataclass(frozen=True)
class Reach:
    """Of an as-of join, from the time of the stream that asks: to which instant partners are to be near, how much older
    than that time one may be, and how much later."""

    up_to_us: int
    within_us: int | None
    until_us: int | None


def asof_time(outer: Outer, text: Text) -> Input:
    """The stream on the left side by whose time the partners are chosen."""
    (name,) = (one.alias for one in outer.right.visible)
    named = {end for bound in outer.found.bounds for end in (bound.earlier, bound.later)}
    named = (named | {end for nearest in outer.found.nearest for end in nearest.ends}) - {name}
    timed = {one.alias: one for one in outer.left.visible if one.time is not None}
    if not timed:
        raise refused_asof(outer, text, "goes by the time of a stream, which stands on its left side")
    if len(named) > 1:
        raise refused_asof(
            outer, text, f"goes by the time of one stream, not by those of {' and '.join(sorted(named))}"
        )
    if not named:
        raise refused_asof(outer, text, "needs a condition that says up to when rows count, or from when on")
    if len(outer.found.nearest) > 1:
        raise refused_asof(outer, text, "looks for the row that is nearest to one time, and NEAREST stands twice")
    first = timed[named.pop()]
    if first.alias in outer.left.nullable:
        raise refused_asof(
            outer,
            text,
            f"goes by the time of {first.alias}, of which a row may be missing",
            "go by the time of another stream",
        )
    if len(outer.left.visible) > 1 and isinstance(outer.right.visible[0].window, Range):
        raise refused_asof(
            outer,
            text,
            f"with {name} [RANGE …] has one stream on its left side",
            f"say in ON how old a row of {name} may be: {name}.ts >= {first.alias}.{first.time} - INTERVAL 1 HOUR",
        )
    return first


def asof_reach(outer: Outer, one: Input, other: Input, crossing: Iterable[Bound], text: Text) -> Reach:
    """What ON says decides which way partners are looked for; windows only how far."""
    found, first, name = outer.found, one.alias, other.alias
    latest, oldest = (_least_bound(found.bounds, *ends) for ends in ((first, name), (name, first)))
    until, within = (_least_bound(crossing, *ends) for ends in ((first, name), (name, first)))
    near = found.nearest[0].shift_us(first) if found.nearest else None
    mine, theirs = f"{first}.{one.time}", f"{name}.{other.time}"
    if near is None and latest is not None and oldest is not None and latest > 0 < oldest:
        raise refused_asof(
            outer,
            text,
            f"counts rows of {name} before and after the time of {first}, and it is not said which is meant",
            f"add NEAREST({theirs}, {mine}) for the nearest of them; or say one bound in ON, for the latest up to "
            "it or the first from it on, and the other in WHERE",
        )
    forward = near is None and (latest is None or (oldest is not None and latest > 0))
    if forward or (near is not None and within is not None and -within >= near):
        assert within is not None
        reach = Reach(-within, within, until)
    elif near is None or (until is not None and until <= near):
        assert until is not None
        reach = Reach(until, within, until)
    else:
        reach = Reach(near, within, until)
    if reach.until_us is None and outer.kind == "asof_left":
        raise refused_asof(
            outer,
            text,
            f"cannot tell that a row of {first} has no partner: nothing bounds how much later one may come",
            f"add AND {theirs} <= {mine} + INTERVAL 1 HOUR; or write ASOF JOIN, which gives rows with a partner",
        )
    return reach


def check_each_row_counts(outer: Outer, text: Text) -> None:
    """Rows are given once, with their partner, whatever else comes: which are the last n is not asked then."""
    for one in outer.left.visible:
        if is_counted(one.window) or isinstance(one.window, Stepped):
            raise refused_asof(
                outer,
                text,
                f"gives every row of {one.alias} once, and a window says which of them count at what time",
                hint=f"leave the window of {one.alias} out; or group the rows, which gives an answer that changes",
            )


def enriched_stream(outer: Outer, text: Text) -> Leaf:
    """The stream whose rows have their partners before they are in its window, in an answer that changes."""
    leaf = enriched(outer)
    if leaf is None:
        raise refused_asof(
            outer,
            text,
            "in an answer that changes compares the columns of one stream, the one by whose time it goes",
            "take the rows as they come: FROM (SELECT ISTREAM … JOIN …) [RANGE 1 HOUR] AS j",
        )
    window = leaf.input.window
    if isinstance(window, Each):
        raise refused_asof(
            outer,
            text,
            f"looks for partners before rows are counted, and those of {leaf.input.alias} are counted before their "
            "lists are taken apart",
            "take them apart afterwards: FROM (SELECT … ASOF JOIN …) [ROWS 10] AS j, UNNEST(j.items) AS t (item)",
        )
    if isinstance(window, RowsWindow | SteppedRows) and may_have_several(outer):
        raise refused_asof(
            outer,
            text,
            f"by other columns than its key may give several rows for one, and the window of {leaf.input.alias} "
            "counts rows",
            f"write {leaf.input.alias} [RANGE 1 HOUR]; or ON with every column of the key",
        )
    return leaf


def refused_asof(outer: Outer, text: Text, why: str, hint: str | None = None) -> Exception:
    usual = (
        "write a ASOF JOIN b ON a.k = b.k AND b.ts <= a.ts [AND b.ts >= a.ts - INTERVAL 1 HOUR], b.ts >= a.ts for "
        "the first from a time on, or NEAREST(b.ts, a.ts)"
    )
    if any(one.has_versions for one in outer.right.visible):
        return text.error(f"a join with versions {why}", outer.span, hint=hint or "write AS OF a.ts", kind=WindowError)
    return text.error(f"ASOF JOIN {why}", outer.span, hint=hint or usual, kind=WindowError)


def _least_bound(bounds: Iterable[Bound], earlier: str, later: str) -> int | None:
    return min((b.at_most_us for b in bounds if (b.earlier, b.later) == (earlier, later)), default=None)
