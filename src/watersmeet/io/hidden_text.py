"""Scripts as they may be shown: without the secrets that stand in them."""

from __future__ import annotations

from collections.abc import Iterable

from watersmeet.io.connectors.contract import Options
from watersmeet.io.connectors.registry import connector_named
from watersmeet.io.connectors.secrets import is_secret
from watersmeet.sql.syntax import CreateSink, CreateStream, CreateTable

_HALVES = ("source_options", "sink_options", "table_options")


def hidden(text: str, statements: Iterable[object]) -> str:
    """A script in which stars stand for its secrets, as many as they are long, so that places stay where they are."""
    for statement in statements:
        if isinstance(statement, CreateSink | CreateStream | CreateTable):
            own = _options_of(statement)
            for setting in statement.settings:
                if setting.value and not setting.value.startswith("${") and is_secret(setting.name, own):
                    written = setting.value.replace("'", "''")
                    text = text.replace(f"'{written}'", f"'{'*' * len(written)}'")
    return text


def _options_of(statement: CreateSink | CreateStream | CreateTable) -> list[Options]:
    said = {setting.name.lower(): setting.value for setting in statement.settings}
    found = [connector_named(said.get(word)) for word in ("source", "sink", "history")]
    return [getattr(one, half) for one in found if one is not None for half in _HALVES]
