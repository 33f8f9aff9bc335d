"""The state of operators as named, typed values with a format number: what is kept between batches and restarts.

A class that holds state names the fields that rows and time change:

    STATE = ("times", "codes", "hash_indexes")   # in the order in which they are loaded
    ITEMS = {"runs": Run}                        # what the entries of a list are, where there are more or fewer of them
    TABLES = ("table_stores",)                   # what comes of static tables, which may also be read anew
    GROWS = True                                 # fields that an older state lacks stay as they are in a fresh object

Objects that hold others, in fields, dicts or lists, are walked into dotted names: `window_stores.a.times`. Nothing says
of which class an object is, so classes may be renamed; a field that is renamed has to keep its name here. State is
loaded into a fresh object made from the same plan, which has all that rows and time do not change. Objects are loaded
in place, so that those which two others share stay shared; `loaded`, where there is one, is called afterwards, for what
is worked out from the state, such as addresses.

As bytes: the magic word, how long the head is, a head in JSON with every name, then the arrays, each at a multiple of
64 bytes. Mapped into memory, arrays lie where they are in the file; nothing is copied.
"""

from __future__ import annotations

import json
import struct
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import DataError
from watersmeet.version import VERSION

FORMAT = 3
MAGIC = b"watersm\n"
# As Arrow's own buffers are, and enough for numbers of any type.
ALIGN = 64
_HEAD = struct.Struct("<8sq")  # the magic word, and the bytes of the JSON behind it

# How a state of an older format becomes one of the next, by the number it has.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}

PLAIN = (bool, int, float, str)
LEAVES = (*PLAIN, np.ndarray, pa.Array, pa.RecordBatch)
Values = dict[str, Any]  # by dotted name: an array of NumPy or Arrow, a record batch, or a plain value of JSON


@dataclass(frozen=True)
class Saved:
    """A state: its values by dotted name, and which version of watersmeet wrote it, in which format.

    Plain values are JSON's own; `{"list": [1, 2]}`, `{"tuple": …}` and `{"dict": …}` are containers of them. Containers
    of arrays and objects say only how many entries they have (`{"list": 3}`) or which keys, and the entries have names
    of their own.
    """

    values: Values
    format: int = FORMAT
    version: str = VERSION

    def parts(self) -> Iterator[Any]:
        """What the bytes are made of, piece by piece, without copies of arrays."""
        schemas: dict[bytes, int] = {}
        described: dict[str, Any] = {}
        buffers: list[Any] = []
        # Places are counted from the end of the head, whose length is not known until all of them are in it.
        at = 0
        for name, value in self.values.items():
            if isinstance(value, np.ndarray):
                array = value if value.flags.c_contiguous else np.ascontiguousarray(value)
                described[name] = {"array": array.dtype.str, "shape": array.shape, "at": at}
                # As bytes, because NumPy lends no buffer of dates and times.
                buffer: Any = array.reshape(-1).view(np.uint8) if array.size else b""
            elif isinstance(value, pa.Array | pa.RecordBatch):
                kind, batch = _as_batch(value)
                schema, buffer = _message(batch, schemas)
                described[name] = {kind: schema, "at": at, "size": buffer.size}
            else:
                described[name] = value
                continue
            buffers.append(buffer)
            at += _aligned(memoryview(buffer).nbytes)
        head = {
            "format": self.format,
            "version": self.version,
            "schemas": [b64encode(schema).decode() for schema in schemas],
            "values": described,
        }
        text = json.dumps(head, separators=(",", ":")).encode()
        yield from _padded(_HEAD.pack(MAGIC, len(text)) + text)
        for buffer in buffers:
            yield from _padded(buffer)

    def to_bytes(self) -> bytes:
        return b"".join(self.parts())

    @classmethod
    def from_bytes(cls, data: bytes) -> Saved:
        """A state whose arrays may be written to."""
        return cls.mapped(memoryview(bytearray(data)))

    @classmethod
    def mapped(cls, data: memoryview) -> Saved:
        """A state whose arrays lie in this memory, which must be writable if they are to be changed."""
        magic, size = _HEAD.unpack_from(data)
        if magic != MAGIC:
            raise DataError(
                "this is not a state that watersmeet has saved", hint="its first bytes are not those of one"
            )
        head = json.loads(bytes(data[_HEAD.size : _HEAD.size + size]))
        check_format(head["format"], head["version"])
        first = _aligned(_HEAD.size + size)
        schemas = [pa.ipc.read_schema(pa.py_buffer(b64decode(one))) for one in head["schemas"]]
        values = {name: _read(value, data, first, schemas) for name, value in head["values"].items()}
        for older in range(head["format"], FORMAT):
            values = UPGRADES[older](values)
        return cls(values, head["format"], head["version"])


