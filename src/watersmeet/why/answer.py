"""The answer to why rows did not meet, as a value that prints as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watersmeet.model.time import format_instant
from watersmeet.plan.nodes import Join, Plan
from watersmeet.why.asked import Asked, Picked, check_asked, join_of, pick
from watersmeet.why.conditions import Meeting, Reason, shown_values
from watersmeet.why.trial import Outcome, tried

MOST_COLUMNS = 6  # of a row that is shown


@dataclass(frozen=True)
class Why:
    """Whether rows met and when, or what kept them apart.

    rows: the number of each input's row, counted from 1, by the name of the input.
    shown: that row in words.
    met_us: the time of the answer, in microseconds since 1970; None if they did not meet.
    reasons: all that keeps them apart.
    """

    rows: Mapping[str, int]
    shown: Mapping[str, str]
    met_us: int | None
    reasons: tuple[Reason, ...]

    @property
    def met(self) -> bool:
        """Whether they did: then there are no reasons."""
        return self.met_us is not None

    def as_dict(self) -> dict[str, Any]:
        """For programs."""
        return {
            "rows": dict(self.rows),
            "met": self.met,
            "met_at": None if self.met_us is None else format_instant(self.met_us),
            "reasons": [{"kind": one.kind, "text": one.text} for one in self.reasons],
        }

    def __str__(self) -> str:
        lines = [f"{alias}, row {number:,}: {self.shown[alias]}" for alias, number in self.rows.items()]
        if self.met_us is not None:
            return "\n".join([*lines, f"they meet: their row is in the answer at {format_instant(self.met_us)}"])
        return "\n".join([*lines, "they do not meet:", *(f"  {one.text}" for one in self.reasons)])


def why(plan: Plan, asked: Asked) -> Why:
    """Look at one row of each input of a join, and if nothing keeps them apart, run the query and see."""
    check_asked(asked)
    join = join_of(plan, list(asked))
    picked = pick(join, asked)
    reasons = tuple(Meeting(join, picked).reasons())
    rows = {one.alias: one for one in picked}
    outcome = None if reasons else tried(plan, join, rows)
    if outcome is not None and outcome.met_us is None:
        reasons = (*_of_run(plan, join, outcome),)
    return Why(
        {alias: one.number for alias, one in rows.items()},
        {alias: _described(one) for alias, one in rows.items()},
        None if outcome is None else outcome.met_us,
        reasons,
    )


def _of_run(plan: Plan, join: Join, outcome: Outcome) -> list[Reason]:
    """All conditions and windows hold, and yet there is no answer."""
    found = [
        Reason("late", f"{alias}: its row came too late, below the watermark, and was left out; see lateness")
        for alias in outcome.late
    ]
    if not found and plan.shedding is not None:
        found.append(
            Reason(
                "forgotten",
                f"all conditions and windows hold; one of them was among the {outcome.shed_rows:,} rows that bounded "
                "memory let go of: a larger memory, or another shed, may keep it",
            )
        )
    if not found:
        moving = [one.alias for one in join.streams if one.window is not None]
        found.append(
            Reason(
                "elsewhere",
                "all conditions hold, but the rows were never in their windows together: "
                + (f"those of {', '.join(moving)} move in steps" if moving else "another input stands between them"),
            )
        )
    return found


def _described(one: Picked) -> str:
    names = one.row.schema.names
    told = shown_values({name: one.value(name) for name in names[:MOST_COLUMNS]})
    return told if len(names) <= MOST_COLUMNS else f"{told}, …"
