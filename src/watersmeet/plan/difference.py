"""How two queries differ, by the texts of their identities, in words: what was, and what is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Literal

from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_interval

Kind = Literal[
    "column added", "column dropped", "column changed", "order of columns", "window narrower", "window wider",
    "window changed", "condition added", "condition dropped", "stream column added", "stream column dropped",
    "stream changed", "query changed",
]  # fmt: skip
_COLUMN = re.compile(r'(?P<name>"(?:[^"\\]|\\.)*"|\w+) = (?P<expression>.*)')
_FROM = re.compile(r"from (?P<alias>\S+?)(?P<window>(?: with .*?)?(?: \[.*?\])*): (?P<relation>.*)")
_STREAM = re.compile(r"(?P<what>stream|table) (?P<name>\S+) \((?P<columns>.*)\)(?P<more>.*)")
_BOUND = re.compile(r"(?P<later>\S+) - (?P<earlier>\S+) <= (?P<us>-?\d+)")
_CONDITIONS = ("where", "having", "kept", "holding", "afterwards")
_COMMA = re.compile(r", (?![^(<\[]*[)>\]])")  # not one inside of a type


@dataclass(frozen=True)
class Difference:
    """`of`: the stream or the column it is about. `was`, `now`: in words; "" where there was or is nothing."""

    kind: Kind
    of: str
    was: str
    now: str

    def __str__(self) -> str:
        if not self.was:
            return f"{self.kind}: {self.now}"
        return f"{self.kind}: {self.was}" if not self.now else f"{self.kind}: {self.was}; now {self.now}"


@dataclass
class _Line:
    text: str
    below: list[_Line] = field(default_factory=list)


def differences(was: str, now: str) -> list[Difference]:
    """Between the identities of two queries; none if they ask the same."""
    if was == now:
        return []
    before, after = _tree(was), _tree(now)
    (zone, *first), (other_zone, *second) = before.below[1:], after.below[1:]
    found = [] if zone.text == other_zone.text else [Difference("query changed", "", zone.text, other_zone.text)]
    found += _of_parts(first, second)
    return found or [Difference("query changed", "", before.below[0].text, after.below[0].text)]


def _tree(text: str) -> _Line:
    root = _Line("")
    open_: list[_Line] = [root]
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip(" "))) // 2
        made = _Line(line.strip())
        del open_[depth + 1 :]
        open_[-1].below.append(made)
        open_.append(made)
    return root


def _of_parts(was: Sequence[_Line], now: Sequence[_Line]) -> Iterator[Difference]:
    """Of what stands below one line."""
    parts = [_by_role(was), _by_role(now)]
    yield from _of_columns(*(one["column"] for one in parts))
    yield from _of_conditions(*([line.text for line in one["where"]] for one in parts))
    yield from _of_inputs(*(one["from"] for one in parts))
    yield from _of_windows(*(one["within"] for one in parts))
    first, second = (one["node"] for one in parts)
    for left, right in zip(first, second, strict=False):
        if left.text != right.text:
            yield Difference("query changed", "", left.text, right.text)
            if left.text.split()[0] != right.text.split()[0]:
                continue
        yield from _of_parts(left.below, right.below)
    for line in first[len(second) :]:
        yield Difference("query changed", "", line.text, "")
    for line in second[len(first) :]:
        yield Difference("query changed", "", "", line.text)


def _by_role(lines: Sequence[_Line]) -> dict[str, list[_Line]]:
    found: dict[str, list[_Line]] = {role: [] for role in ("column", "where", "from", "within", "node")}
    for line in lines:
        word = line.text.split(" ")[0]
        role = "where" if word in _CONDITIONS else word if word in ("from", "within") else "node"
        if role == "node" and _COLUMN.fullmatch(line.text):
            role = "column"
        found[role].append(line)
    return found


def _of_columns(was: Sequence[_Line], now: Sequence[_Line]) -> Iterator[Difference]:
    before, after = ({one["name"]: one["expression"] for one in map(_matched, lines)} for lines in (was, now))
    for name, expression in before.items():
        if name not in after:
            yield Difference("column dropped", name, f"{name} = {expression}", "")
        elif after[name] != expression:
            yield Difference("column changed", name, f"{name} = {expression}", after[name])
    for name, expression in after.items():
        if name not in before:
            yield Difference("column added", name, "", f"{name} = {expression}")
    both = [[name for name in one if name in before and name in after] for one in (before, after)]
    if both[0] != both[1]:
        yield Difference("order of columns", "", *(", ".join(names) for names in both))


def _matched(line: _Line) -> re.Match[str]:
    found = _COLUMN.fullmatch(line.text)
    assert found is not None
    return found


def _of_conditions(was: Sequence[str], now: Sequence[str]) -> Iterator[Difference]:
    before, after = Counter(was), Counter(now)
    for text in before - after:
        yield Difference("condition dropped", "", text, "")
    for text in after - before:
        yield Difference("condition added", "", "", text)


def _of_inputs(was: Sequence[_Line], now: Sequence[_Line]) -> Iterator[Difference]:
    for left, right in zip(was, now, strict=False):
        yield from _of_input(left, right)
    for line in was[len(now) :]:
        yield Difference("query changed", "", line.text, "")
    for line in now[len(was) :]:
        yield Difference("query changed", "", "", line.text)


def _of_input(was: _Line, now: _Line) -> Iterator[Difference]:
    before, after = _FROM.fullmatch(was.text), _FROM.fullmatch(now.text)
    if before is None or after is None or before["alias"] != after["alias"]:
        if was.text != now.text:
            yield Difference("query changed", "", was.text, now.text)
        return
    alias = before["alias"]
    if before["window"] != after["window"]:
        yield _of_window(alias, before["window"].strip(), after["window"].strip())
    if before["relation"] != after["relation"]:
        yield from _of_relation(before["relation"], after["relation"])
    yield from _of_parts(was.below, now.below)


def _of_window(alias: str, was: str, now: str) -> Difference:
    sizes = [re.fullmatch(r"\[(range|rows) (\d+)(| by .*)\]", one) for one in (was, now)]
    left, right = sizes
    kind: Kind = "window changed"
    if left and right and left[1] == right[1] and left[3] == right[3]:
        kind = "window narrower" if int(right[2]) < int(left[2]) else "window wider"
    return Difference(kind, alias, f"{alias} {_window_words(was)}", f"{alias} {_window_words(now)}")


def _window_words(text: str) -> str:
    """Lengths as they are written."""
    return re.sub(r"\brange (\d+)", lambda one: f"range {format_interval(int(one[1]))}", text) or "without a window"


def _of_relation(was: str, now: str) -> Iterator[Difference]:
    before, after = _STREAM.fullmatch(was), _STREAM.fullmatch(now)
    same = before and after and all(before[part] == after[part] for part in ("what", "name", "more"))
    if not (before and after and same):
        yield Difference("stream changed", "", was, now)
        return
    name = before["name"]
    columns = [dict(one.split(" ", 1) for one in _COMMA.split(match["columns"])) for match in (before, after)]
    for column, kind in columns[0].items():
        if column not in columns[1]:
            yield Difference("stream column dropped", name, f"{column} {kind} of {name}", "")
        elif columns[1][column] != kind:
            yield Difference(
                "stream changed", name, f"{column} {kind} of {name}", f"{column} {columns[1][column]} of {name}"
            )
    for column, kind in columns[1].items():
        if column not in columns[0]:
            yield Difference("stream column added", name, "", f"{column} {kind} of {name}")


def _of_windows(was: Sequence[_Line], now: Sequence[_Line]) -> Iterator[Difference]:
    if len(was) != len(now):
        yield Difference("window changed", "", _bounds_words(was), _bounds_words(now))
        return
    for left, right in zip(was, now, strict=True):
        before, after = _bounds(left), _bounds(right)
        if before == after:
            continue
        pairs = before.keys() | after.keys()
        narrower = all(after.get(pair, _EVER) <= before.get(pair, _EVER) for pair in pairs)
        wider = all(after.get(pair, _EVER) >= before.get(pair, _EVER) for pair in pairs)
        kind: Kind = "window narrower" if narrower else "window wider" if wider else "window changed"
        changed = {pair for pair in pairs if before.get(pair) != after.get(pair)}
        yield Difference(kind, "", *(_said({p: one[p] for p in one if p in changed}) for one in (before, after)))


_EVER = 1 << 80


def _bounds(within: _Line) -> dict[tuple[str, str], int]:
    found = (_BOUND.fullmatch(line.text) for line in within.below)
    return {(one["later"], one["earlier"]): int(one["us"]) for one in found if one is not None}


def _bounds_words(lines: Sequence[_Line]) -> str:
    return " or ".join(_said(_bounds(line)) for line in lines) or "no bound between streams"


def _said(bounds: dict[tuple[str, str], int]) -> str:
    return (
        ", ".join(
            f"{later} at most {format_interval(us)} after {earlier}"
            if us > 0
            else f"{later} not after {earlier}"
            if us == 0
            else f"{later} at least {format_interval(-us)} before {earlier}"
            for (later, earlier), us in sorted(bounds.items())
        )
        or "no bound between streams"
    )
