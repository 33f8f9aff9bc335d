"""What may change of a query over a checkpoint or a savepoint: the rule, for both hosts and all who tell of it.

A start goes on where what is kept is what the changed query would have kept. What else may change is another query,
which `watersmeet replace` builds beside the one that runs; what no query could take the place of is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from watersmeet.dataclass import dataclass
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.plan.difference import Difference, Kind, differences
from watersmeet.plan.identity import identity_of
from watersmeet.plan.query import Plan
from watersmeet.runtime.kept_of_joins import Kept, could_go_on, has_all

Verdict = Literal["goes on", "replace", "refused"]
MAY_CHANGE = (  # of the options, from start to start; or it is part of what a query means
    "order",
    "threads",
    "spread",
    "share",
    "boundary",
    "timezone",
    "emit",
    "partial",
)
_RULES: Mapping[Kind, tuple[Verdict, str]] = {
    "stream column added": ("goes on", "the query does not look at it"),
    "column added": ("replace", "rows have it from the instant on at which the changed query takes the place"),
    "column dropped": ("replace", "rows are without it from the instant on at which the changed query takes the place"),
    "column changed": ("replace", "from the instant on at which the changed query takes the place"),
    "order of columns": ("replace", "from the instant on at which the changed query takes the place"),
    "window narrower": ("replace", "exact from the instant on at which the changed query takes the place"),
    "window wider": ("replace", "the changed query takes the place once it is whole"),
    "window changed": ("replace", "the changed query takes the place once it is whole"),
    "condition added": ("replace", "another answer from the instant on at which the changed query takes the place"),
    "condition dropped": ("replace", "the changed query takes the place once it is whole"),
    "query changed": ("replace", "the changed query takes the place once it is whole"),
    "stream column dropped": ("refused", "declare it as it was: what was read and not answered yet has it"),
    "stream changed": ("refused", "what is kept is of the other one"),
}
# Of a join that goes on with rows which another one has kept.
_GOES_ON: Mapping[Kind, str] = {
    "column added": "rows have it from here on",
    "column dropped": "rows are without it from here on",
    "column changed": "from here on",
    "order of columns": "from here on",
    "window narrower": "exact from here on: rows that it does not reach leave at once",
    "window wider": "over the rows that are kept, and whole once time has gone on by the difference",
    "window changed": "over the rows that are kept, and whole once time has gone on by what it reaches further back",
}
_COLUMNS = ("column added", "column dropped", "column changed", "order of columns")


@dataclass(frozen=True)
class Change:
    """`kind`: as of a `Difference`, or "option". `was`, `now`: in words; "" where there was or is nothing."""

    kind: str
    was: str
    now: str
    verdict: Verdict
    meaning: str

    def __str__(self) -> str:
        said = f"{self.was}; now {self.now}" if self.was and self.now else self.was or self.now
        return f"{self.kind}: {said}"

    def as_dict(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in ("kind", "was", "now", "verdict", "meaning")}


@dataclass(frozen=True)
class Held:
    """What a checkpoint or a savepoint notes of its query: what it asks, as `identity_of` has it, what it gives, and
    its options; of a join also what it keeps, which another one may go on with."""

    asked: str
    gives: str
    options: Mapping[str, str]
    kept: Kept | None = None

    @staticmethod
    def of(plan: Plan) -> Held:
        return Held(identity_of(plan), plan.kind, options_of(plan))


def options_of(plan: Plan) -> dict[str, str]:
    """But for what may change from start to start, and what is part of what a query means."""
    return {name: text for name, text in plan.options.changed().items() if name not in MAY_CHANGE}


def changes(held: Held, plan: Plan) -> list[Change]:
    """What has changed since of a query, and what becomes of each change; nothing if it is the same."""
    now = Held.of(plan)
    found = [_judged(one, held, plan) for one in differences(held.asked, now.asked)]
    for name in sorted({*held.options, *now.options}):
        was, is_now = (
            f"{name} = '{one[name]}'" if name in one else f"no {name}" for one in (held.options, now.options)
        )
        if was != is_now:
            meaning = "what is kept would not fit; the changed query takes the place once it is whole"
            found.append(Change("option", was, is_now, "replace", meaning))
    return found


def goes_on_from_savepoint(was: Held, now: Held) -> bool:
    """The same where no plan is at hand: whether all that has changed is of a join that goes on with what is kept."""
    found = differences(was.asked, now.asked) if was.asked and was.gives == now.gives else []
    may = {*_GOES_ON, "stream column added"}
    return bool(found) and has_all(was.kept, now.kept) and all(one.kind in may for one in found)


def may_take_the_place(was: Held, now: Held) -> bool:
    """Where no plan is at hand: whether `watersmeet replace` is a way, on Spark too, where changes have none."""
    found = differences(was.asked, now.asked) if was.asked and was.gives == now.gives == "rows" else []
    return bool(found) and all(_RULES[one.kind][0] != "refused" for one in found)


def _judged(one: Difference, held: Held, plan: Plan) -> Change:
    verdict, meaning = _RULES[one.kind]
    if one.kind == "stream column added" and _is_looked_at(plan, one):
        verdict, meaning = "refused", "the query looks at it, and rows that are kept do not have it"
    elif held.gives != plan.kind:
        verdict, meaning = "refused", "rows that stay and changes of an answer mean different things in one sink"
    elif one.kind in _GOES_ON and could_go_on(held.kept, plan):
        verdict, meaning = "goes on", _GOES_ON[one.kind]
    elif one.kind in _COLUMNS and held.gives == "changes":
        verdict, meaning = "refused", "rows that are in the sink could not be taken back as they are"
    return Change(one.kind, one.was, one.now, verdict, meaning)


def _is_looked_at(plan: Plan, added: Difference) -> bool:
    column = added.now.split(" ")[0]
    leaves = plan_query(plan).leaves
    return any(leaf.stream.name.lower() == added.of and column in leaf.columns for leaf in leaves)


def verdict_of(found: Sequence[Change]) -> Verdict:
    """Of all changes of a query."""
    for verdict in ("refused", "replace"):
        if any(one.verdict == verdict for one in found):
            return verdict
    return "goes on"


def goes_on(found: Sequence[Change]) -> bool:
    return verdict_of(found) == "goes on"


def with_new_columns(found: Sequence[Change]) -> set[str]:
    """The streams, by their names in lower case, that have columns that they had not."""
    return {one.now.rpartition(" of ")[2] for one in found if one.kind == "stream column added"}


def is_of_streams(found: Sequence[Change]) -> bool:
    """Whether the query is the same, and only its streams have columns that it does not look at."""
    return all(one.kind == "stream column added" for one in found)


def told(found: Sequence[Change]) -> str:
    """For people: below a sentence, a line for each change that keeps a start from going on."""
    return "\n".join(f"  {one} ({one.meaning})" for one in found if one.verdict != "goes on")


def from_notes(notes: Mapping[str, Any]) -> Held | None:
    """None of one that was written before that was noted."""
    if "asked" not in notes:
        return None
    return Held(notes["asked"], notes["gives"], notes.get("options", {}), notes.get("kept"))
