"""The join-order advisor: streams given by their numbers, all orders ranked."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.errors import OptionError
from watersmeet.optimizer.cost.inputs import StreamRate
from watersmeet.optimizer.join_order import MOST_STREAMS
from watersmeet.papers.orders.advise import advice_text, advise

NUMBERS = "NAME:λ,T,v or NAME:λ,T,v,b"


def rank_orders(streams: Sequence[str], limit: int | None = None) -> str:
    """A table of all orders, cheapest first; the streams share one attribute, as in GO03.

    >>> print(rank_orders(["a:1,100,50", "b:2,100,50", "c:9,100,50"]).splitlines()[1])
       1  a, b, c  12100.0     1.00  selectivity heuristic, augmented heuristic
    """
    if not 2 <= len(streams) <= MOST_STREAMS:
        raise OptionError(f"{len(streams)} streams were given", hint=f"give 2 to {MOST_STREAMS}, each as {NUMBERS}")
    return advice_text(advise([_stream(text) for text in streams]), limit)


def _stream(text: str) -> StreamRate:
    name, _, numbers = text.partition(":")
    try:
        rate, window, distinct, *buckets = [float(number) for number in numbers.split(",")]
        if name and len(buckets) <= 1 and all(one.is_integer() for one in buckets):
            return StreamRate(name.strip(), rate, window, distinct, *map(int, buckets))
    except ValueError:
        pass
    raise OptionError(
        f"{text!r} is no stream",
        hint=f"write {NUMBERS}: rows a unit of time, units in the window, values of the attribute, buckets",
    )
