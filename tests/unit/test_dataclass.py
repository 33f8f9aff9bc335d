"""Ours beside the standard library's: the same values, errors and signatures."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import re
from dataclasses import InitVar, field, replace
from functools import cached_property
from typing import Any, ClassVar

import pytest

from watersmeet.dataclass import dataclass as ours


def both(**options: bool) -> list[Any]:
    """The same class made by either."""
    made = []
    for make in (ours, dataclasses.dataclass):

        @make(**options)
        class Point:
            shared: ClassVar[int] = 7
            x: int
            y: int = 2
            names: list[str] = field(default_factory=list)
            secret: str = field(default="s", repr=False)
            note: str = field(default="", compare=False)

            @cached_property
            def total(self) -> int:
                return self.x + self.y

        made.append(Point)
    return made


@ours(frozen=True)
class Kept:
    """Pickles need a class that has a place."""

    x: int
    words: tuple[str, ...] = ()


@ours(frozen=True)
class Wider(Kept):
    y: int = 0

    def __post_init__(self) -> None:
        if self.y < 0:
            raise ValueError("below zero")


CALLS = [((1,), {}), ((1, 5), {}), ((1,), {"names": ["a"], "secret": "t"}), ((), {"x": 3, "note": "n"})]
WRONG = [((), {}), ((1, 2, [], "s", "", 6), {}), ((1,), {"z": 2}), ((1,), {"x": 2})]


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"frozen": True, "eq": False}], ids=str)
def test_values_are_those_of_the_standard_library(options: dict[str, bool]):
    mine, theirs = both(**options)
    for values, named in CALLS:
        one, other = mine(*values, **named), theirs(*values, **named)
        assert repr(one) == repr(other)
        assert dataclasses.asdict(one) == dataclasses.asdict(other)
        assert (one == mine(*values, **named)) is (other == theirs(*values, **named))
        assert one.total == other.total
        assert replace(one, x=9).x == 9
        assert copy.deepcopy(one).x == one.x
    for values, named in WRONG:
        with pytest.raises(TypeError) as told:
            theirs(*values, **named)
        with pytest.raises(TypeError, match=re.escape(str(told.value).partition("__init__")[2])):
            mine(*values, **named)
    assert inspect.signature(mine) == inspect.signature(theirs)
    assert mine(1).names is not mine(1).names
    assert (mine.__hash__ is None) is (theirs.__hash__ is None)
    assert mine.__match_args__ == theirs.__match_args__
    assert mine(1, 2) != theirs(1, 2)


def test_arguments_that_need_their_names_come_last():
    mine, theirs = both(kw_only=True)

    @ours
    class After(mine):  # type: ignore[misc, valid-type]
        z: int

    assert After(5, x=1) == After(z=5, x=1)
    assert inspect.signature(mine) == inspect.signature(theirs)
    with pytest.raises(TypeError, match="positional"):
        mine(1)


def test_what_is_not_compared_makes_no_difference():
    mine, theirs = both()
    assert (mine(1, note="a") == mine(1, note="b")) is (theirs(1, note="a") == theirs(1, note="b")) is True
    assert mine(1, secret="a") != mine(1, secret="b")


def test_a_signature_is_told_before_and_after_the_first_value():
    mine, theirs = both()
    before = inspect.signature(mine)
    mine(1)
    assert before == inspect.signature(mine) == inspect.signature(theirs)


def test_a_frozen_one_is_neither_changed_nor_lessened():
    one = Wider(1)
    for change in (lambda: setattr(one, "x", 2), lambda: setattr(one, "other", 2), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert one == Wider(1)
    assert len({Wider(1), Wider(1), Wider(2)}) == 2


def test_pickles_need_no_value_made_before():
    """A process that has only ever unpickled one compares and protects it all the same."""
    one = pickle.loads(pickle.dumps(Kept(1, ("a",))))
    assert one == Kept(1, ("a",))
    assert hash(one) == hash(Kept(1, ("a",)))


def test_one_that_is_derived_has_the_fields_of_both():
    assert repr(Wider(1, ("a",), 2)) == "Wider(x=1, words=('a',), y=2)"
    assert Wider(1) != Kept(1)
    with pytest.raises(ValueError, match="below zero"):
        Wider(1, y=-1)


def test_fields_may_have_any_name():
    @ours(frozen=True)
    class Named:
        values: int
        kept: list[int] = field(default_factory=list)
        self_: int = 1
        _kept: int = 2
        cls: int = 3
        default_kept: int = 4
        missing: int = 5

    assert vars(Named(0)) == {
        "values": 0, "kept": [], "self_": 1, "_kept": 2, "cls": 3, "default_kept": 4, "missing": 5
    }  # fmt: skip
    assert Named(0, [7], _kept=8) == replace(Named(0), kept=[7], _kept=8)


def test_own_methods_stay():
    @ours(frozen=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

    assert (repr(Own(1)), Own(1) == 5, hash(Own(1))) == ("own", True, 3)


def test_a_value_that_contains_itself_is_shown():
    @ours
    class Loop:
        inner: Any = None

    one = Loop()
    one.inner = one
    assert repr(one).endswith("Loop(inner=...)")


def test_what_it_does_not_serve_is_refused():
    for wrong in (field(init=False, default=5), field(hash=False, default=5)):
        with pytest.raises(TypeError, match="other needs the dataclass of the standard library"):
            ours(type("Point", (), {"__annotations__": {"other": int}, "other": wrong}))
    with pytest.raises(TypeError, match="other needs the dataclass of the standard library"):
        ours(type("Point", (), {"__annotations__": {"other": InitVar[int]}}))
    with pytest.raises(TypeError, match="frozen, or none"):
        ours(type("Point", (Kept,), {}))


def test_one_field_alone_is_compared_as_several_are():
    @ours
    class One:
        x: float

    nan = float("nan")
    assert One(nan) == One(nan)
    assert One(1.0) != One(2.0)


def test_values_that_are_called_have_the_signature_of_the_call():
    @ours
    class Adding:
        x: int

        def __call__(self, y: int) -> int:
            return self.x + y

    assert list(inspect.signature(Adding).parameters) == ["x"]
    assert list(inspect.signature(Adding(1)).parameters) == ["y"]


def test_whoever_stands_before_init_stays_there(monkeypatch: pytest.MonkeyPatch):
    @ours
    class Point:
        x: int

    init, called = Point.__init__, []
    monkeypatch.setattr(Point, "__init__", lambda self, *values: called.append(1) or init(self, *values))
    assert (Point(1), Point(2)) == (Point(1), Point(2))
    assert len(called) == 4
