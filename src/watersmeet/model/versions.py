"""Tables with versions: a keyed stream of changes, of which the last at or before a time holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError
from watersmeet.model.names import column_named, columns_hint
from watersmeet.model.types import is_text

# How a change is written, in lower case: our own logs, Flink's kinds of rows, Debezium's letters, Delta's change feed.
PUTS = frozenset(
    {"+", "+i", "+u", "i", "insert", "u", "update", "upsert", "c", "create", "r", "read", "update_after",
     "update_postimage"}
)  # fmt: skip
DELETES = frozenset({"-", "-u", "-d", "d", "delete", "update_before", "update_preimage"})
WORDS_HINT = "it holds '+' or '-', '+I', '-U', '+U' or '-D', 'insert', 'update' or 'delete', or 'c', 'u', 'd' or 'r'"


@dataclass(frozen=True)
class Versions:
    """`key` names the columns of which each value has one version at a time, `op` the one that tells a deletion from
    the rest; without it every row is a new version. `is_table`: it was declared as a table, and is nothing else."""

    key: tuple[str, ...]
    op: str | None = None
    is_table: bool = False

    def among(self, name: str, schema: pa.Schema, time: str) -> Versions:
        """The same with the columns' own names, all of them checked."""
        key = tuple(_column(name, "key", one, schema) for one in self.key)
        if not key or len(set(key)) < len(key):
            raise CatalogError(f"the key of {name!r} is {', '.join(key)!r}; name each of its columns once")
        for one in key:
            kind = schema.field(one).type
            if one == time or pa.types.is_nested(kind):
                why = "its event time" if one == time else f"nested: {kind}"
                raise CatalogError(f"the key of {name!r} has {one!r}, which is {why}", hint="name another column")
        op = None if self.op is None else _column(name, "op", self.op, schema)
        if op is not None and not is_text(schema.field(op).type):
            raise CatalogError(f"the op {op!r} of {name!r} is {schema.field(op).type}, not text", hint=WORDS_HINT)
        return replace(self, key=key, op=op)


def _column(name: str, option: str, written: str, schema: pa.Schema) -> str:
    found = column_named(written, schema.names)
    if found is None:
        raise CatalogError(
            f"{option} names column {written!r}, which {name!r} does not have", hint=columns_hint(schema.names)
        )
    return found


def parse_key(given: str | Sequence[str]) -> tuple[str, ...]:
    """The columns of a key, in one text or several. Raises ValueError with a sentence.

    >>> parse_key("currency"), parse_key("a, b"), parse_key(["a", "b"])
    (('currency',), ('a', 'b'), ('a', 'b'))
    """
    parts = given.split(",") if isinstance(given, str) else list(given) if isinstance(given, Sequence) else []
    if not parts or not all(isinstance(part, str) and part.strip() for part in parts):
        raise ValueError(f"{given!r} is no list of columns; write key = 'currency', or 'a, b' for several")
    return tuple(part.strip() for part in parts)
