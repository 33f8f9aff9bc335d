"""The grammar of docs/language.md, read as it is written: texts are derived from it, and texts are derived by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count

from watersmeet.sql.dialect import RESERVED

PRODUCTION = re.compile(r"^([a-z_]+) = (.*(?:\n .*)*)", re.MULTILINE)
SYMBOL = re.compile(r'"([^"]+)"|([A-Z_]+)|([a-z_]+)|([\[\]{}()|])')
TOKEN = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | \s+ | (?P<text>'(?:[^']|'')*') | (?P<quoted>"(?:[^"]|"")*")
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)? | \.\d+) | (?P<parameter>\?(?!:) | (?<![\w\]:)])[:$](?=\w)\w+)
    | (?P<word>\w+) | (?P<mark><=>|->>|->|<=|>=|<>|!=|==|<<|>>|\|\||//|\*\*|::|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Part:
    """A part of a production: a keyword, a mark, the name of a part, or several parts together."""

    kind: str  # keyword, mark, ref, sequence, choice, optional, repeated
    text: str = ""
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Token:
    kind: str  # text, quoted, number, parameter, word, mark
    text: str


class Grammar:
    def __init__(self, text: str) -> None:
        self.productions = {name: _read(body) for name, body in PRODUCTION.findall(text)}
        self.shortest = self._shortest()

    # -- what is written in it ------------------------------------------------------------------------------

    def parts(self) -> Iterator[Part]:
        return (part for body in self.productions.values() for part in _within(body))

    def keywords(self) -> set[str]:
        return {part.text for part in self.parts() if part.kind == "keyword"}

    def undefined(self) -> set[str]:
        named = {part.text for part in self.parts() if part.kind == "ref"}
        return named - set(self.productions) - set(SAMPLES)

    # -- texts that it derives ------------------------------------------------------------------------------

    def sentences(self, start: str) -> Iterator[tuple[str, str]]:
        """For every choice that a production has a text in which it is taken, all others being the shortest; and the
        name of the production."""
        around = self._contexts(start)
        for name, body in self.productions.items():
            for inside in self._variants(body):
                before, after = around[name]
                yield name, written([*before, *inside, *after])

    def _least(self, part: Part) -> list[str] | None:
        match part.kind:
            case "keyword" | "mark":
                return [part.text]
            case "ref":
                return [f"§{part.text}"] if part.text in SAMPLES else self.shortest.get(part.text)
            case "sequence":
                found = [self._least(one) for one in part.parts]
                return None if None in found else [word for one in found for word in one or ()]
            case "choice":
                known = [one for one in map(self._least, part.parts) if one is not None]
                return min(known, key=len) if known else None
        return []

    def _shortest(self) -> dict[str, list[str]]:
        self.shortest: dict[str, list[str]] = {}
        while True:
            found = {name: least for name, body in self.productions.items() if (least := self._least(body)) is not None}
            if found == self.shortest:
                return found
            self.shortest = found

    def _variants(self, part: Part) -> Iterator[list[str]]:
        least = self._least(part)
        assert least is not None
        match part.kind:
            case "choice":
                for one in part.parts:
                    yield from self._variants(one)
            case "optional" | "repeated":
                yield []
                yield from self._variants(part.parts[0])
                if part.kind == "repeated":
                    yield 2 * (self._least(part.parts[0]) or [])
            case "sequence":
                for at, one in enumerate(part.parts):
                    before, after = self._around(part.parts, at)
                    yield from ([*before, *inside, *after] for inside in self._variants(one))
            case _:
                yield least

    def _around(self, parts: tuple[Part, ...], at: int) -> tuple[list[str], list[str]]:
        flat = [[word for one in some for word in self._least(one) or ()] for some in (parts[:at], parts[at + 1 :])]
        return flat[0], flat[1]

    def _contexts(self, start: str) -> dict[str, tuple[list[str], list[str]]]:
        """What may stand before and after each production in a whole text."""
        found: dict[str, tuple[list[str], list[str]]] = {start: ([], [])}
        ahead = [start]
        while ahead:
            name = ahead.pop(0)
            for inner, before, after in self._holes(self.productions[name]):
                if inner in self.productions and inner not in found:
                    found[inner] = ([*found[name][0], *before], [*after, *found[name][1]])
                    ahead.append(inner)
        return found

    def _holes(self, part: Part) -> Iterator[tuple[str, list[str], list[str]]]:
        if part.kind == "ref":
            yield part.text, [], []
        for at, one in enumerate(part.parts):
            before, after = self._around(part.parts, at) if part.kind == "sequence" else ([], [])
            for name, left, right in self._holes(one):
                yield name, [*before, *left], [*right, *after]

    # -- texts that it is asked about -----------------------------------------------------------------------

    def derives(self, start: str, text: str) -> int | None:
        """None if it derives the text; else how far it came, in tokens."""
        tokens = [Token(one.lastgroup, one[0]) for one in TOKEN.finditer(text) if one.lastgroup]
        furthest = 0

        @cache
        def named(name: str, at: int) -> frozenset[int]:
            return frozenset(ends(self.productions[name], at))

        def ends(part: Part, at: int) -> set[int]:
            nonlocal furthest
            furthest = max(furthest, at)
            match part.kind:
                case "keyword" | "mark":
                    same = at < len(tokens) and tokens[at].text.upper() == part.text.upper()
                    return {at + 1} if same else set()
                case "ref" if part.text in SAMPLES:
                    return {at + 1} if at < len(tokens) and _is(tokens[at], part.text) else set()
                case "ref":
                    return set(named(part.text, at))
                case "sequence":
                    reached = {at}
                    for one in part.parts:
                        reached = {end for begin in reached for end in ends(one, begin)}
                    return reached
                case "choice":
                    return {end for one in part.parts for end in ends(one, at)}
                case "optional":
                    return {at, *ends(part.parts[0], at)}
            reached, ahead = {at}, {at}
            while ahead:
                ahead = {end for begin in ahead for end in ends(part.parts[0], begin)} - reached
                reached |= ahead
            return reached

        return None if len(tokens) in named(start, 0) else furthest


# What stands for itself, and a text that is one. Names are drawn anew each time, as columns may not be named twice.
SAMPLES = {
    "name": "",
    "word": "",
    "number": "1",
    "text": "'x'",
    "interval_text": "'1 second'",
    "number_text": "'1'",
    "parameter": "?",
}


def written(words: list[str]) -> str:
    names = (f"n{number}" for number in count())
    return " ".join(SAMPLES[word[1:]] or next(names) if word[0] == "§" else word for word in words)


def _is(token: Token, kind: str) -> bool:
    match kind:
        case "name":
            return token.kind == "quoted" or (token.kind == "word" and token.text.upper() not in RESERVED)
        case "word":
            return token.kind in ("quoted", "word")
        case "interval_text" | "number_text":
            return token.kind == "text"
    return token.kind == kind


def _within(part: Part) -> Iterator[Part]:
    yield part
    for one in part.parts:
        yield from _within(one)


def _read(body: str) -> Part:
    """A production's right side, by recursive descent."""
    symbols = [one.groups() for one in SYMBOL.finditer(body)]
    assert re.sub(r"\s", "", body) == re.sub(r"\s", "", "".join(one[0] for one in SYMBOL.finditer(body))), body
    choice, at = _choice(symbols, 0)
    assert at == len(symbols), body
    return choice


Symbols = list[tuple[str | None, ...]]
BRACKETS = {"(": (")", "group"), "[": ("]", "optional"), "{": ("}", "repeated")}


def _choice(symbols: Symbols, at: int) -> tuple[Part, int]:
    found: list[Part] = []
    while True:
        sequence, at = _sequence(symbols, at)
        found.append(sequence)
        if at >= len(symbols) or symbols[at][3] != "|":
            return (found[0] if len(found) == 1 else Part("choice", parts=tuple(found))), at
        at += 1


def _sequence(symbols: Symbols, at: int) -> tuple[Part, int]:
    found: list[Part] = []
    while at < len(symbols):
        mark, keyword, ref, bracket = symbols[at]
        if bracket in BRACKETS:
            closing, kind = BRACKETS[bracket]
            inside, at = _choice(symbols, at + 1)
            assert symbols[at][3] == closing
            found.append(inside if kind == "group" else Part(kind, parts=(inside,)))
        elif bracket:
            break
        else:
            known = {"mark": mark, "keyword": keyword, "ref": ref}
            found += [Part(kind, text) for kind, text in known.items() if text]
        at += 1
    return (found[0] if len(found) == 1 else Part("sequence", parts=tuple(found))), at
