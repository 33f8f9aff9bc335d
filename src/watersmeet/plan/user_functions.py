"""Functions and aggregates that a user brings: Python over Arrow arrays, with a name and types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, fields, is_dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError
from watersmeet.model.catalog import FUNCTIONS_OF_ALL, Stream, Table
from watersmeet.model.plain_types import is_known
from watersmeet.model.time import parse_interval
from watersmeet.model.types import arrow_type, common_type, family, sql_type
from watersmeet.model.zones import entering_type

Body = Callable[..., Any]
Kind = Literal["function", "aggregate"]
_PYTHON: dict[Any, pa.DataType] = {
    bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string(), bytes: pa.binary(), date: pa.date32(),
    datetime: pa.timestamp("us"), pa.BooleanArray: pa.bool_(), pa.Int64Array: pa.int64(), pa.Int32Array: pa.int32(),
    pa.DoubleArray: pa.float64(), pa.FloatArray: pa.float32(), pa.StringArray: pa.string(),
    pa.BinaryArray: pa.binary(), pa.Date32Array: pa.date32(), pa.TimestampArray: pa.timestamp("us"),
}  # fmt: skip


@dataclass(frozen=True)
class UserFunction:
    """A function by its name, types and version; `place` is where a query calls it, for messages.

    Two are the same if they are called so and have the same types and version: what the body does only its author
    knows, and says so by another version.
    """

    name: str
    arguments: tuple[pa.DataType, ...]
    result: pa.DataType
    body: Body = field(compare=False)
    version: str = ""
    kind: Kind = "function"
    place: str = field(default="", compare=False)
    price_ns: float | None = field(default=None, compare=False)  # for a row, if somebody has said so

    def __hash__(self) -> int:
        return hash((self.name, self.version, self.kind))

    @property
    def call_name(self) -> str:
        """What plans call it: no function of the language has a colon in its name."""
        return f"user:{self.name.lower()}"

    def check(self, given: Sequence[pa.DataType]) -> None:
        """Refuse arguments that do not fit. Raises TypeError with a sentence."""
        if len(given) != len(self.arguments):
            wanted = f"{len(self.arguments)} argument{'s' if len(self.arguments) != 1 else ''}"
            raise TypeError(f"{self.name} takes {wanted}, not {len(given)}: {self.signature}")
        for place, (have, want) in enumerate(zip(given, self.arguments, strict=True), start=1):
            if not _fits(have, want):
                raise TypeError(
                    f"{self.name} needs {sql_type(want)} as argument {place}, not {sql_type(have)}: {self.signature}"
                )

    @property
    def is_incremental(self) -> bool:
        """Whether what was brought makes instances, which are told what comes and goes."""
        return _misses(self.body) == []

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(map(sql_type, self.arguments))}) -> {sql_type(self.result)}"


def _fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether values of a type are taken as those of another without losing anything."""
    if have == want or pa.types.is_null(have):
        return True
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(want):
        return (have.tz is None) == (want.tz is None)
    return family(have) == family(want) and common_type(have, want) == want


def user_function(
    kind: Kind, name: str, body: object, arguments: object, returns: object, version: str, price: object = None
) -> UserFunction:
    """A function that was given, checked. Raises CatalogError."""
    if not isinstance(name, str) or not name.isidentifier():
        raise CatalogError(f"{name!r} cannot be the name of a {kind}", hint="letters, digits and _, as in SQL")
    missing = _misses(body) if kind == "aggregate" else None
    if missing:
        raise CatalogError(
            f"aggregate {name} has no method {' and no '.join(missing)}",
            hint="a class has add(x), which takes an array of values, remove(x) and result(), or give a function",
        )
    if missing is not None and not callable(body):
        raise CatalogError(f"aggregate {name} is one object for all groups", hint="give its class: every group has one")
    if not callable(body):
        raise CatalogError(f"{kind} {name} is to be called, and {body!r} cannot be", hint=_example(kind, name))
    if not isinstance(version, str):
        raise CatalogError(f"the version of {kind} {name} is text, not {version!r}", hint="version='2'")
    hints = _annotations(body) if missing is None else _annotations_of_methods(body)
    given = hints[:-1] if arguments is None else _listed(kind, name, arguments)
    types = tuple(_type(kind, name, f"argument {place}", one) for place, one in enumerate(given, start=1))
    if kind == "aggregate" and not types:
        raise CatalogError(f"aggregate {name} is of some values, so it has an argument", hint=_example(kind, name))
    result = _type(kind, name, "the result", hints[-1] if returns is None else returns)
    return UserFunction(name, types, result, body, version, kind, price_ns=_price_ns(name, price))


def _price_ns(name: str, price: object) -> float | None:
    if price is None:
        return None
    try:
        us = parse_interval(price) if isinstance(price, str) else 0
    except ValueError:
        us = 0
    if us <= 0:
        raise CatalogError(
            f"the price of function {name} is what it takes for a row, not {price!r}", hint="price='50 microseconds'"
        )
    return 1000.0 * us


