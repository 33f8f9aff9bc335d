"""Whether a query can go on from what a savepoint says of one; else why not, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from watersmeet.errors import RunError
from watersmeet.io.connectors.contract import NumberedSink
from watersmeet.model.time import BEGINNING_US, format_instant
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.identity import identity_of, sum_of
from watersmeet.plan.query import Plan
from watersmeet.plan.walks import streams_below
from watersmeet.runtime.beginning import whole_after
from watersmeet.runtime.changes import changes, goes_on, options_of, told
from watersmeet.runtime.kept_of_joins import kept_since
from watersmeet.runtime.savepoints.contents import QueryContents

_GO_BACK = "go on with the script as it was, or start anew without the savepoint"


def check_fits(contents: QueryContents, plan: Plan) -> None:
    if not is_same(contents, plan):
        _check_changes(contents, plan)
    before, now = contents.options, options_of(plan)
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            was, is_now = (f"{name} = '{one[name]}'" if name in one else f"no {name}" for one in (before, now))
            raise RunError(
                f"the savepoint was taken of this query with {was} in OPTIONS, and now it has {is_now}: what is kept "
                "would not fit",
                hint=_GO_BACK,
            )
    unknown = sorted({one.name for one in streams_below(plan.root)} - set(contents.streams))
    if unknown:
        raise RunError(
            f"the savepoint knows no stream {unknown[0]!r}; it has {', '.join(map(repr, contents.streams))}",
            hint="streams are known by their names: call it what it was called",
        )


def is_same(contents: QueryContents, plan: Plan) -> bool:
    return sum_of(identity_of(plan)) == contents.identity


def goes_on_words(name: str, contents: QueryContents, plan: Plan) -> list[str]:
    """What a person is told of a query that has changed since."""
    if is_same(contents, plan) or contents.held is None:
        return []
    found = [f"{one} ({one.meaning})" for one in changes(contents.held, plan)]
    whole_us = whole_since(contents, plan)[0]
    whole = [] if whole_us <= BEGINNING_US else [f"whole from {format_instant(whole_us)} on"]
    return [f"{name} goes on changed: {'; '.join([*found, *whole])}"]


def whole_since(contents: QueryContents, plan: Plan) -> tuple[int, dict[str, int]]:
    """From when on its answer is whole, and, where windows are wider, from when on there are rows of its streams."""
    full_us = max(contents.moment.watermark_us, contents.whole_us)  # when the windows were full
    since = {} if is_same(contents, plan) else kept_since(contents.kept, plan, full_us)
    return max(contents.whole_us, whole_after(plan_query(plan), since)[0]), since


def _check_changes(contents: QueryContents, plan: Plan) -> None:
    found = [] if contents.held is None else changes(contents.held, plan)
    if not found or not goes_on(found):
        raise RunError(
            f"the savepoint is of another query, or of the same one with other columns:\n{told(found) or contents.sql}",
            hint=_GO_BACK,
        )


def check_kinds(contents: QueryContents, kinds: Mapping[str, str | None]) -> None:
    """kinds: what reads each stream now, None where rows are pushed."""
    for name, kind in kinds.items():
        place = contents.streams[name]
        if kind is None or place.kind == kind:
            if kind is not None and not place.moves:
                raise RunError(
                    f"stream {name!r} was read from {place.kind}, and how far does not move with a savepoint",
                    hint="what moves are sources that watersmeet reads itself, such as files and topics",
                )
            continue
        if place.kind is not None:
            raise RunError(
                f"stream {name!r} was read from {place.kind}, and is to be read from {kind} now",
                hint="name what it read before; files may lie elsewhere, with the names and times that they had",
            )


def check_not_ahead(name: str, contents: QueryContents, sink: NumberedSink) -> None:
    """sink: opened in the name of the run that the savepoint was taken of."""
    try:
        has = sink.committed()
    finally:
        sink.close()
    if has > contents.batch:
        raise RunError(
            f"sink {name!r} is ahead of the savepoint: it has batches of run {contents.run} up to {has:,}, and the "
            f"savepoint was taken after batch {contents.batch:,}, so that their answers would come twice",
            hint="take a newer savepoint; or begin with the sink afresh: --afresh, or afresh=True in Python",
        )