def check_format(given: int, version: str) -> None:
    if given > FORMAT or any(older not in UPGRADES for older in range(given, FORMAT)):
        raise DataError(
            f"this state has format {given} and was written by watersmeet {version}; watersmeet {VERSION} reads "
            f"{'formats up to' if UPGRADES else 'format'} {FORMAT}",
            hint=f"go on with watersmeet {version}, or start anew with a new checkpoint",
        )


def _aligned(size: int) -> int:
    return size + -size % ALIGN


def _padded(buffer: Any) -> Iterator[Any]:
    size = memoryview(buffer).nbytes
    if size:
        yield buffer
        if size % ALIGN:
            yield bytes(-size % ALIGN)


# ---- values of Arrow ------------------------------------------------------------------------------------------------


def _as_batch(value: pa.Array | pa.RecordBatch) -> tuple[str, pa.RecordBatch]:
    if isinstance(value, pa.RecordBatch):
        return "batch", value
    return "column", pa.RecordBatch.from_arrays([value], [""])


def _message(batch: pa.RecordBatch, schemas: dict[bytes, int]) -> tuple[int, pa.Buffer]:
    """A batch in Arrow's own layout, and the number of its schema. Dictionaries only come with a whole stream."""
    number = schemas.setdefault(batch.schema.serialize().to_pybytes(), len(schemas))
    if not any(_has_dictionary(field.type) for field in batch.schema):
        return number, batch.serialize()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return number, sink.getvalue()


def _has_dictionary(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return True
    return any(_has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def _read_batch(buffer: pa.Buffer, schema: pa.Schema) -> pa.RecordBatch:
    if any(_has_dictionary(field.type) for field in schema):
        return pa.ipc.open_stream(buffer).read_next_batch()
    return pa.ipc.read_record_batch(buffer, schema)


def _read(value: Any, data: memoryview, first: int, schemas: Sequence[pa.Schema]) -> Any:
    if not isinstance(value, dict) or "at" not in value:
        return value
    start = first + value["at"]
    if "array" in value:
        kind, shape = np.dtype(value["array"]), tuple(value["shape"])
        count = int(np.prod(shape))
        flat = np.frombuffer(data, kind, count, start) if count else np.empty(0, kind)
        return flat.reshape(shape)
    schema = schemas[value["batch"] if "batch" in value else value["column"]]
    batch = _read_batch(pa.py_buffer(data[start : start + value["size"]]), schema)
    return batch if "batch" in value else batch.column(0)


# ---- from objects to names ------------------------------------------------------------------------------------------


class _MixedError(Exception):
    """A container holds more than plain values."""


def state_of(thing: Any, *, tables: bool = True) -> Saved:
    """What rows and time have changed in an object; with or without what it has of static tables."""
    values: Values = {}
    _note_object(thing, "", values, tables)
    return Saved(values)


def _note_object(thing: Any, prefix: str, values: Values, tables: bool) -> None:
    for field in _fields(thing, tables):
        _note(getattr(thing, field), prefix + field.lstrip("_"), values, tables)


def _fields(thing: Any, tables: bool) -> tuple[str, ...]:
    own: tuple[str, ...] = thing.STATE
    return (*own, *getattr(thing, "TABLES", ())) if tables else own


def _note(value: Any, name: str, values: Values, tables: bool) -> None:
    if value is None or isinstance(value, LEAVES):
        values[name] = value
    elif hasattr(value, "STATE"):
        _note_object(value, f"{name}.", values, tables)
    elif isinstance(value, dict | list | tuple | deque):
        try:
            values[name] = _plain(value)
        except _MixedError:
            _note_entries(value, name, values, tables)
    elif isinstance(value, np.generic):
        values[name] = value.item()
    else:
        raise TypeError(f"{name} is a {type(value).__name__}, which has no STATE to be saved by")


def _note_entries(container: Any, name: str, values: Values, tables: bool) -> None:
    if isinstance(container, dict):
        entries = {word_of(key): value for key, value in container.items()}
        values[name] = {"keys": list(entries)}
    else:
        entries = {str(i): value for i, value in enumerate(container)}
        values[name] = {"tuple" if isinstance(container, tuple) else "list": len(container)}
    for word, value in entries.items():
        _note(value, f"{name}.{word}", values, tables)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, PLAIN):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _plain(one) for key, one in value.items()}}
    if isinstance(value, list | deque):
        return {"list": [_plain(one) for one in value]}
    if isinstance(value, tuple):
        return {"tuple": [_plain(one) for one in value]}
    raise _MixedError


