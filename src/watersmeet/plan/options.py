"""OPTIONS (name = value, …): the settings of one query. Read once, where they are written, into values.

`OPTIONS` is the one table of them: what each is called, how its text is read, what may be written, and what it is for.
A new option is an entry there and a field of Options; `make golden` writes its row in docs/language.md, or in
docs/lab.md if it asks for an algorithm of the papers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, replace
from difflib import get_close_matches
from typing import Any, Literal, get_args

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError
from watersmeet.model.time import format_interval, parse_interval
from watersmeet.model.windows import Boundary
from watersmeet.model.zones import check_zone
from watersmeet.plan.memory import Memory
from watersmeet.plan.published import (
    ALGORITHMS,
    ORDER_RULES,
    OWN_PIPELINES,
    PUBLISHED_PIPELINES,
    SCHEDULES,
    VOLATILE,
    OrderRule,
)
from watersmeet.plan.spread import Spread

# K05's four (section 4), from least cleaning to most: what is probed, that and what is inserted into, all of the probed
# side, all of both.
INVALIDATIONS = ("probe", "probe_insert", "probe_all", "all")
MAX_BUCKETS = 1 << 24
MAX_THREADS = 256
MIN_PRIORITY, MAX_PRIORITY = 1e-3, 1e3

Purpose = Literal["meaning", "running", "joining", "expiry", "forgetting"]
Page = Literal["language", "lab"]
Parser = Callable[[str], Any]


@dataclass(frozen=True)
class Buckets:
    """So many for each input, by alias, or in all, to be shared out by cost. What is said for all stands under ''."""

    each: Mapping[str, int] = field(default_factory=dict)
    total: int | None = None


# ---- how texts are read -------------------------------------------------------------------------------------------


def _one_of(name: str, words: tuple[str, ...]) -> Parser:
    def parse(text: str) -> str:
        word = text.lower()
        if word not in words:
            raise OptionError(f"option {name} = {word!r} is unknown; it may be {_listing(words)}", option=name)
        return word

    return parse


def _interval(name: str, usual: str, *others: str) -> Parser:
    """Microseconds. The usual word stands for None, others for themselves."""

    def parse(text: str) -> int | str | None:
        word = text.strip().lower()
        if word == usual:
            return None
        if word in others:
            return word
        try:
            us = parse_interval(text)
        except ValueError as error:
            raise OptionError(
                f"option {name} = {text!r}: it may be {usual!r} or an interval; {error}", option=name
            ) from None
        if us <= 0:
            raise OptionError(
                f"option {name} = {format_interval(us)}: the interval must be longer than zero", option=name
            )
        return us

    return parse


def _unless(usual: str, parse: Parser) -> Parser:
    """The usual word stands for None."""
    return lambda text: None if text.strip().lower() == usual else parse(text)


def _buckets(text: str) -> Buckets:
    """`100`, `a:5, b:33` by alias, or `total 36`."""
    word, _, count = text.strip().partition(" ")
    if word.lower() == "total":
        return Buckets(total=_bucket_count(text, count.strip()))
    return Buckets({alias: _bucket_count(text, count) for alias, count in _by_alias("buckets", text).items()})


def _bucket_count(text: str, count: str) -> int:
    if not count.isdecimal() or int(count) < 1 or int(count) > MAX_BUCKETS:
        raise OptionError(
            f"option buckets = {text!r}: {count!r} is not a number of buckets",
            hint=f"write buckets = 100, buckets = 'a:5, b:33' or buckets = 'total 36'; from 1 to {MAX_BUCKETS}",
            option="buckets",
        )
    return int(count)


def _invalidation(text: str) -> dict[str, str]:
    """`probe` or `a:probe, b:all` by alias; what is said for all stands under ''."""
    said = {alias: word.lower() for alias, word in _by_alias("invalidate", text).items()}
    for word in said.values():
        if word not in INVALIDATIONS:
            raise OptionError(
                f"option invalidate = {text!r}: {word!r} is unknown; it may be {_listing(('auto', *INVALIDATIONS))}",
                hint="write invalidate = 'probe', or for each stream invalidate = 'a:probe, b:all'",
                option="invalidate",
            )
    return said


VOLATILE_OF = re.compile(r"\s*volatile\s*\((?P<names>[^()]+)\)\s*", re.IGNORECASE)


def _orders(text: str) -> dict[str, tuple[str, ...]] | OrderRule:
    """`b,a,c` for every stream, under '', or `a: a,c,b; b: …` by the stream whose new rows go that way. One word alone
    names no order, as a join has two inputs: it is a rule."""
    word = text.strip().lower()
    if word in ORDER_RULES:
        return ORDER_RULES[word]
    written = VOLATILE_OF.fullmatch(text)
    if written is not None:
        volatile = tuple(name.strip() for name in written["names"].split(","))
        return replace(VOLATILE, name=f"volatile({', '.join(volatile)})", of=volatile)
    orders: dict[str, tuple[str, ...]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        origin, _, listed = part.rpartition(":")
        names = tuple(name.strip() for name in listed.split(","))
        # A comma too many leaves an empty name.
        if not all(names) or origin.strip() in orders:
            raise OptionError(
                f"option order = {text!r}: {part!r} is not an order",
                hint="write order = 'b, a, c', or for each stream order = 'a: a,c,b; b: b,a,c; c: c,b,a'",
                option="order",
            )
        orders[origin.strip()] = names
    return orders


def _tables(text: str) -> dict[str, str]:
    """The name of a table, or one for each stream: `a: a_keys, b: b_keys`."""
    said = _by_alias("frequencies", text)
    if not all(said.values()):
        raise OptionError(
            f"option frequencies = {text!r} names no table",
            hint="write frequencies = 'keys', or for each stream frequencies = 'a: a_keys, b: b_keys'",
            option="frequencies",
        )
    return said


def _seed(text: str) -> int:
    """A whole number that chance begins with."""
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise OptionError(f"option shed_seed = {text!r} is not a whole number from 0", option="shed_seed")
    return int(text)


def _priority(text: str) -> float:
    try:
        priority = float(text)
    except ValueError:
        priority = 0.0
    if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise OptionError(
            f"option priority = {text!r} is not a number from {MIN_PRIORITY:g} to {MAX_PRIORITY:g}",
            hint="write priority = 2 if what a query finds is worth twice what others find",
            option="priority",
        )
    return priority


def _threads(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_THREADS:
        raise OptionError(
            f"option threads = {text!r} is not a number of threads",
            hint=f"write threads = 2, or as many as there are processors to use; from 1 to {MAX_THREADS}",
            option="threads",
        )
    return int(text)


def _folder(text: str) -> str:
    """A folder of this machine, or one that all machines of a cluster see under the same name."""
    path = text.removeprefix("file://")
    if not path.strip() or "\0" in path:
        raise OptionError(
            f"option archive = {text!r} is not the name of a folder",
            hint="write archive = 'archive/orders'",
            option="archive",
        )
    if "://" in path:
        raise OptionError(
            f"option archive = {text!r} is an address, not a folder",
            hint="write a path that is mounted: archive = '/mnt/archive'",
            option="archive",
        )
    return path


def _by_alias(option: str, text: str) -> dict[str, str]:
    said: dict[str, str] = {}
    for part in text.split(","):
        alias, _, value = part.rpartition(":")
        if alias.strip() in said:
            raise OptionError(
                f"option {option} = {text!r} says two things" + (f" for {alias.strip()}" if alias.strip() else ""),
                hint=f"give one value, or one for each stream: {option} = 'a: …, b: …'",
                option=option,
            )
        said[alias.strip()] = value.strip()
    return said


def _listing(values: tuple[str, ...]) -> str:
    return " or ".join(", ".join(map(repr, values)).rsplit(", ", 1))


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


# ---- the table ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """One option: its name, the field of Options that has its value, how its text is read, and what it is for. `words`
    are those that may be written, all of them or beside numbers and names of one's own. `told`: what may be written, or
    what is to be said of the words; `unless`: what holds if nothing is, where that is not the first of the words, nor
    the default of the field. `page` of docs tells it: the lab's, if it only asks for an algorithm of the papers."""

    name: str
    field: str
    purpose: Purpose
    parse: Parser
    words: tuple[str, ...] = ()
    only_words: bool = False
    told: str = ""
    unless: str = ""
    page: Page = "language"


