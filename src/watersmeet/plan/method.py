"""How a join was asked to run: the options that name an algorithm of the papers, parsed for one query's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeVar

from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_interval
from watersmeet.plan.options import Options, names_for
from watersmeet.plan.published import ALGORITHMS, JoinAlgorithm, OrderRule, names_of

T = TypeVar("T")

DEFAULT_BUCKETS = 128


@dataclass(frozen=True)
class Method:
    """What OPTIONS say about one join. `auto` and `own` are the engine's own join, any other is one of the papers'.

    Mappings are by alias. An order names every input once; it is the origin's own place in it that says when a new
    row is looked at. `refresh_us` and `expire_us` are None for eager; `at_every_push` is a refresh whose moments
    the host chooses.
    """

    algorithm: str = "auto"
    buckets: Mapping[str, int] = field(default_factory=dict)
    invalidate: Mapping[str, str] = field(default_factory=dict)
    refresh_us: int | None = None
    at_every_push: bool = False
    expire_us: int | None = None
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    order_rule: OrderRule | None = None  # finds the orders, instead of the search for the cheapest
    windows: str = "closure"
    turns: str = "time"  # in which order rows are taken that are at hand
    chain: tuple[str, ...] | None = None  # the order of a pipeline, one for all rows
    bucket_budget: int | None = None  # for all inputs together; the optimizer shares it out
    expires_at_best: bool = False  # the optimizer finds the interval between passes
    # Nobody asked for the algorithm: what a new row takes by it, in ns, and what by the engine's own join.
    instead_of_own: tuple[float, float] | None = None

    @property
    def kind(self) -> JoinAlgorithm:
        """What the algorithm is, and what it can be told."""
        return ALGORITHMS[self.algorithm]

    @property
    def is_classic(self) -> bool:
        return self.kind.is_published

    @property
    def is_lazy(self) -> bool:
        return self.refresh_us is not None or self.at_every_push

    @property
    def invalidates(self) -> bool:
        """Whether arriving rows remove expired ones; otherwise passes over everything do."""
        return not self.is_lazy and self.expire_us is None and not self.expires_at_best

    @classmethod
    def of(cls, options: Options, streams: Sequence[str], tables: Sequence[str] = ()) -> Method:
        """The method for a join of these inputs, in FROM order; raises OptionError naming the option at fault."""
        inputs = [*streams, *tables]
        # Only those that differ from their defaults: others cannot contradict anything.
        given = [name for name in names_for("joining") if options.has(name)]
        if not given:
            return cls()
        if len(inputs) < 2:
            raise options.wrong(
                given[0],
                f"says how to join, but the query reads only {inputs[0]}, so there is nothing to join",
                f"leave {given[0]} out",
            )
        algorithm = _algorithm(options, given)
        rule = options.order if isinstance(options.order, OrderRule) else None
        if rule is not None and not set(rule.of) <= set(inputs):
            unknown = ", ".join(name for name in rule.of if name not in inputs)
            why = f"names {unknown}, which the query does not join"
            raise options.wrong("order", why, f"its inputs are {', '.join(inputs)}")
        orders = _orders(options, streams, tables, stays=algorithm.keeps_places)
        method = cls(
            algorithm.name,
            _buckets(options, inputs, algorithm),
            _invalidation(options, streams, algorithm),
            options.refresh_us,
            expire_us=None if options.expire_us == "auto" else options.expire_us,
            expires_at_best=options.expire_us == "auto",
            bucket_budget=_budget(options, inputs),
            orders={} if algorithm.chains or rule is not None else orders,
            order_rule=rule,
            windows=options.windows,
            turns=options.turns,
            chain=_chain(options, orders) if algorithm.chains else None,
        )
        method._check(options)
        return method

    @classmethod
    def of_no_join(cls, options: Options) -> Method:
        """For an answer that is no plain join: no option may say how to join."""
        for name in filter(options.has, names_for("joining")):
            # How often it is looked for rows that have left may be said of any answer that changes.
            if name != "expire" or options.expire_us == "auto":
                raise options.wrong(name, "is for plain joins, and this query asks for more", f"leave {name} out")
        return cls()

    def _check(self, options: Options) -> None:
        """Refuse what contradicts itself."""
        kind = self.kind
        if self.order_rule is not None and kind.is_published and not kind.loops:
            loops = ", ".join(names_of(lambda one: one.loops))
            why = f"is a rule for loops, and join = {self.algorithm!r} is none"
            raise options.wrong("order", why, f"name the inputs, as in order = 'b, a, c', or use one of auto, {loops}")
        if options.has("windows") and not kind.merges:
            raise options.wrong("windows", f"does not go with join = {self.algorithm!r}", "it goes with join = 'merge'")
        if options.has("turns") and not (kind.any_order or kind.in_turns):
            takers = ", ".join(names_of(lambda one: one.any_order or one.in_turns))
            raise options.wrong(
                "turns", f"does not go with join = {self.algorithm!r}, which follows time", f"it goes with {takers}"
            )
        if options.has("order") and kind.is_published and not (kind.loops or kind.chains):
            raise options.wrong("order", f"does not go with join = {self.algorithm!r}", "leave order out")
        if kind.tables and self.bucket_budget is not None:
            hashing = " and ".join(names_of(lambda one: one.hashes))
            raise options.wrong("buckets", f"goes with {hashing}", "write one number for each table")
        if kind.tables and len(set(self.buckets.values())) > 1:
            raise options.wrong(
                "buckets",
                f"differs by stream, but join = {self.algorithm!r} has one number",
                "write one number",
            )
        for name in filter(options.has, ("invalidate", "refresh", "expire")):
            if not kind.loops:
                loops = ", ".join(names_of(lambda one: one.loops))
                raise options.wrong(name, f"does not go with join = {self.algorithm!r}", f"it goes with {loops}")
        if options.has("invalidate") and (self.is_lazy or options.has("expire")):
            other = "refresh" if self.refresh_us is not None else "expire"
            raise options.wrong(
                "invalidate",
                f"removes expired rows at every arrival, but {other} = {options.text(other)!r} removes them in "
                "passes from time to time",
                "keep one of the two",
            )
        if self.refresh_us is not None and self.expire_us is not None and self.expire_us < self.refresh_us:
            raise options.wrong(
                "expire",
                f"is shorter than refresh = {options.text('refresh')!r}: rows would be forgotten before they are "
                "joined",
                f"write expire = '{format_interval(self.refresh_us)}' or longer, or leave it out",
            )
        late = [origin for origin, order in self.orders.items() if order[0] != origin]
        if late and not self.is_lazy and not kind.keeps_places:
            raise options.wrong(
                "order",
                f"puts new rows of {late[0]} behind {self.orders[late[0]][0]}; joined one at a time they come first",
                f"begin with {late[0]}, or join many at a time with refresh = '5 seconds'",
            )


def _algorithm(options: Options, given: Sequence[str]) -> JoinAlgorithm:
    """The engine's own join takes an order; the other options belong to the papers' loops."""
    if options.join == "auto" and options.has("windows"):
        return ALGORITHMS["merge"]
    if options.join == "auto" and options.has("turns"):
        return ALGORITHMS["w_join"]
    # Nothing names an algorithm, but an option is for the loops of the papers: hybrid takes any query.
    if options.join == "auto" and any(name != "order" for name in given):
        return ALGORITHMS["hybrid"]
    return ALGORITHMS[options.join]


def _buckets(options: Options, inputs: Sequence[str], algorithm: JoinAlgorithm) -> dict[str, int]:
    if options.buckets is None:
        return dict.fromkeys(inputs, DEFAULT_BUCKETS) if algorithm.has_buckets else {}
    if not algorithm.has_buckets:
        why = f"is for hash joins; join = {algorithm.name!r} has no buckets"
        raise options.wrong("buckets", why, "use join = 'hash'")
    return _for_each(options, "buckets", options.buckets.each, inputs, DEFAULT_BUCKETS)


def _budget(options: Options, inputs: Sequence[str]) -> int | None:
    budget = None if options.buckets is None else options.buckets.total
    if budget is not None and budget < len(inputs):
        raise options.wrong("buckets", f"is less than one for each of {len(inputs)} inputs", "give more")
    return budget


def _invalidation(options: Options, streams: Sequence[str], algorithm: JoinAlgorithm) -> dict[str, str]:
    if options.invalidate is None:
        return dict.fromkeys(streams, algorithm.invalidation)
    return _for_each(options, "invalidate", options.invalidate, streams, algorithm.invalidation)


def _for_each(options: Options, name: str, said: Mapping[str, T], inputs: Sequence[str], usual: T) -> dict[str, T]:
    """A setting per input: said for it, said for all (under the name ''), or the usual."""
    found = {_input_named(options, name, alias, inputs): value for alias, value in said.items() if alias}
    return {alias: found.get(alias, said.get("", usual)) for alias in inputs}


def _orders(
    options: Options, streams: Sequence[str], tables: Sequence[str], *, stays: bool
) -> dict[str, tuple[str, ...]]:
    """For each stream the whole order of its route. In a global order the new row moves to the front, unless it
    `stays` in its place as in the naive join."""
    if options.order is None or isinstance(options.order, OrderRule):
        # The naive join needs an order even if none is said: that of FROM.
        return dict.fromkeys(streams, (*streams, *tables)) if stays else {}
    found: dict[str, tuple[str, ...]] = {}
    for origin, names in options.order.items():
        whole = _whole_order(options, names, streams, tables)
        if origin:
            found[_input_named(options, "order", origin, streams)] = whole
            continue
        for stream in streams:
            rest = tuple(alias for alias in whole if alias != stream)
            found[stream] = whole if stays else (stream, *rest)
    missing = [stream for stream in streams if stream not in found]
    if missing:
        raise options.wrong("order", f"gives no order for {missing[0]}", f"add '; {missing[0]}: …', one per stream")
    return found


def _chain(options: Options, orders: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    # One order for all streams was spread over them unchanged, as chains keep places; here it comes together again.
    first, *others = set(orders.values())
    if others:
        why = f"differs by stream, but join = {options.join!r} has one order"
        raise options.wrong("order", why, "write one, such as order = 'b, a, c'")
    return first


def _whole_order(
    options: Options, names: Sequence[str], streams: Sequence[str], tables: Sequence[str]
) -> tuple[str, ...]:
    """Every input once; static tables that are not named come last."""
    inputs = [*streams, *tables]
    order = [_input_named(options, "order", name, inputs) for name in names]
    twice = [alias for alias in order if order.count(alias) > 1]
    if twice:
        raise options.wrong("order", f"names {twice[0]} twice", "name every input once")
    missing = [alias for alias in streams if alias not in order]
    if missing:
        raise options.wrong("order", f"does not name {', '.join(missing)}", "name every input once")
    return (*order, *(alias for alias in tables if alias not in order))


def _input_named(options: Options, option: str, name: str, inputs: Sequence[str]) -> str:
    for alias in inputs:
        if alias.lower() == name.lower():
            return alias
    raise options.wrong(option, f"names {name}, which is none of its inputs", f"they are {', '.join(inputs)}")