def word_of(key: Any) -> str:
    """A key as part of a name: numbers of columns as 0+1, codes as they are written in the query. Where the key has
    dots itself it is quoted, so that no two names are the same."""
    word = "+".join(map(str, key)) if isinstance(key, tuple) else str(key)
    return json.dumps(word) if "." in word or word.startswith('"') else word


# ---- and back -------------------------------------------------------------------------------------------------------


def load_state(thing: Any, saved: Saved) -> None:
    """Bring a fresh object to where another of the same plan was when it was saved."""
    _Loading(saved).load(thing, "")


class _Loading:
    def __init__(self, saved: Saved) -> None:
        self.saved = saved
        self.values = saved.values

    def load(self, thing: Any, prefix: str) -> None:
        items: Mapping[str, type] = getattr(thing, "ITEMS", {})
        for field in _fields(thing, tables=True):
            name = prefix + field.lstrip("_")
            fresh = getattr(thing, field, None)
            if field not in thing.STATE and not self._is_there(name):
                continue  # static tables that are read anew
            if getattr(thing, "GROWS", False) and not self._is_there(name):
                continue  # written before there was such a field
            value = self._value(name, fresh, items.get(field))
            # Objects and dicts were filled where they are, as others may hold them too.
            if value is not fresh or not hasattr(thing, field) or _is_worked_out(thing, field):
                _set(thing, field, value)
        if hasattr(thing, "loaded"):
            thing.loaded()

    def _is_there(self, name: str) -> bool:
        # Values and containers have an entry; an object has none, only its fields have.
        return name in self.values or any(one.startswith(f"{name}.") for one in self.values)

    def _value(self, name: str, fresh: Any, item: type | None) -> Any:
        if name not in self.values:
            return self._object(name, fresh, item)
        value = self.values[name]
        if not isinstance(value, dict):
            return value
        if "keys" in value:
            return self._dict(name, value["keys"], fresh, item)
        kind, given = next(iter(value.items()))
        # Only how many there are: the entries have names of their own.
        if isinstance(given, int):
            return self._sequence(name, kind, given, fresh, item)
        return _filled(_from_plain(value), fresh)

    def _object(self, name: str, fresh: Any, item: type | None) -> Any:
        # Items are made of their STATE alone; `__init__` would ask for more.
        found = object.__new__(item) if item is not None else fresh
        if not hasattr(found, "STATE"):
            raise self._stranger(name)
        self.load(found, f"{name}.")
        return found

    def _dict(self, name: str, words: Sequence[str], fresh: Any, item: type | None) -> Any:
        known = {word_of(key): key for key in fresh} if isinstance(fresh, dict) else {}
        held = {word: fresh[key] for word, key in known.items()}
        # Objects in a dict are made from the plan, so their keys must be the same; keys of plain values come with rows.
        if any(hasattr(one, "STATE") for one in held.values()) and set(known) != set(words):
            raise self._stranger(name)
        found = {known.get(word, word): self._value(f"{name}.{word}", held.get(word), item) for word in words}
        return _filled(found, fresh)

    def _sequence(self, name: str, kind: str, size: int, fresh: Any, item: type | None) -> Any:
        held = list(fresh) if item is None and isinstance(fresh, Sequence) and len(fresh) == size else [None] * size
        found = [self._value(f"{name}.{i}", held[i], item) for i in range(size)]
        return tuple(found) if kind == "tuple" else _filled(found, fresh)

    def _stranger(self, name: str) -> DataError:
        return DataError(
            f"this state, which watersmeet {self.saved.version} wrote in format {self.saved.format}, does not fit the "
            f"query: {name!r} is not there, or is of another kind",
            hint=f"go on with watersmeet {self.saved.version}, or start anew with a new checkpoint",
        )


def _filled(found: Any, fresh: Any) -> Any:
    """What was found, in the container that is there: others may hold it too, and a queue knows its length."""
    if isinstance(fresh, deque):
        fresh.clear()
        fresh.extend(found)
        return fresh
    if isinstance(fresh, dict) and isinstance(found, dict):
        fresh.clear()
        fresh.update(found)
        return fresh
    return found


def _from_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind, given = next(iter(value.items()))
    if kind == "dict":
        return {key: _from_plain(one) for key, one in given.items()}
    found = [_from_plain(one) for one in given]
    return tuple(found) if kind == "tuple" else found


def _is_worked_out(thing: Any, field: str) -> bool:
    """Whether a field is made whenever it is asked for, so that filling it is not enough."""
    return getattr(getattr(type(thing), field, None), "fset", None) is not None


def _set(thing: Any, field: str, value: Any) -> None:
    object.__setattr__(thing, field, value)  # values may be frozen