def _choice(
    name: str, purpose: Purpose, *words: str, told: str = "", unless: str = "", page: Page = "language"
) -> Option:
    return Option(name, name, purpose, _one_of(name, words), words, True, told, unless, page)


OPTIONS: dict[str, Option] = {
    one.name: one
    for one in (
        _choice("boundary", "meaning", "closed", "half_open"),
        _choice("join", "joining", *ALGORITHMS, page="lab"),
        Option(
            "buckets", "buckets", "joining", _unless("auto", _buckets), ("auto", "total"),
            told="a number, one for each input: `'a:5, b:33'`, or `'total 36'` to be shared out by cost",
            unless="128", page="lab",
        ),
        Option(
            "invalidate", "invalidate", "joining", _unless("auto", _invalidation), ("auto", *INVALIDATIONS),
            told=f"{_quoted(INVALIDATIONS)}, or one for each stream: `'a:probe, b:all'`",
            unless="`probe_insert`", page="lab",
        ),
        Option(
            "refresh", "refresh_us", "joining", _interval("refresh", "eager"), ("eager",),
            told="`eager`, or an interval", page="lab",
        ),
        Option(
            "expire", "expire_us", "joining", _interval("expire", "eager", "auto"), ("eager", "auto"),
            told="`eager`, an interval (also [in answers that change](#when-an-answer-looks-for-rows-that-have-left)), "
            "or `auto` for the best by cost",
            page="lab",
        ),
        Option(
            "order", "order", "joining", _unless("auto", _orders), ("auto", *ORDER_RULES),
            told="`'b, a, c'`, or one for each stream: `'a: a,c,b; b: b,a,c; c: c,b,a'`; or a rule: "
            f"{_quoted(ORDER_RULES)}, `volatile(b)`",
        ),
        Option(
            "threads", "threads", "running", _threads,
            told="how many [threads](#threads) of this process may share the rows, by key, and write answers as text",
        ),
        Option(
            "spread", "spread", "running", _unless("none", Spread.parse), ("none",),
            told="keys with so many rows that several [buckets](spark.md#skew) or [threads](#threads) are to have "
            "them: `'17, 42'`, or `'orders: 17, 42'` to say whose rows are dealt out",
        ),
        _choice(
            "share", "running", "yes", "no",
            told="whether streams are [read once](several_queries.md) for this query and others of its script",
        ),
        _choice(
            "partial", "running", "no", "yes",
            told="whether a query that is [added beside others](several_queries.md#queries-come-and-go) answers before "
            "its answer is whole",
        ),
        _choice("windows", "joining", "closure", "gca", "lca", page="lab"),
        _choice("turns", "joining", "time", "round_robin", page="lab"),
        _choice("pipeline", "expiry", *OWN_PIPELINES, *PUBLISHED_PIPELINES, page="lab"),
        _choice(
            "schedule", "expiry", *SCHEDULES,
            told="[who runs next](#how-expiry-is-noticed) among H04's operators as printed", page="lab",
        ),
        Option(
            "memory", "memory", "forgetting", _unless("unlimited", Memory.parse), ("unlimited",),
            told="`'100000 rows'`, or `'64 MB'` (bytes, KB, MB, GB; KiB, MiB, GiB)",
        ),
        _choice("when_full", "forgetting", "shed", "spill", told="what happens to rows beyond the bound"),
        _choice(
            "shed", "forgetting", "auto", "none", "rand", "prob", "life", "age", "drift", "arm",
            unless="`auto`: `prob` where there is a bound on memory",
        ),
        Option(
            "frequencies", "frequencies", "forgetting", _unless("counted", _tables), ("counted",),
            told="[how often keys come](shedding.md#how-often-keys-come): the static table that says so, or one for "
            "each stream: `'a: a_keys, b: b_keys'`",
            unless="`counted` as they come",
        ),
        _choice("allocation", "forgetting", "fixed", "variable"),
        Option("shed_seed", "shed_seed", "forgetting", _seed, told="a whole number"),
        _choice("recall", "forgetting", "exact", "panes", "none"),
        Option(
            "max_lag", "max_lag_us", "forgetting", _interval("max_lag", "unlimited"), ("unlimited",),
            told="an interval",
        ),
        Option(
            "priority", "priority", "forgetting", _priority,
            told="how much the recall of the query counts among those that "
            "[share memory](shedding.md#memory-that-queries-share)",
        ),
        _choice("queue", "forgetting", "integrated", "modular"),
        Option("archive", "archive", "forgetting", _unless("none", _folder), ("none",), told="a folder"),
        Option(
            "timezone", "timezone", "meaning", check_zone,
            told="the name of a [zone](#zones), such as `'Europe/Berlin'`",
            unless="that of the session, else `UTC`",
        ),
        _choice(
            "emit", "meaning", "complete", "changes",
            told="how [groups of windows](#tumbling-hopping-and-session-windows) are given",
        ),
    )
}  # fmt: skip


