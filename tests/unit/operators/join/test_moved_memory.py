"""Memory that kernels read by address is what they take it for, and no walk goes on over memory that has moved."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.errors import StaleResultsError
from watersmeet.model.catalog import Catalog, Stream
from watersmeet.operators.contract import Rows
from watersmeet.operators.join import keeping
from watersmeet.operators.kernels.memory import HALF_WORDS, address, writable_address
from watersmeet.operators.time_order import InTimeOrder
from watersmeet.runtime.build import build
from watersmeet.sql import bind

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
SECOND = 1_000_000
NOW_US = 100 * SECOND


def rows(count: int, at_us: int = NOW_US) -> Rows:
    times = np.full(count, at_us, np.int64)
    return Rows(
        pa.record_batch([pa.array(np.zeros(count, np.int64)), pa.array(times, SCHEMA.field(1).type)], SCHEMA), times
    )


def planned(inputs: str = "ab", options: str = "") -> Any:
    catalog = Catalog()
    for name in inputs:
        catalog.add(Stream(name, SCHEMA, time="ts"))
    sources = ", ".join(f"{name} [RANGE 10 SECONDS]" for name in inputs)
    equal = " AND ".join(f"a.k = {name}.k" for name in inputs[1:])
    return bind(f"SELECT a.k FROM {sources} WHERE {equal} {options}", catalog)


def operator(inputs: str = "ab", options: str = "") -> Any:
    return build(planned(inputs, options))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "OUTPUT_ROWS", 8)


@pytest.fixture
def walking(small_pieces: None) -> tuple[Any, Iterator[pa.RecordBatch]]:
    """A join of which one piece of results was read, and a hundred pieces wait."""
    joining = operator()
    assert list(joining.push("b", rows(40))) == []
    pieces = joining.push("a", rows(20))
    assert next(pieces).num_rows == 8
    return joining, pieces


CHANGES: dict[str, Callable[[Any], Any]] = {
    "a push to a store it walks": lambda joining: list(joining.push("b", rows(2_000))),
    "a push of its own stream": lambda joining: list(joining.push("a", rows(3))),
    "an unfinished push of its own stream": lambda joining: next(joining.push("a", rows(3))),
    "an advance that forgets rows": lambda joining: list(joining.advance({"a": NOW_US * 2, "b": NOW_US * 2})),
    "other routes": lambda joining: joining.reroute(joining.strategy),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_walk_does_not_go_on_after(change: Callable[[Any], Any], walking: tuple[Any, Iterator[Any]]) -> None:
    joining, pieces = walking
    change(joining)
    with pytest.raises(
        StaleResultsError, match=r"before all results of the last push were read\nhint: read the results"
    ):
        next(pieces)


def test_a_walk_goes_on_after_an_advance_that_forgets_nothing(walking: tuple[Any, Iterator[Any]]) -> None:
    joining, pieces = walking
    assert list(joining.advance({"a": NOW_US, "b": NOW_US})) == []
    assert sum(piece.num_rows for piece in pieces) == 20 * 40 - 8


def test_a_walk_may_be_given_up(walking: tuple[Any, Iterator[Any]]) -> None:
    joining, pieces = walking
    pieces.close()
    assert sum(piece.num_rows for piece in joining.push("a", rows(3))) == 3 * 40


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("options", ["", "OPTIONS (memory = '50 rows')"], ids=["exact", "in bounded memory"])
def test_a_walk_over_several_stores_minds_each(options: str) -> None:
    for alias in "bc":
        joining = operator("abc", options)
        for other in "bc":
            list(joining.push(other, rows(12)))
        pieces = joining.push("a", rows(10))
        next(pieces)
        list(joining.push(alias, rows(1)))
        with pytest.raises(StaleResultsError):
            next(pieces)


@pytest.mark.parametrize("join", ["nested_loop", "hash", "merge"])
def test_the_papers_joins_mind_it_too(join: str) -> None:
    ordered = operator(options=f"OPTIONS (join = '{join}')")
    assert isinstance(ordered, InTimeOrder)
    joining = ordered.inner
    batch = {"a": rows(300), "b": rows(300)}
    assert sum(piece.num_rows for piece in joining.push_together(batch)) == 300 * 300
    later = {alias: rows(300, NOW_US + 50 * SECOND) for alias in "ab"}
    pieces = joining.push_together(later)
    next(pieces)
    list(joining.push_together({alias: rows(1, NOW_US + 51 * SECOND) for alias in "ab"}))
    with pytest.raises(StaleResultsError):
        list(pieces)


WRONG = {
    "of another type": np.zeros(4, np.int32),
    "of another sign": np.zeros(4, np.uint64),
    "of floats": np.zeros(4),
    "in another byte order": np.zeros(4, ">i8"),
    "with gaps": np.zeros(8, np.int64)[::2],
    "backwards": np.zeros(8, np.int64)[::-1],
    "with gaps between its rows": np.zeros((4, 8), np.int64)[:, :4],
    "by columns": np.zeros((4, 8), np.int64).T,
}


@pytest.mark.parametrize("array", WRONG.values(), ids=WRONG.keys())
def test_the_address_of_an_array_is_refused(array: Any) -> None:
    for take in (address, writable_address):
        with pytest.raises(ValueError, match=r"a kernel reads int64 without gaps here, and was given .* with strides"):
            take(array)


def test_addresses_are_given_for_what_kernels_read() -> None:
    words, halves = np.arange(6), np.arange(6, dtype=np.int32)
    assert address(words) == words.ctypes.data
    assert address(words[2:]) == words.ctypes.data + 16
    assert address(halves, HALF_WORDS) == halves.ctypes.data
    with pytest.raises(ValueError, match="reads int32"):
        address(words, HALF_WORDS)


def test_an_array_that_may_only_be_read_is_not_written_to() -> None:
    words = np.arange(6)
    words.flags.writeable = False
    assert address(words) == words.ctypes.data
    with pytest.raises(ValueError, match=r"a kernel writes here, and was given .* read-only"):
        writable_address(words)


class MadeAnew(Mapping[Any, Any]):
    """Codes that are another array each time they are asked for, as those of rows that joins let in together. What was
    handed out is known by its address, as long as it lives."""

    def __init__(self, codes: Mapping[Any, Any]) -> None:
        self._codes = codes
        self.alive: dict[int, weakref.ref[Any]] = {}

    def __getitem__(self, code: Any) -> Any:
        made = self._codes[code].copy()
        self.alive[made.ctypes.data] = weakref.ref(made)
        return made

    def __iter__(self) -> Iterator[Any]:
        return iter(self._codes)

    def __len__(self) -> int:
        return len(self._codes)


def test_a_walk_keeps_the_very_codes_that_it_reads_by_address() -> None:
    joining = operator()
    list(joining.push("b", rows(40)))
    program, new = joining.programs["a"], rows(20)
    codes = MadeAnew(joining.door.let_in("a", new).codes)
    for _ in range(2):  # where all is described anew, and where only the new rows are elsewhere
        found = next(program.run(new.times, None, codes, joining.stores, 10_000))
        assert found.shape[1] == 20 * 40
        for table, row, column, _ in program._from_new_rows:
            kept = codes.alive[int(table[row, column])]()
            assert kept is not None, "the program has the address of an array that is gone"
