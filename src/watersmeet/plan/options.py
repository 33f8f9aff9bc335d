"""OPTIONS (name = value, …): the settings of one query, checked when made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches

from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.model.time import format_interval, parse_interval
from watersmeet.model.windows import Boundary
from watersmeet.model.zones import check_zone
from watersmeet.plan.memory import Memory

_CHOICES: dict[str, tuple[str, ...]] = {
    "boundary": ("closed", "half_open"),
    "join": (
        "auto", "nested_loop", "hash", "hybrid", "merge", "w_join", "nlw", "hw", "ripple", "xjoin", "naive",
    ),
    "windows": ("closure", "gca", "lca"),
    "pipeline": ("auto", "ita", "tpa", "nta"),
    "shed": ("auto", "none", "rand", "prob", "life", "age", "drift", "arm"),
    "allocation": ("fixed", "variable"),
    "recall": ("exact", "panes", "none"),
    "queue": ("integrated", "modular"),
}  # fmt: skip
INVALIDATIONS = ("probe", "probe_insert", "probe_all", "all")
MAX_BUCKETS = 1 << 24
_INTERVALS = {"refresh": "eager", "expire": "eager", "max_lag": "unlimited"}
_CHOSEN_BY_COST = {("expire", "auto")}
# What the engine can run today; any other value of these parses and binds, and says so when it is to run.
_RUNNABLE: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True)
class Options:
    """Every setting of a query with its default. No option ever changes the answer, except what sheds rows
    (a sub-bag of it), and `boundary` and `timezone`, which are part of what windows and times mean."""

    boundary: Boundary = "closed"
    join: str = "auto"
    buckets: str = "auto"
    invalidate: str = "auto"
    refresh: str = "eager"
    expire: str = "eager"
    order: str = "auto"
    windows: str = "closure"
    pipeline: str = "auto"
    memory: str = "unlimited"
    shed: str = "auto"
    allocation: str = "fixed"
    shed_seed: str = "1"
    recall: str = "exact"
    max_lag: str = "unlimited"
    queue: str = "integrated"
    archive: str = "none"
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise OptionError(f"option {name} = {value!r} is unknown; it may be {_listing(allowed)}")
        for name, word in _INTERVALS.items():
            value = getattr(self, name)
            if value != word and (name, value) not in _CHOSEN_BY_COST:
                _check_interval(name, value, word)
        for name, parse in _PARSED.items():
            if self.has(name):
                parse(getattr(self, name))

    def has(self, name: str) -> bool:
        """Whether an option differs from its default."""
        return bool(getattr(self, name) != _DEFAULTS[name])

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Options from what was written, names in any case."""
        known = [f.name for f in fields(cls)]
        settings: dict[str, str] = {}
        for written, value in given.items():
            name = written.lower()
            if name not in known:
                near = get_close_matches(name, known, n=1)
                meant = f"did you mean {near[0]}?" if near else f"the options are {', '.join(known)}"
                raise OptionError(f"there is no option {written!r}", hint=meant)
            settings[name] = value.lower() if name in _CHOICES else value
        return cls(**settings)  # type: ignore[arg-type]

    def changed(self) -> dict[str, str]:
        """The options that differ from their defaults."""
        return {f.name: getattr(self, f.name) for f in fields(self) if self.has(f.name)}

    def require_runnable(self) -> None:
        """Refuse settings whose operators are not there yet, rather than quietly run something else."""
        for name, values in _RUNNABLE.items():
            value = getattr(self, name)
            if value not in values:
                raise UnsupportedError(
                    f"option {name} = {value!r} is understood but cannot run yet",
                    hint=f"leave it out, or write {name} = {values[0]!r}",
                )


def bucket_budget(text: str) -> int | None:
    """`total 36`: so many buckets for all inputs together, to be shared out by cost; None if it says no total."""
    word, _, count = text.strip().partition(" ")
    return _bucket_count(text, count.strip()) if word.lower() == "total" else None


def parse_buckets(text: str) -> dict[str, int]:
    """`100` or `a:5, b:33` by alias; what is said for all stands under ''. Nothing if it says a total."""
    if bucket_budget(text) is not None:
        return {}
    return {alias: _bucket_count(text, count) for alias, count in _by_alias("buckets", text).items()}


def _bucket_count(text: str, count: str) -> int:
    if not count.isdecimal() or int(count) < 1 or int(count) > MAX_BUCKETS:
        raise OptionError(
            f"option buckets = {text!r}: {count!r} is not a number of buckets",
            hint=f"write buckets = 100, buckets = 'a:5, b:33' or buckets = 'total 36'; from 1 to {MAX_BUCKETS}",
            option="buckets",
        )
    return int(count)


def parse_invalidation(text: str) -> dict[str, str]:
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


def parse_orders(text: str) -> dict[str, tuple[str, ...]]:
    """`b,a,c` for every stream, under '', or `a: a,c,b; b: …` by the stream whose new rows go that way."""
    orders: dict[str, tuple[str, ...]] = {}
    for part in filter(None, map(str.strip, text.split(";"))):
        origin, _, listed = part.rpartition(":")
        names = tuple(name.strip() for name in listed.split(","))
        if not all(names) or origin.strip() in orders:
            raise OptionError(
                f"option order = {text!r}: {part!r} is not an order",
                hint="write order = 'b, a, c', or for each stream order = 'a: a,c,b; b: b,a,c; c: c,b,a'",
                option="order",
            )
        orders[origin.strip()] = names
    return orders


def parse_seed(text: str) -> int:
    """A whole number that chance begins with."""
    if not text.isdecimal() or int(text) >= 1 << 63:
        raise OptionError(f"option shed_seed = {text!r} is not a whole number from 0", option="shed_seed")
    return int(text)


def parse_zone(text: str) -> str:
    """The zone in which a query reads instants."""
    try:
        return check_zone(text)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        raise OptionError(f"option timezone: {message}", hint=hint or None, option="timezone") from None


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


def _check_interval(name: str, value: str, word: str) -> None:
    try:
        us = parse_interval(value)
    except ValueError as error:
        raise OptionError(f"option {name} = {value!r}: it may be {word!r} or an interval; {error}") from None
    if us <= 0:
        raise OptionError(f"option {name} = {format_interval(us)}: the interval must be longer than zero")


_PARSED: dict[str, Callable[[str], object]] = {
    "buckets": parse_buckets,
    "invalidate": parse_invalidation,
    "order": parse_orders,
    "memory": Memory.parse,
    "shed_seed": parse_seed,
    "timezone": parse_zone,
}
_DEFAULTS = {f.name: f.default for f in fields(Options)}
