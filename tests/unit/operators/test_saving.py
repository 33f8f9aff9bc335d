"""States as named arrays: what is written is read, what cannot be is refused in words, and old ones stay readable."""

from __future__ import annotations

import json
import pickle
import re
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from tests.relays import same_state, shown
from tests.states import HERE, KINDS, batches_of, kept_state, path_of, relay_of
from watersmeet.errors import DataError
from watersmeet.operators import saving
from watersmeet.operators.contract import Operator
from watersmeet.operators.saving import ALIGN, FORMAT, Saved, load_state, state_of
from watersmeet.optimizer.plan_query import plan_query
from watersmeet.physical import nodes
from watersmeet.physical.nodes import PartitionedNode, PhysicalNode
from watersmeet.version import VERSION

FORMATS = sorted(HERE.glob("format_*"))


def gone_on(kind: str, saved: Saved) -> tuple[Operator, list[str]]:
    """What an operator of a kind answers after it was brought to a state."""
    relay = relay_of(kind)
    operator = relay.fresh(tables=False)
    operator.load(saved)
    return operator, [row for rows, marks in batches_of(relay)[1] for row in shown(operator.take(rows, marks))]


# ---- what is kept ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", FORMATS, ids=lambda folder: folder.name)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_was_kept_goes_on_to_the_right_answer(kind: str, folder: Path) -> None:
    relay = relay_of(kind)
    operator = relay.fresh()
    before, after = batches_of(relay)
    for rows, marks in before:
        list(operator.take(rows, marks))
    expected = [row for rows, marks in after for row in shown(operator.take(rows, marks))]
    assert expected
    found = gone_on(kind, kept_state(folder / path_of(kind).name))
    assert found[1] == expected
    assert found[0].kept_rows == operator.kept_rows


def test_every_kind_of_node_is_in_a_query_whose_state_is_kept() -> None:
    planned = {type(node) for kind in KINDS for node in plan_query(relay_of(kind).plan).nodes}
    known = {one for one in vars(nodes).values() if isinstance(one, type) and issubclass(one, PhysicalNode)}
    # The state of threads is that of their parts; properties/test_partitions.py saves and loads those of every kind.
    missing = sorted(one.__name__ for one in known - planned - {PhysicalNode, PartitionedNode})
    assert not missing, f"no state of {missing} is kept: add a query to KINDS in tests/states/__init__.py"


def test_there_is_a_state_of_every_kind_in_the_format_of_today() -> None:
    assert all(path_of(kind).exists() for kind in KINDS), "python -m tests.states writes them"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_now_has_the_names_and_types_of_what_is_kept(kind: str) -> None:
    """If not, this is another format: give it a number, write an upgrade, and keep states of both."""
    relay = relay_of(kind)
    operator = relay.fresh()
    for rows, marks in batches_of(relay)[0]:
        list(operator.take(rows, marks))
    now, kept = operator.save().values, kept_state(path_of(kind)).values
    # Of counters and measures there may be more: these begin at nothing.
    grown = [name for name in now if {"counters", "measures"} & set(name.split(".")) and name not in kept]
    now = {name: value for name, value in now.items() if name not in grown}
    # Values of any width lie in as many chunks as there are rows for, or in none.
    types = [{name: type(one) for name, one in values.items() if ".chunks." not in name} for values in (now, kept)]
    assert types[0] == types[1]
    arrays = [name for name, value in now.items() if isinstance(value, np.ndarray)]
    assert all((now[name].dtype, now[name].ndim) == (kept[name].dtype, kept[name].ndim) for name in arrays)


def test_a_counter_that_an_older_state_does_not_know_begins_at_nothing() -> None:
    relay = relay_of("join")
    operator = relay.fresh()
    for rows, marks in batches_of(relay)[0]:
        list(operator.take(rows, marks))
    saved = operator.save()
    older = {name: value for name, value in saved.values.items() if not name.endswith("counters.results")}
    assert len(older) == len(saved.values) - 1
    resumed = relay.fresh()
    resumed.load(replace(saved, values=older))
    assert resumed.counters.results == 0 < operator.counters.results
    assert resumed.counters.stored_rows == operator.counters.stored_rows


# ---- what is refused ------------------------------------------------------------------------------------------------


def doctored(saved: Saved, **changed: Any) -> bytes:
    """The bytes of a state with another head."""
    data = saved.to_bytes()
    size = saving._HEAD.unpack_from(data)[1]
    head = {**json.loads(data[saving._HEAD.size : saving._HEAD.size + size]), **changed}
    text = json.dumps(head).encode()
    start = saving._HEAD.pack(saving.MAGIC, len(text)) + text
    body = data[saving._aligned(saving._HEAD.size + size) :]
    return start + bytes(-len(start) % ALIGN) + body


def test_a_newer_format_is_refused_with_the_version_that_wrote_it() -> None:
    data = doctored(kept_state(path_of("join")), format=FORMAT + 1, version="9.8.7")
    written = rf"has format {FORMAT + 1} and was written by watersmeet 9\.8\.7"
    message = rf"{written}; watersmeet {VERSION} reads format(s up to)? {FORMAT}"
    with pytest.raises(DataError, match=message) as refused:
        Saved.from_bytes(data)
    assert "watersmeet 9.8.7" in str(refused.value.hint)


