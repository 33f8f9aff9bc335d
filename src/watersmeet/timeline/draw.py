"""The story of a run as SVG: a lane for each input, a bar for as long as a window holds a row, and lines between rows
that met, at the moment when the last of them was there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement

from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_instant
from watersmeet.pictures import svg
from watersmeet.pictures.svg import number
from watersmeet.pictures.text import LEADING, Line, lines_of, visible
from watersmeet.timeline.scale import Scale, span_of
from watersmeet.timeline.story import Answer, Lane, Match, Row, Story
from watersmeet.timeline.words import clock_text, instant_text, shortened

PLOT = 760.0
GUTTER_CELLS = 24
MARGIN = 12.0
TRACK = 20.0  # from one row of a lane to the next that would lie over it
BAR = 13.0
LABEL = 18  # characters of a row that are shown beside it
ANSWER_LABEL = 40
SHIFT = 3.0  # between matches of the same instant
LEGEND_CELLS = 110

CSS = """
.wm-picture .wm-lane{fill:var(--wm-raised)}
.wm-picture .wm-tick{stroke:var(--wm-line);stroke-width:1;stroke-dasharray:2 3}
.wm-picture .wm-bar{fill:var(--wm-one);fill-opacity:.2;stroke:var(--wm-one);stroke-opacity:.45}
.wm-picture .wm-in .wm-bar{fill:var(--wm-good);stroke:var(--wm-good)}
.wm-picture .wm-dot{fill:var(--wm-one)}
.wm-picture .wm-in .wm-dot{fill:var(--wm-good)}
.wm-picture .wm-wait{stroke:var(--wm-one);stroke-dasharray:2 2}
.wm-picture .wm-label{paint-order:stroke;stroke:var(--wm-raised);stroke-width:2px;stroke-opacity:.75}
.wm-picture .wm-gone{stroke:var(--wm-bad);stroke-width:2;fill:none}
.wm-picture .wm-out{fill:var(--wm-ground);stroke:var(--wm-quiet)}
.wm-picture .wm-late{stroke:var(--wm-bad);stroke-width:2;fill:none}
.wm-picture .wm-met{stroke:var(--wm-two);stroke-width:1.5;fill:none}
.wm-picture .wm-met circle{fill:var(--wm-two);stroke:none}
.wm-picture .wm-lost{stroke:var(--wm-bad);stroke-dasharray:4 3}
.wm-picture .wm-lost circle{fill:var(--wm-bad)}
""".strip().replace("\n", "")


@dataclass(frozen=True)
class Span:
    """What is drawn of a row: from where to where, and what is written beside its point."""

    x: float
    bar: tuple[float, float] | None
    label: Line

    @property
    def room(self) -> tuple[float, float]:
        begin, end = self.bar or (self.x, self.x)
        return min(begin, self.x) - 7, max(end, self.x + 8 + self.label.width) + 7


@dataclass(frozen=True)
class Strip:
    """A lane in its place, with the height at which each of its rows stands."""

    title: tuple[Line, ...]
    y: float
    height: float
    spans: tuple[Span, ...]
    tracks: tuple[int, ...]

    def middle(self, row: int) -> float:
        return self.y + 8 + self.tracks[row] * TRACK + TRACK / 2

    @property
    def reach(self) -> float:
        """How far to the right anything of it goes."""
        return max((span.room[1] for span in self.spans), default=0.0)


def timeline_svg(story: Story, words: Sequence[str]) -> str:
    """words: the same for those who do not see it."""
    titles = [_title(lane) for lane in story.lanes] + [lines_of("answer", GUTTER_CELLS, "title")]
    gutter = max(line.width for title in titles for line in title) + 2 * MARGIN
    scale = Scale(*span_of(story), gutter + 10, PLOT)
    strips = _strips(story, titles, scale)
    bottom = strips[-1].y + strips[-1].height
    notes = [line for note in _notes(story, scale) for line in lines_of(note, LEGEND_CELLS, "quiet")]
    legend = _legend(story)
    width = max(
        scale.x + PLOT + 30,
        *(strip.reach + MARGIN for strip in strips),
        *(line.width + 2 * MARGIN for line in notes),
        *(60 + line.width + MARGIN for _, line in legend),
    )
    height = bottom + 26 + (len(legend) + len(notes)) * LEADING + MARGIN
    picture = svg.picture(width, height, "which rows met, and when", words, CSS)
    for strip in strips:
        _draw_lane(picture, strip, width)
    _draw_axis(picture, scale, strips[0].y, bottom)
    for lane_number in range(len(story.lanes)):
        _draw_rows(picture, story, lane_number, strips[lane_number], scale)
    for place, one in enumerate(story.answers):
        _draw_answer(picture, one, strips[-1].spans[place], strips[-1].middle(place), scale)
    _draw_matches(picture, story, strips, scale)
    for strip in strips:
        _draw_labels(picture, strip)
    y = bottom + 26
    for mark, line in legend:
        _draw_mark(picture, mark, MARGIN + 18, y + 8)
        svg.text(picture, 60, y + 12, line)
        y += LEADING
    svg.lines(picture, MARGIN, y, notes)
    return svg.written(picture)


# ---- places ---------------------------------------------------------------------------------------------------------


def _title(lane: Lane) -> list[Line]:
    named = [] if lane.name == lane.alias else lines_of(lane.name, GUTTER_CELLS, "quiet")
    window = lines_of(lane.window, GUTTER_CELLS, "quiet") if lane.window else []
    labels = lines_of(f"shown: {', '.join(lane.labels)}", GUTTER_CELLS, "quiet") if lane.labels else []
    return [*lines_of(lane.alias, GUTTER_CELLS, "title"), *named, *window, *labels]


def _strips(story: Story, titles: Sequence[Sequence[Line]], scale: Scale) -> list[Strip]:
    """The lanes below each other, the answer last."""
    spans = [tuple(_span_of_row(row, lane, scale) for row in lane.rows) for lane in story.lanes]
    spans.append(tuple(_span_of_answer(one, scale) for one in story.answers))
    strips: list[Strip] = []
    y = MARGIN
    for title, own in zip(titles, spans, strict=True):
        tracks = packed([span.room for span in own])
        height = max((max(tracks, default=0) + 1) * TRACK, len(title) * LEADING) + 16
        strips.append(Strip(tuple(title), y, height, own, tuple(tracks)))
        y += height + 8
    return strips


def packed(rooms: Sequence[tuple[float, float]]) -> list[int]:
    """For each the first track in which nothing lies over it.

    >>> packed([(0, 5), (3, 8), (5, 9)])
    [0, 1, 0]
    """
    ends: list[float] = []
    tracks = [0] * len(rooms)
    for place in sorted(range(len(rooms)), key=lambda i: (rooms[i][0], i)):
        start, end = rooms[place]
        free = next((track for track, until in enumerate(ends) if until <= start), len(ends))
        ends[free : free + 1] = [end]
        tracks[place] = free
    return tracks


def _span_of_row(row: Row, lane: Lane, scale: Scale) -> Span:
    label = Line(shortened(visible(row.label), LABEL))
    if lane.is_table:
        return Span(scale.x, (scale.x, scale.x + scale.width), label)
    x = scale.at(row.at_us)
    if not row.is_held or row.since_us is None or row.since_us > scale.end_us:
        return Span(x, None, label)
    end = scale.end_us if row.until_us is None else row.until_us
    return Span(x, (scale.at(row.since_us), scale.at(end)) if end > row.since_us else None, label)


def _span_of_answer(one: Answer, scale: Scale) -> Span:
    label = Line(shortened(visible(one.values), ANSWER_LABEL))
    x = scale.at(one.since_us)
    end = scale.end_us if one.until_us is None else one.until_us
    return Span(x, None if one.moment else (x, max(scale.at(end), x + 1)), label)


# ---- drawing --------------------------------------------------------------------------------------------------------


def _draw_lane(picture: Element, strip: Strip, width: float) -> None:
    place = {"x": "0", "y": number(strip.y), "width": number(width), "height": number(strip.height)}
    SubElement(picture, "rect", {"class": "wm-lane", **place})
    svg.lines(picture, MARGIN, strip.y + 8, strip.title)


def _draw_axis(picture: Element, scale: Scale, top: float, bottom: float) -> None:
    for tick in scale.ticks():
        x = scale.at(tick)
        SubElement(picture, "path", {"class": "wm-tick", "d": f"M{number(x)} {number(top)}V{number(bottom + 4)}"})
        svg.text(picture, x, bottom + 16, Line(clock_text(tick, scale.step_us), look="quiet"), anchor="middle")


def _draw_rows(picture: Element, story: Story, lane_number: int, strip: Strip, scale: Scale) -> None:
    lane = story.lanes[lane_number]
    for place, row in enumerate(lane.rows):
        attributes = {"data-lane": str(lane_number), "data-row": str(row.number), "data-fate": row.fate}
        if not lane.is_table:
            attributes["data-at-us"] = str(row.at_us)
        if (lane_number, row.number) in story.forgotten:
            attributes["data-forgotten"] = "true"
        group = SubElement(picture, "g", {"class": "wm-row", **attributes})
        SubElement(group, "title").text = visible(f"{lane.alias}, row {row.number}: {row.values}")
        _draw_row(group, row, lane, strip.spans[place], strip.middle(place), scale)
        if "data-forgotten" in attributes:
            _draw_mark(group, "gone", strip.spans[place].x, strip.middle(place))


def _draw_row(group: Element, row: Row, lane: Lane, span: Span, y: float, scale: Scale) -> None:
    _draw_bar(group, span, y, is_open=lane.is_table or row.until_us is None or row.until_us > scale.end_us)
    if row.fate == "late":
        _draw_mark(group, "late", span.x, y)
    elif row.fate != "held":
        _draw_mark(group, "out", span.x, y)
    elif not lane.is_table:
        if row.since_us is not None and row.since_us > row.at_us:
            waits = f"M{number(span.x)} {number(y)}H{number(scale.at(row.since_us))}"
            SubElement(group, "path", {"class": "wm-wait", "d": waits})
        _draw_mark(group, "row", span.x, y)


def _draw_answer(picture: Element, one: Answer, span: Span, y: float, scale: Scale) -> None:
    attributes = {"data-since-us": str(one.since_us)}
    if one.until_us is not None:
        attributes["data-until-us"] = str(one.until_us)
    group = SubElement(picture, "g", {"class": "wm-in", **attributes, "data-values": visible(one.values)})
    SubElement(group, "title").text = visible(one.values)
    _draw_bar(group, span, y, is_open=one.until_us is None or one.until_us > scale.end_us)
    if one.since_us >= scale.start_us:  # else it was there before the picture begins
        _draw_mark(group, "row", span.x, y)


def _draw_bar(group: Element, span: Span, y: float, *, is_open: bool) -> None:
    if span.bar is None:
        return
    begin, end = span.bar
    top, bottom, middle = number(y - BAR / 2), number(y + BAR / 2), number(y)
    # One that goes on beyond the picture has a point there.
    tip = f"L{number(end + 6)} {middle}L{number(end)} {bottom}" if is_open else f"V{bottom}"
    SubElement(group, "path", {"class": "wm-bar", "d": f"M{number(begin)} {top}H{number(end)}{tip}H{number(begin)}Z"})


def _draw_matches(picture: Element, story: Story, strips: Sequence[Strip], scale: Scale) -> None:
    places = [{row.number: place for place, row in enumerate(lane.rows)} for lane in story.lanes]
    at_instant: dict[int, int] = {}
    given = 0
    for match in story.matches:
        shift = at_instant.get(match.at_us, 0)
        at_instant[match.at_us] = shift + 1
        x = scale.at(match.at_us) + shift % 5 * SHIFT
        members = [(lane, places[lane][n]) for lane, n in enumerate(match.rows) if n is not None]
        heights = [strips[lane].middle(place) for lane, place in members]
        if story.given and not match.lost:
            heights.append(strips[-1].middle(given))
            given += 1
        _draw_match(picture, match, x, heights)


def _draw_match(picture: Element, match: Match, x: float, heights: Sequence[float]) -> None:
    rows = " ".join("-" if one is None else str(one) for one in match.rows)
    look = "wm-met wm-lost" if match.lost else "wm-met"
    attributes = {"data-rows": rows, "data-at-us": str(match.at_us)} | ({"data-lost": "true"} if match.lost else {})
    group = SubElement(picture, "g", {"class": look, **attributes})
    SubElement(group, "title").text = visible(f"{instant_text(match.at_us)} {match.values}")
    SubElement(group, "path", {"d": f"M{number(x)} {number(min(heights))}V{number(max(heights))}"})
    for y in heights:
        SubElement(group, "circle", {"cx": number(x), "cy": number(y), "r": "2.5"})


def _draw_labels(picture: Element, strip: Strip) -> None:
    """Last, so that no line runs over them."""
    for place, span in enumerate(strip.spans):
        svg.text(picture, span.x + 8, strip.middle(place) + 4, span.label).set("class", "wm-label")


def _draw_mark(parent: Element, mark: str, x: float, y: float) -> None:
    match mark:
        case "row":
            SubElement(parent, "circle", {"class": "wm-dot", "cx": number(x), "cy": number(y), "r": "4"})
        case "out":
            SubElement(parent, "circle", {"class": "wm-out", "cx": number(x), "cy": number(y), "r": "4"})
        case "gone":
            SubElement(parent, "circle", {"class": "wm-gone", "cx": number(x), "cy": number(y), "r": "6"})
        case "late":
            cross = f"M{number(x - 4)} {number(y - 4)}l8 8M{number(x + 4)} {number(y - 4)}l-8 8"
            SubElement(parent, "path", {"class": "wm-late", "d": cross})
        case "bar" | "in":
            group = SubElement(parent, "g", {"class": "wm-in"} if mark == "in" else {})
            place = {"x": number(x - 14), "y": number(y - 5), "width": "34", "height": "10"}
            SubElement(group, "rect", {"class": "wm-bar", **place})
        case "met" | "lost":
            look = "wm-met" if mark == "met" else "wm-met wm-lost"
            SubElement(parent, "path", {"class": look, "d": f"M{number(x)} {number(y - 7)}v14"})


# ---- words ----------------------------------------------------------------------------------------------------------


def _legend(story: Story) -> list[tuple[str, Line]]:
    rows = [row for lane in story.lanes for row in lane.rows]
    fates = {row.fate for row in rows}
    marks = [("row", "a row, at its event time")]
    if any(row.is_held for row in rows):
        marks.append(("bar", "as long as its window holds it"))
    if any(not one.moment for one in story.answers):
        marks.append(("in", "as long as a row is in the answer"))
    if any(not one.lost for one in story.matches):
        marks.append(("met", "rows that met, at the moment when the last of them was there"))
    if any(one.lost for one in story.matches):
        marks.append(("lost", "rows that would have met, had bounded memory not let go of one of them"))
    if story.forgotten:
        marks.append(("gone", "a row that bounded memory let go of before its partner came"))
    if "late" in fates:
        marks.append(("late", "a row that came too late and was left out"))
    if fates & {"other", "duplicate"}:
        marks.append(("out", "a row that a condition leaves out, or a duplicate"))
    return [(mark, Line(text, look="quiet")) for mark, text in marks]


def _notes(story: Story, scale: Scale) -> Iterable[str]:
    days = dict.fromkeys(format_instant(us).split(" ")[0] for us in (scale.start_us, scale.end_us))
    yield f"event time, UTC: {' to '.join(days)}"
    yield from story.notes
