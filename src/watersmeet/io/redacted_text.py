"""Scripts as they may be shown: without the secrets that stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from watersmeet.errors import SqlError
from watersmeet.io.connectors.contract import Options
from watersmeet.io.connectors.registry import connector_named, known
from watersmeet.io.connectors.secrets import is_secret
from watersmeet.model.declaration import Setting

_HALVES = ("source_options", "sink_options", "table_options")
# An option and its text in a script that cannot be read: one that is not closed goes to the end of its line.
_WRITTEN = re.compile(r"""(?P<name>'[^'\n]+'|"[^"\n]+"|[\w.]+)\s*=\s*'(?P<value>(?:[^'\n]|'')*)""")


def redacted(text: str, declared: Iterable[Sequence[Setting]]) -> str:
    """A script in which stars stand for its secrets, as many as they are long, so that places stay where they are.
    `declared`: the settings of each of its declarations."""
    for settings in declared:
        own = _options_of(settings)
        for setting in settings:
            if setting.value and not setting.value.startswith("${") and is_secret(setting.name, own):
                written = setting.value.replace("'", "''")
                text = text.replace(f"'{written}'", f"'{'*' * len(written)}'")
    return text


@contextmanager
def redacting(text: str) -> Iterator[None]:
    """A script that is read here shows no secrets in the error that it ends with, if it does."""
    try:
        yield
    except SqlError as error:
        if error.sql == text:
            error.sql = _redacted_by_names(text)
        raise


def _redacted_by_names(text: str) -> str:
    """The same by the names of options alone, of whatever connector."""
    own = [getattr(one, half) for one in known() for half in _HALVES]

    def starred(found: re.Match[str]) -> str:
        value = found["value"]
        if value.startswith("${") or not is_secret(found["name"].strip("'\""), own):
            return found[0]
        return found[0][: -len(value) or None] + "*" * len(value)

    return _WRITTEN.sub(starred, text)


def _options_of(settings: Sequence[Setting]) -> list[Options]:
    said = {setting.name.lower(): setting.value for setting in settings}
    found = [connector_named(said.get(word)) for word in ("source", "sink", "history")]
    return [getattr(one, half) for one in found if one is not None for half in _HALVES]
