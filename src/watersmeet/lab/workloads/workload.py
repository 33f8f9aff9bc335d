"""A generator as something that can be listed and asked for in words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import field
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import SourceError
from watersmeet.model.types import sql_type

FEW = 1_000  # rows, enough to see the columns


@dataclass(frozen=True)
class Workload:
    """A function that makes streams, and the names these have if nothing is changed.

    What it can be told, with which defaults, and what it is for are read off the function; `defaults` are for what has
    none there, and `called` is for a function that has another name. `tables` make what goes with the streams and has
    no times, by name.
    """

    make: Callable[..., dict[str, pa.Table]]
    streams: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    called: str = ""
    tables: Mapping[str, Callable[[], pa.Table]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.called or self.make.__name__

    @property
    def about(self) -> str:
        """The first line of the function's documentation."""
        return (inspect.getdoc(self.make) or "").split("\n", 1)[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """Names and defaults."""
        return {
            one.name: self.defaults.get(one.name, one.default)
            for one in inspect.signature(self.make).parameters.values()
        }

    def made(self, **changed: Any) -> dict[str, pa.Table]:
        """All streams."""
        return self.make(**{**self.defaults, **changed})

    def all_made(self, written: Mapping[str, str]) -> dict[str, pa.Table]:
        """All streams and tables, for parameters as they are written."""
        streams = self.made(**{name: self._value(name, text) for name, text in written.items()})
        return {**streams, **{name: make() for name, make in self.tables.items()}}

    def columns(self) -> dict[str, str]:
        """The columns of each stream and table, as CREATE would declare them."""
        # The columns are read off a few rows: nothing else declares them.
        few = self.made(**({"rows": FEW} if "rows" in self.parameters else {}))
        return {
            stream: ", ".join(f"{field.name} {sql_type(field.type)}" for field in table.schema)
            for stream, table in {**few, **{name: make() for name, make in self.tables.items()}}.items()
        }

    def table(self, stream: str | None, written: Mapping[str, str]) -> pa.Table:
        """The rows of one stream or table, for parameters as they are written in SQL."""
        if stream is not None and stream in self.tables:
            return self.tables[stream]()
        streams = self.made(**{name: self._value(name, text) for name, text in written.items()})
        if stream is None and len(streams) == 1:
            return next(iter(streams.values()))
        if stream not in streams:
            what = "says not which stream it wants" if stream is None else f"has no stream {stream!r}"
            raise SourceError(f"lab:{self.name} {what}", hint=f"stream may be {_listed(streams)}")
        return streams[stream]

    def _value(self, name: str, text: str) -> Any:
        """A parameter as the function takes it: of the type of its default, or several of it."""
        if name not in self.parameters:
            near = get_close_matches(name, self.parameters, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise SourceError(
                f"lab:{self.name} has no parameter {name!r}", hint=f"{hint}it has {', '.join(self.parameters)}"
            )
        default = self.parameters[name]
        try:
            return _parsed(text, default)
        except (ValueError, KeyError):
            raise SourceError(
                f"lab:{self.name} cannot take {name} = {text!r}", hint=f"by default it is {default!r}"
            ) from None


def _parsed(text: str, default: Any) -> Any:
    """
    >>> _parsed("10", 1), _parsed("yes", False), _parsed("1, 2.5", 1.0), _parsed("poisson", "tick")
    (10, True, (1.0, 2.5), 'poisson')
    >>> _parsed("a: 10, b: 0.5", {"a": 1.0})
    {'a': 10.0, 'b': 0.5}
    """
    if isinstance(default, str):
        return text
    if isinstance(default, Mapping):
        sample = next(iter(default.values()))
        pairs = [part.partition(":") for part in text.split(",")]
        return {name.strip(): _parsed(value.strip(), sample) for name, _, value in pairs}
    if isinstance(default, tuple) or "," in text:
        sample = (default[0] if default else 0.0) if isinstance(default, tuple) else default
        return tuple(_parsed(part.strip(), sample) for part in text.split(","))
    if isinstance(default, bool):
        return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[text.lower()]
    return int(text.replace("_", "")) if isinstance(default, int) else float(text)


def _listed(names: Mapping[str, object]) -> str:
    *most, last = [repr(name) for name in names]
    return f"{', '.join(most)} or {last}" if most else last
