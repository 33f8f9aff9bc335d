"""Dataclasses that are made quickly.

Of the hundreds that are loaded, a query needs some seventy. The standard library writes six methods for each and
compiles them, which was a third of the time to a first result. Here it only finds the fields when a class is made;
methods that compare, show and protect are shared by all classes, and `__init__` is compiled when the first value is
made. `replace`, `fields`, `asdict`, pickles and signatures are as ever, and type checkers are shown the standard one,
which whoever needs more of it takes: fields that are no arguments or are hashed by themselves, `slots`, `order`, and
classes from which others derive with it. What is not served here is refused when a class is made.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from copy import copy
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, kw_only=False):
        if cls is None:
            return lambda cls: dataclass(cls, frozen=frozen, eq=eq, kw_only=kw_only)
        _make(cls, frozen, eq, kw_only)
        return cls


__all__ = ["dataclass"]
Method = Callable[..., Any]


def _make(cls: Any, frozen: bool, eq: bool, kw_only: bool) -> None:
    own = set(cls.__dict__)
    if not cls.__doc__:  # the standard library would write the signature there, which takes longer than all the rest
        cls.__doc__ = cls.__name__
    dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    _refuse_what_is_not_served(cls, frozen)
    cls.__is_frozen__ = frozen
    methods: dict[str, Any] = {"__repr__": _repr}
    if "__init__" not in own:
        methods |= {"__init__": _begun(cls), "__signature__": _Signature()}
    if eq:
        fields = dataclasses.fields(cls)
        compared = tuple(one.name for one in fields if one.compare)
        cls.__compared__ = _values_of(compared)
        methods |= {"__eq__": _eq, "__hash__": _hash if frozen else None}
    if frozen:
        methods |= {"__setattr__": _set, "__delattr__": _delete}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)


def _refuse_what_is_not_served(cls: Any, frozen: bool) -> None:
    for one in cls.__dataclass_fields__.values():
        if one._field_type is dataclasses._FIELD_INITVAR or not one.init or one.hash is not None:  # type: ignore[attr-defined]
            raise TypeError(f"{cls.__name__}.{one.name} needs the dataclass of the standard library")
    if any(one.__dict__.get("__is_frozen__", frozen) != frozen for one in cls.__mro__[1:]):
        raise TypeError(f"{cls.__name__}: either it and all it derives from are frozen, or none of them")


def _values_of(names: tuple[str, ...]) -> Any:
    """Tuples, which take what is the same object for equal, NaN and arrays among it."""
    if len(names) > 1:
        return attrgetter(*names)
    return staticmethod(lambda value: tuple(getattr(value, name) for name in names))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__compared__(self))


def _set(self: Any, name: str, _: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _begun(cls: Any) -> Method:
    """An `__init__` that compiles the one it stands for, and is it from then on."""

    def compile_and_call(self: Any, /, *values: Any, **named: Any) -> None:
        made = _init_of(cls)
        if cls.__init__ is compile_and_call:  # else somebody has put another before it
            cls.__init__ = made
        made(self, *values, **named)

    return compile_and_call


class _Signature:
    """What `inspect` is told of the arguments: what the standard library would write."""

    def __get__(self, one: object, cls: Any) -> inspect.Signature:
        if one is not None:  # that of its `__call__` is asked for
            raise AttributeError("__signature__")
        fields = [(one.name, one.type, copy(one)) for one in dataclasses.fields(cls)]
        return inspect.signature(dataclasses.make_dataclass(cls.__name__, fields))


def _init_of(cls: Any) -> Method:
    """Values go where an object keeps them, so that one that is frozen is made like another. No field has a name with
    underscores all around, as those that are used here beside theirs have."""
    scope: dict[str, Any] = {"__missing__": dataclasses.MISSING}
    arguments, lines = ["__self__"], ["__values__ = __self__.__dict__"]
    for one in sorted(dataclasses.fields(cls), key=attrgetter("kw_only")):
        if one.kw_only and "*" not in arguments:
            arguments.append("*")
        name, value, default = one.name, one.name, f"__default_{one.name}__"
        if one.default_factory is not dataclasses.MISSING:
            scope[default] = one.default_factory
            arguments.append(f"{name}=__missing__")
            value = f"{default}() if {name} is __missing__ else {name}"
        elif one.default is not dataclasses.MISSING:
            scope[default] = one.default
            arguments.append(f"{name}={default}")
        else:
            arguments.append(name)
        lines.append(f"__values__[{name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("__self__.__post_init__()")
    body = "".join(f"\n    {line}" for line in lines)
    exec(f"def __init__({', '.join(arguments)}):{body}", scope)
    made: Method = scope["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made
