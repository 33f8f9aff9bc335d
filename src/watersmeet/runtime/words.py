"""A stream or table whose source is said in words of Python: what CREATE … WITH (…) says, with the same checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from watersmeet.errors import SqlError
from watersmeet.model.catalog import Catalog
from watersmeet.runtime.script import Opener, declare
from watersmeet.sql.syntax import CreateStream, CreateTable, Setting

_NOWHERE = (0, 0)


def declare_in_words(
    name: str,
    schema: pa.Schema | None,
    words: Mapping[str, Any],
    catalog: Catalog,
    opener: Opener,
    *,
    is_table: bool = False,
    replace: bool = False,
) -> None:
    """Add it to the catalog. Words that are None were not said."""
    options = {word: as_text(value) for word, value in words.items() if value is not None}
    settings = tuple(Setting(word, text, _NOWHERE) for word, text in options.items())
    kind = CreateTable if is_table else CreateStream
    statement = kind(name, schema, options, _NOWHERE, _NOWHERE, settings, replace)
    try:
        declare(statement, catalog, "", opener=opener)
    except SqlError as error:
        error.sql = error.span = None  # there is no text to point into
        raise


def as_text(value: Any) -> str:
    """A value as WITH (…) has it.

    >>> as_text(True), as_text(timedelta(seconds=2)), as_text(["a", "b"]), as_text({"k": 5})
    ('true', '2000000 microseconds', 'a, b', 'k: 5')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {one}" for key, one in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)
