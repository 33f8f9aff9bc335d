"""OPTIONS (name = value, …): the settings of one query, checked when made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches

from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.model.time import format_interval, parse_interval
from watersmeet.model.windows import Boundary

_CHOICES: dict[str, tuple[str, ...]] = {
    "boundary": ("closed", "half_open"),
    "join": ("auto", "nested_loop", "hash", "hybrid", "merge"),
    "invalidate": ("auto", "probe", "probe_insert", "probe_all", "all"),
    "windows": ("closure", "gca", "lca"),
    "pipeline": ("auto", "ita", "tpa", "nta"),
    "shed": ("none", "rand", "prob", "life"),
    "allocation": ("fixed", "variable"),
}
_INTERVALS = {"refresh": "eager", "expire": "eager"}
# What the engine can run today; any other value of these parses and binds, and says so when it is to run.
_RUNNABLE = {
    "join": ("auto",), "buckets": ("auto",), "invalidate": ("auto",), "refresh": ("eager",), "expire": ("eager",),
    "order": ("auto",), "windows": ("closure",), "pipeline": ("auto", "ita", "tpa", "nta"), "memory": ("unlimited",),
    "shed": ("none",), "allocation": ("fixed",), "archive": ("none",),
}  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Every setting of a query with its default. No option ever changes the answer, except what sheds rows
    (a sub-bag of it) and `boundary`, which is part of the windows' meaning."""

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
    shed: str = "none"
    allocation: str = "fixed"
    archive: str = "none"

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise OptionError(f"option {name} = {value!r} is unknown; it may be {_listing(allowed)}")
        for name, word in _INTERVALS.items():
            value = getattr(self, name)
            if value != word:
                _check_interval(name, value, word)

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
        default = Options()
        names = [f.name for f in fields(self)]
        return {name: getattr(self, name) for name in names if getattr(self, name) != getattr(default, name)}

    def require_runnable(self) -> None:
        """Refuse settings whose operators are not there yet, rather than quietly run something else."""
        for name, values in _RUNNABLE.items():
            value = getattr(self, name)
            if value not in values:
                raise UnsupportedError(
                    f"option {name} = {value!r} is understood but cannot run yet",
                    hint=f"leave it out, or write {name} = {values[0]!r}",
                )


def _listing(values: tuple[str, ...]) -> str:
    return " or ".join(", ".join(map(repr, values)).rsplit(", ", 1))


def _check_interval(name: str, value: str, word: str) -> None:
    try:
        us = parse_interval(value)
    except ValueError as error:
        raise OptionError(f"option {name} = {value!r}: it may be {word!r} or an interval; {error}") from None
    if us <= 0:
        raise OptionError(f"option {name} = {format_interval(us)}: the interval must be longer than zero")
