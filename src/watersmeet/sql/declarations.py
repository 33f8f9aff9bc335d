"""What CREATE STREAM, CREATE TABLE and CREATE SINK declare, as the value that Python makes too."""

from __future__ import annotations

from watersmeet.model.declaration import Declaration, Kind
from watersmeet.sql.syntax import CreateSink, CreateStream, CreateTable

Declaring = CreateStream | CreateTable | CreateSink
_KINDS: dict[type, Kind] = {CreateStream: "stream", CreateTable: "table", CreateSink: "sink"}


def declaration_of(statement: Declaring, text: str) -> Declaration:
    """`text`: the script that its places are in, as it may be shown."""
    columns = None if isinstance(statement, CreateSink) else statement.schema
    replace = not isinstance(statement, CreateSink) and statement.replace
    kind = _KINDS[type(statement)]
    return Declaration(kind, statement.name, columns, statement.settings, replace, sql=text, span=statement.name_span)