def documented(page: Page) -> list[str]:
    """The lines of the table in a page of docs: what is part of the meaning first."""
    told = [one for one in OPTIONS.values() if one.page == page]
    return [_line(one) for purpose in get_args(Purpose) for one in told if one.purpose == purpose]


def _line(one: Option) -> str:
    told = ": ".join(filter(None, (_quoted(one.words), one.told))) if one.only_words else one.told
    usual = f"`{one.words[0]}`" if one.words else str(_DEFAULTS[one.field])
    return f"| `{one.name}` | {told} | {one.unless or usual} |"


def names_for(purpose: Purpose) -> tuple[str, ...]:
    return tuple(one.name for one in OPTIONS.values() if one.purpose == purpose)


@dataclass(frozen=True)
class Options:
    """Every setting of a query with its default, as values. No option ever changes the answer, except what sheds rows
    (a sub-bag of it), and `boundary`, `timezone` and `emit`, which are part of what windows and times mean.

    `written` has the texts that were given, for EXPLAIN and errors; nothing is read from it again. `places` is where
    each stands in the text of the query."""

    boundary: Boundary = "closed"
    join: str = "auto"
    buckets: Buckets | None = None
    invalidate: Mapping[str, str] | None = None
    refresh_us: int | None = None
    expire_us: int | Literal["auto"] | None = None
    order: Mapping[str, tuple[str, ...]] | OrderRule | None = None
    threads: int = 1
    spread: Spread | None = None
    share: str = "yes"
    partial: str = "no"
    windows: str = "closure"
    turns: str = "time"
    pipeline: str = "auto"
    schedule: str = "pull"
    memory: Memory | None = None
    when_full: str = "shed"
    shed: str = "auto"
    frequencies: Mapping[str, str] | None = None
    allocation: str = "fixed"
    shed_seed: int = 1
    recall: str = "exact"
    max_lag_us: int | None = None
    priority: float = 1.0
    queue: str = "integrated"
    archive: str | None = None
    timezone: str = "UTC"
    emit: str = "complete"
    written: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for one in OPTIONS.values():
            # Those made in code have not been read by the table.
            if one.only_words:
                one.parse(getattr(self, one.field))

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Options from what was written, names in any case; an OptionError carries the name of the option at fault."""
        values: dict[str, Any] = {}
        written: dict[str, str] = {}
        for name, text in given.items():
            option = _named(name)
            values[option.field] = option.parse(text)
            # In lower case where only certain words may stand, so that EXPLAIN prints them as the docs do.
            written[option.name] = values[option.field] if option.only_words else text
        return cls(**values, written=written)

    def has(self, name: str) -> bool:
        """Whether an option differs from its default."""
        one = OPTIONS[name].field
        # Compared with the default, not with what was written: `join = 'auto'` asks for nothing.
        return bool(getattr(self, one) != _DEFAULTS[one])

    def text(self, name: str) -> str:
        """An option as it was written, or its value as text."""
        return self.written.get(name, str(getattr(self, OPTIONS[name].field)))

    def changed(self) -> dict[str, str]:
        """The options that differ from their defaults, as they were written."""
        return {name: self.text(name) for name in OPTIONS if self.has(name)}

    def but(self, **values: Any) -> Options:
        """The same with other values of some fields, whose texts are then no longer those written."""
        kept = {name: text for name, text in self.written.items() if OPTIONS[name].field not in values}
        return replace(self, **values, written=kept)

    def wrong(self, name: str, why: str, hint: str) -> OptionError:
        """What to raise for an option that does not fit the query or the other options."""
        return OptionError(f"option {name} = {self.text(name)!r} {why}", hint=hint, option=name)


_DEFAULTS = {one.name: one.default for one in fields(Options)}


def _named(written: str) -> Option:
    found = OPTIONS.get(written.lower())
    if found is None:
        near = get_close_matches(written.lower(), OPTIONS, n=1)
        meant = f"did you mean {near[0]}?" if near else f"the options are {', '.join(OPTIONS)}"
        raise OptionError(f"there is no option {written!r}", hint=meant, option=written.lower())
    return found