def test_an_older_format_is_brought_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = kept_state(path_of("join"))
    older = doctored(saved, format=FORMAT - 1)
    with pytest.raises(DataError, match=f"format {FORMAT - 1}"):
        Saved.from_bytes(older)
    monkeypatch.setitem(saving.UPGRADES, FORMAT - 1, lambda values: {**values, "considered_at": 77})
    assert Saved.from_bytes(older).values["considered_at"] == 77


@pytest.mark.parametrize(("saved", "query"), [("join", "join by order"), ("join", "groups"), ("sets", "groups")])
def test_the_state_of_another_query_is_refused_with_a_name_and_the_version(saved: str, query: str) -> None:
    with pytest.raises(DataError, match=rf"watersmeet {VERSION} wrote .* does not fit the query: '[\w.]+'"):
        relay_of(query).fresh().load(kept_state(path_of(saved)))


def test_a_pickle_is_no_state() -> None:
    with pytest.raises(DataError, match="not a state that watersmeet has saved"):
        Saved.from_bytes(pickle.dumps({"a": np.arange(9)}))


def test_nothing_that_is_kept_is_a_pickle() -> None:
    """Only what goes from Spark's driver to its workers is, of which a kit for tests looks whether it can go there,
    what these tell each other within a batch, and machine code, which a changed Numba compiles anew."""
    sources = Path(saving.__file__).parents[1]
    importing = [
        path for path in sources.rglob("*.py") if re.search(r"^\s*(import|from) pickle", path.read_text(), re.M)
    ]
    on_spark = ["connector_source.py", "file_stream.py", "messages.py", "source_packets.py", "stage.py"]
    assert sorted(path.name for path in importing) == sorted(["kept.py", "source_checks.py", *on_spark])


# ---- how objects become names ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leaf:
    STATE: ClassVar = ("numbers",)

    numbers: Any


class Tree:
    """Something of every shape that state may have."""

    STATE = ("leaf", "shared", "_leaves", "by_name", "by_columns", "queue", "mixed", "pair", "nothing", "worked_out")
    ITEMS: ClassVar = {"_leaves": Leaf}

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = self.shared = leaf
        self._leaves: list[Leaf] = []
        self.by_name = {"a": 1, "b.c": 2}
        self.by_columns: dict[tuple[int, ...], Any] = {(0, 1): np.zeros(2)}
        self.queue: deque[float] = deque(maxlen=2)
        self.mixed: list[Any] = []
        self.pair: tuple[Any, ...] | None = None
        self.nothing: Any = "something"
        self.kept = 0

    @property
    def worked_out(self) -> dict[str, int]:
        return {"kept": self.kept}

    @worked_out.setter
    def worked_out(self, words: dict[str, int]) -> None:
        self.kept = words["kept"]


def filled() -> Tree:
    tree = Tree(Leaf(np.arange(3)))
    tree._leaves = [Leaf(np.array([1.5])), Leaf(np.empty((0, 4), np.int32))]
    tree.by_name, tree.by_columns = {"b.c": 5}, {(0, 1): np.ones((2, 3))[:, ::2]}
    tree.queue.extend([1.0, float("nan"), 3.0])
    tree.mixed = [{"x": pa.array(["a", None])}, pa.array([True, None]), np.bool_(True)]
    tree.pair, tree.nothing, tree.kept = (1, ("a", None)), None, 8
    return tree


def test_everything_comes_back_where_it_belongs() -> None:
    saved = Saved.from_bytes(state_of(filled()).to_bytes())
    fresh = Tree(Leaf(np.empty(0)))
    leaf, queue = fresh.leaf, fresh.queue
    load_state(fresh, saved)
    assert fresh.leaf is fresh.shared is leaf  # loaded in place, so what was shared is
    assert (fresh.queue, fresh.queue is queue, list(fresh.queue)[1:]) == (queue, True, [3.0])
    assert np.array_equal(leaf.numbers, np.arange(3))
    assert [one.numbers.shape for one in fresh._leaves] == [(1,), (0, 4)]
    assert fresh.by_name == {"b.c": 5}
    assert np.array_equal(fresh.by_columns[0, 1], np.ones((2, 2)))
    assert (fresh.pair, fresh.nothing, fresh.kept) == ((1, ("a", None)), None, 8)
    assert fresh.mixed == [{"x": pa.array(["a", None])}, pa.array([True, None]), True]
    assert same_state(state_of(fresh), saved)
    assert "by_columns.0+1" in saved.values
    assert "leaves.1.numbers" in saved.values


def test_arrays_are_mapped_where_they_lie_and_may_be_written_to() -> None:
    memory = bytearray(state_of(filled()).to_bytes())
    mapped = Saved.mapped(memoryview(memory)).values["leaf.numbers"]
    start = np.frombuffer(memory, np.uint8).ctypes.data
    assert (mapped.ctypes.data - start) % ALIGN == 0
    mapped[0] = 0x7766554433221100
    assert b"\x00\x11\x22\x33\x44\x55\x66\x77" in memory


def test_what_has_no_state_cannot_be_saved_by_chance() -> None:
    tree = filled()
    tree.nothing = object()
    with pytest.raises(TypeError, match="nothing is a object, which has no STATE"):
        state_of(tree)
