"""A connector of one's own, by name in SQL and in Python."""

from __future__ import annotations

from watersmeet.errors import OptionError
from watersmeet.io.connectors import registry
from watersmeet.io.connectors.contract import Connector, NumberedSink, Options, PartitionedSource
from watersmeet.io.connectors.guarded import check_derived
from watersmeet.io.path_formats import ALIASES, KINDS
from watersmeet.io.providers import is_provided

_BASES = {"source": PartitionedSource, "sink": NumberedSink}
_TAKEN = frozenset({*KINDS, *ALIASES, "console", "orc", "text", "rate", "socket", "noop", "memory"})


def register_connector(connector: Connector) -> None:
    """Make a connector known in this process: `source = '…'` and `sink = '…'` then name it, in SQL and in Python.

    connector: its name and what opens its halves, see `watersmeet.io.connectors.contract` and "Add a connector" in
    CONTRIBUTING.md. The same name again takes the place of the one before. On a cluster of Spark its module must be
    there on every machine, as rows are read where they are joined.

    >>> import pyarrow as pa
    >>> import watersmeet as wm
    >>> from watersmeet.io.connectors.contract import Connector, Options
    >>> def load(opening):
    ...     return pa.table({"k": [1, 2], "word": [opening.options["word"]] * 2})
    >>> wm.register_connector(Connector("words", table=load, table_options=Options(("word",))))
    >>> session = wm.Session()
    >>> session.table("t", source="words", word="hello")
    >>> session.stream("s", pa.table({"k": [2, 3], "ts": pa.array([0, 1], pa.timestamp("us"))}), time="ts")
    >>> list(session.sql("SELECT s.k, t.word FROM s, t WHERE s.k = t.k"))
    [{'k': 2, 'word': 'hello'}]
    """
    if not isinstance(connector, Connector):
        raise OptionError(
            f"register_connector was given a {type(connector).__name__}, not a Connector",
            hint="make one: Connector('mine', source=…, source_options=Options(('path',)))",
        )
    _check_halves(connector)
    if not isinstance(connector.name, str) or connector.name.lower() in _TAKEN or is_provided(connector.name):
        raise OptionError(f"{connector.name!r} is the name of a format or sink that is always there", hint="another?")
    registry.register(connector)


def _check_halves(connector: Connector) -> None:
    halves = {half: getattr(connector, half) for half in ("source", "sink", "table")}
    if not any(halves.values()):
        raise OptionError(f"connector {connector.name!r} has neither a source nor a sink nor a table")
    for half, opener in halves.items():
        if opener is not None and not callable(opener) and not (isinstance(opener, str) and ":" in opener):
            raise OptionError(
                f"the {half} of connector {connector.name!r} is a {type(opener).__name__}",
                hint="give a function, or where one is: 'package.module:function'",
            )
        if isinstance(opener, type) and half in _BASES:  # what a function opens is looked at when it does
            check_derived(f"the {half} of connector {connector.name!r}", opener, _BASES[half], OptionError)
        if not isinstance(getattr(connector, f"{half}_options"), Options):
            raise OptionError(
                f"{half}_options of connector {connector.name!r} are no Options", hint="Options(('path',))"
            )
