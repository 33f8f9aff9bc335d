"""The story of a run as a value: a picture where it is shown, words where it is printed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.io.writers import writable
from watersmeet.pictures.page import Shown, fragment, page
from watersmeet.plan.query import Plan
from watersmeet.timeline.draw import timeline_svg
from watersmeet.timeline.story import Story
from watersmeet.timeline.telling import Part, story_of
from watersmeet.timeline.words import instant_text


@dataclass(frozen=True)
class Timeline:
    """A run as it went: `svg` is its picture, `html` a page with it, `str()` the same in words."""

    story: Story

    @cached_property
    def svg(self) -> str:
        return timeline_svg(self.story, list(self._words()))

    @property
    def html(self) -> str:
        name = " ".join(self.story.sql.split())
        return page("timeline", [Shown(name, self.svg, str(self))])

    def save(self, path: str | Path) -> None:
        """Write it to a file whose name ends in .svg or .html."""
        where = Path(path)
        kinds = {".svg": lambda: self.svg, ".html": lambda: self.html}
        if where.suffix.lower() not in kinds:
            raise OptionError(f"a timeline cannot be written as {where.name!r}", hint="name a file.svg or a file.html")
        with writable(where):
            where.write_text(kinds[where.suffix.lower()](), encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join(self._words())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return fragment(self.svg, str(self))

    def _words(self) -> Iterator[str]:
        story = self.story
        for lane in story.lanes:
            yield f"{lane.alias}{'' if lane.alias == lane.name else f' ({lane.name})'} {lane.window}".rstrip()
            for row in () if lane.is_table else lane.rows:
                yield f"  row {row.number} at {instant_text(row.at_us)}: {row.values}{_fate(row.fate)}"
        for match in story.matches:
            who = ", ".join(
                f"{lane.alias} {number}"
                for lane, number in zip(story.lanes, match.rows, strict=True)
                if number is not None
            )
            lost = ": lost, as bounded memory had let go of one" if match.lost else ""
            yield f"at {instant_text(match.at_us)} {_met(who, match.rows)}{lost}"
        for one in () if story.given else story.answers:
            until = "" if one.until_us is None else f" until {instant_text(one.until_us)}"
            yield f"in the answer {'at' if one.moment else 'from'} {instant_text(one.since_us)}{until}: {one.values}"
        yield from story.notes


def _fate(fate: str) -> str:
    words = {"late": " (too late, left out)", "other": " (left out by a condition)", "duplicate": " (a duplicate)"}
    return words.get(fate, "")


def _met(who: str, rows: tuple[int | None, ...]) -> str:
    return f"{who} met" if sum(number is not None for number in rows) > 1 else f"{who} is given"


def timeline(plan: Plan, part: Part, sample: int | None = None) -> Timeline:
    """Run a query and tell of a part of it. sample: no more rows were taken of each stream than this."""
    return Timeline(story_of(plan, part, sample))