def bring(functions: dict[str, Any], brought: UserFunction, *, replace: bool = False) -> None:
    """Make a function known among others, by name in lower case. Raises CatalogError if the name is taken."""
    from watersmeet.plan.functions import is_known

    if is_known(brought.name):
        raise CatalogError(f"{brought.name} is a function of the language", hint="give yours another name")
    if brought.name.lower() in functions and not replace:
        raise CatalogError(f"{brought.name} is brought twice", hint="another name, or replace=True, would do")
    functions[brought.name.lower()] = brought


def register_function(
    name: str,
    f: Body,
    arguments: Sequence[Any] | None = None,
    returns: Any = None,
    *,
    version: str = "",
    price: str | None = None,
    replace: bool = False,
) -> None:
    """Bring a function of your own to every session that is made after this, as `Session.function` does to one.

    >>> import pyarrow.compute as pc
    >>> import watersmeet as wm
    >>> def mail_domain(address: str) -> str:
    ...     return pc.replace_substring_regex(address, ".*@", "")
    >>> wm.register_function("mail_domain", mail_domain, replace=True)
    >>> session = wm.Session()
    >>> session.stream("s", pa.table({"who": ["a@b.org"], "ts": pa.array([0], pa.timestamp("us"))}), time="ts")
    >>> list(session.sql("SELECT mail_domain(who) AS at FROM s"))
    [{'at': 'b.org'}]
    """
    bring(FUNCTIONS_OF_ALL, user_function("function", name, f, arguments, returns, version, price), replace=replace)


def register_aggregate(
    name: str,
    f: Body,
    arguments: Sequence[Any] | None = None,
    returns: Any = None,
    *,
    version: str = "",
    replace: bool = False,
) -> None:
    """Bring an aggregate of your own to every session that is made after this, as `Session.aggregate` does to one."""
    bring(FUNCTIONS_OF_ALL, user_function("aggregate", name, f, arguments, returns, version), replace=replace)


def _annotations(body: Body) -> list[Any]:
    """What the signature says of the arguments and, last, of the result; None where it says nothing."""
    try:
        signature = inspect.signature(body, eval_str=True)
    except NameError:  # SQL's names in quotes
        signature = inspect.signature(body)
    except (TypeError, ValueError):  # of built-in functions it is not known
        return [None]
    said = [one.annotation for one in signature.parameters.values() if one.default is inspect.Parameter.empty]
    return [None if one is inspect.Parameter.empty else one for one in (*said, signature.return_annotation)]


METHODS = ("add", "remove", "result")


def _misses(body: object) -> list[str] | None:
    """Which methods of an incremental aggregate a class lacks; None if it is not meant as one."""
    missing = [one for one in METHODS if not callable(getattr(_made_by(body), one, None))]
    meant = isinstance(_made_by(body), type) and len(missing) < len(METHODS)
    return missing if meant or not missing else None


def _made_by(body: object) -> object:
    """A class, also if it is given with some of what it takes: partial(Decaying, 0.5)."""
    return body.func if isinstance(body, partial) else body


def _annotations_of_methods(body: object) -> list[Any]:
    add, result = (_annotations(getattr(_made_by(body), one)) for one in ("add", "result"))
    # Of a class the first is `self`.
    of_class = isinstance(_made_by(body), type)
    return [*add[of_class:-1], result[-1]]


def _listed(kind: str, name: str, arguments: object) -> list[Any]:
    if isinstance(arguments, str | pa.DataType | type):
        return [arguments]
    if not isinstance(arguments, Sequence):
        raise CatalogError(f"the arguments of {kind} {name} are a list of types, not {arguments!r}")
    return list(arguments)


def _type(kind: Kind, name: str, what: str, given: object) -> pa.DataType:
    found = given if isinstance(given, pa.DataType) else None
    if isinstance(given, str):
        found = arrow_type(given.strip("'\""))
    elif found is None and isinstance(given, type):
        found = _PYTHON.get(given)
    if found is None:
        missing = "is not said" if given is None else f"is {given!r}, which is no type"
        raise CatalogError(f"the type of {what} of {kind} {name} {missing}", hint=_example(kind, name))
    inside = entering_type(found)
    if not is_known(inside):
        raise CatalogError(
            f"{what} of {kind} {name} has the Arrow type {found}, which queries cannot read",
            hint=_example(kind, name),
        )
    return inside


def _example(kind: Kind, name: str) -> str:
    return f"write session.{kind}({name!r}, f, ['BIGINT'], 'DOUBLE'), or def f(x: int) -> float"


def brought_in(plan: Any) -> dict[str, UserFunction]:
    """The functions of users that a plan calls, by name in lower case, as a catalog has them. All parts of a plan are
    looked at, whatever kinds there are."""
    return {one.name.lower(): one for one in _found(plan)}


def _found(thing: Any) -> Iterator[UserFunction]:
    if isinstance(thing, UserFunction):
        yield thing
    elif isinstance(thing, list | tuple):
        for one in thing:
            yield from _found(one)
    # Streams and tables that are read call nothing, and hold what is large.
    elif is_dataclass(thing) and type(thing) not in (Stream, Table):
        for field in fields(thing):
            yield from _found(getattr(thing, field.name))
