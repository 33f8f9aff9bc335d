"""The same in two languages: what watersmeet is asked, and what DuckDB is asked instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["growing", "changing"]


@dataclass(frozen=True)
class Pair:
    """Text for watersmeet and for DuckDB. `relations` are tables that DuckDB needs first, with columns `lo` and `hi`: a
    row is in its window at the instants from lo up to, but without, hi."""

    ours: str
    theirs: str
    relations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Case:
    """A query, and what its answer is: in `theirs` `$T` stands for the instant that is asked for."""

    kind: Kind
    ours: str
    theirs: str
    relations: tuple[tuple[str, str], ...]
    streams: frozenset[str]
    output: str = "log"  # or "istream", "dstream", or what EVERY says, in microseconds
    ordered: bool = False  # whether the whole answer has an order


def say(template: str, /, **parts: Pair | str) -> Pair:
    """Fill `{names}` in with pairs, each language with its own."""
    pairs = {name: part if isinstance(part, Pair) else Pair(part, part) for name, part in parts.items()}
    relations = dict(relation for pair in pairs.values() for relation in pair.relations)
    return Pair(
        template.format(**{name: pair.ours for name, pair in pairs.items()}),
        template.format(**{name: pair.theirs for name, pair in pairs.items()}),
        tuple(relations.items()),
    )


def either(ours: str, theirs: str, /, **parts: Pair | str) -> Pair:
    """As `say`, where the languages differ."""
    first, second = say(ours, **parts), say(theirs, **parts)
    return Pair(first.ours, second.theirs, second.relations)


def listed(pairs: list[Pair], between: str = ", ") -> Pair:
    return say(between.join(f"{{p{i}}}" for i in range(len(pairs))), **{f"p{i}": pair for i, pair in enumerate(pairs)})


def case(kind: Kind, pair: Pair, output: str = "log", ordered: bool = False) -> Case:
    read = " ".join(sql for _, sql in pair.relations) + " " + pair.theirs
    return Case(
        kind, pair.ours, pair.theirs, pair.relations, frozenset(re.findall(r"stream_([abc])", read)), output, ordered
    )
