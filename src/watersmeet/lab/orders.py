"""The join-order advisor: streams given by their numbers, all orders ranked."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from watersmeet.errors import OptionError, WatersmeetError
from watersmeet.optimizer.cost.inputs import JoinGraph, Key, StreamRate, Theta
from watersmeet.optimizer.join_order import MOST_STREAMS
from watersmeet.papers.orders.advise import advice_text, advise, lazy_text

NUMBERS = "NAME:λ,T,v or NAME:λ,T,v,b"
PREDICATE = "A,B:share,cost"


def rank_orders(
    streams: Sequence[str],
    limit: int | None = None,
    *,
    equal: Sequence[str] = (),
    predicates: Sequence[str] = (),
    interval: float | None = None,
) -> str:
    """A table of all orders, cheapest first, and what the rules of GO03 take.

    The streams share one attribute, as in GO03, unless `equal` lists those that are equal on one, as "a,b" and "b,c".
    predicates: others, as "a,c:0.3,50": the share of pairs that pass, and what a test costs in comparisons.
    interval: new rows are joined together once in so many units of time, too.

    >>> print(rank_orders(["a:1,100,50", "b:2,100,50", "c:9,100,50"]).splitlines()[1])
       1  a, b, c  12100.0     1.00  selectivity heuristic, augmented heuristic
    >>> dear = rank_orders(["a:1,10,5", "b:1,10,5", "c:1,10,5"], equal=["a,b"], predicates=["b,c:0.5,100"])
    >>> print(*dear.splitlines()[-4:], sep="\\n")
    by the rule expensive predicates, for each origin: 4110.0, 1.00 of the best
      a, b, c
      b, c, a
      c, b, a
    """
    if not 2 <= len(streams) <= MOST_STREAMS:
        raise OptionError(f"{len(streams)} streams were given", hint=f"give 2 to {MOST_STREAMS}, each as {NUMBERS}")
    if interval is not None and not isfinite(interval):
        raise OptionError(f"an interval of {interval} is none", hint="give units of time, such as --interval 10")
    rates = tuple(_stream(text) for text in streams)
    keys = tuple(_key(text, rates) for text in equal or ([] if predicates else [",".join(one.name for one in rates)]))
    try:
        graph = JoinGraph(rates, keys, tuple(_predicate(text) for text in predicates))
        text = advice_text(advise(graph), limit)
        return text if interval is None else f"{text}\n{lazy_text(graph, interval)}"
    except OptionError:
        raise
    except WatersmeetError as error:
        # What the models refuse was written in the command.
        raise OptionError(str(error)) from None


def _stream(text: str) -> StreamRate:
    name, _, numbers = text.partition(":")
    try:
        rate, window, distinct, *buckets = given = [float(number) for number in numbers.split(",")]
        whole = len(buckets) <= 1 and all(one.is_integer() for one in buckets)
        if name and whole and all(map(isfinite, given)):
            return StreamRate(name.strip(), rate, window, distinct, *map(int, buckets))
    except ValueError:
        pass
    raise OptionError(
        f"{text!r} is no stream",
        hint=f"write {NUMBERS}: rows a unit of time, units in the window, values of the attribute, buckets",
    )


def _key(text: str, streams: Sequence[StreamRate]) -> Key:
    names = _names(text)
    known = {one.name: one.distinct for one in streams}
    unknown = [name for name in names if name not in known]
    if len(names) < 2 or unknown:
        raise OptionError(
            f"{text!r} does not name two streams or more that are equal on an attribute",
            hint=f"write them as a,b; the streams are {', '.join(known)}",
        )
    return Key({name: known[name] for name in names})


def _predicate(text: str) -> Theta:
    names, _, numbers = text.partition(":")
    try:
        share, cost = (float(number) for number in numbers.split(","))
    except ValueError:
        raise OptionError(
            f"{text!r} is no predicate",
            hint=f"write {PREDICATE}: its streams, the share of pairs that pass, what a test costs in comparisons",
        ) from None
    return Theta(frozenset(_names(names)), share, cost)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
