"""Sales of department stores, shaped like the Wal*Mart logs that H02 and H04 describe, which are not public.

What is described: a store is a stream of the items it sells, open from 7:30 to 20:00; about 5000 sales an hour in the
mean over all stores; tuples of about 200 bytes; bursts. What is not is chosen here: two peaks a day, customers who
bring several items to the till, and items of which some sell much more than others.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.lab.workloads.poisson import SECOND_US, Int64s, Schedule, arrival_times

HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
OPENS, CLOSES = 7.5, 20.0  # hours
FIRST_DAY_US = 10_957 * DAY_US  # 1 January 2000
# How busy a store is by the hour of the day: it fills, is busiest at noon and after work, and empties.
BUSY = {7.5: 0.3, 9: 0.9, 12: 1.5, 14: 0.9, 15.5: 0.9, 17.5: 1.6, 19: 0.8, 20: 0.2}
BASKET = 4.0  # items a customer buys, in the mean
SCAN_SECONDS = 2.0  # between two items of a customer
ITEMS = 10_000
SKEW = 0.5
STORES = 100


def stores(
    count: int,
    *,
    days: int = 1,
    per_hour: float = 5000,
    items: int = ITEMS,
    skew: float = SKEW,
    described: bool = True,
    seed: int = 1,
) -> dict[str, pa.Table]:
    """A stream per store, `store_1` and so on; `per_hour` sales of all stores together while they are open.

    Item number i of `items` is sold in proportion to 1 / i ** `skew`. Stores, `count` of them, differ in size by a
    fifth up and down; they sell for so many `days`. The description is what makes a tuple of
    200 bytes; without `described` it is left out.

    >>> sales = stores(3)
    >>> sum(table.num_rows for table in sales.values())
    63490
    >>> sales["store_1"].schema.names
    ['store_id', 'item_id', 'price', 'quantity', 'description', 'ts']
    >>> sales["store_1"]["ts"][0].as_py().hour, sales["store_1"]["ts"][-1].as_py().hour
    (7, 19)
    """
    rng = np.random.default_rng([seed, count])
    sizes = rng.uniform(0.8, 1.2, count)
    shares = sizes / sizes.sum()
    chances = 1 / np.arange(1, items + 1) ** skew
    texts = _descriptions(items) if described else None
    prices = np.round(rng.lognormal(6.5, 0.8, items)).astype(np.int64) + 50
    made = {}
    for place in range(count):
        # A generator for each store, so that what one sells does not depend on how much the others drew.
        own = np.random.default_rng([seed, count, place])
        times = _opening_times(own, per_hour * float(shares[place]), days)
        sold = own.choice(items, times.size, p=chances / chances.sum())
        columns = {
            "store_id": np.full(times.size, place + 1),
            "item_id": sold + 1,
            "price": (prices[sold] * own.uniform(0.9, 1.1, times.size)).astype(np.int64),
            "quantity": own.geometric(0.6, times.size),
        }
        text = {} if texts is None else {"description": texts.take(pa.array(sold))}
        made[f"store_{place + 1}"] = pa.table({**columns, **text, "ts": times.astype("M8[us]")})
    return made


def sales(
    rate: float | Schedule, *, seconds: float, items: int = 1000, seed: int = 1, name: str = "sales"
) -> dict[str, pa.Table]:
    """H04's SalesStream with exponential gaps: stores, items and prices (below 10,000) all alike.

    `rate` is its rows a second, or a schedule of (rate, rows); it lasts so many `seconds`, sells so many `items`,
    and is called `name`.

    >>> sales(20, seconds=60)["sales"].schema.names
    ['store_id', 'item_id', 'price', 'quantity', 'ts']
    """
    # The name is part of the seed: two streams of one seed are different.
    rng = np.random.default_rng([seed, *name.encode()])
    times = arrival_times(rng, rate, seconds)
    columns = {
        "store_id": rng.integers(1, STORES + 1, times.size),
        "item_id": rng.integers(1, items + 1, times.size),
        "price": rng.integers(0, 10_000, times.size),
        "quantity": rng.integers(1, 6, times.size),
        "ts": times.astype("M8[us]"),
    }
    return {name: pa.table(columns)}


def favourites(share: float, *, items: int = 1000, seed: int = 1) -> dict[str, pa.Table]:
    """H04's tables FavoriteItems and FavoriteStores: the keys of this share of them.

    >>> {name: table.num_rows for name, table in favourites(0.1).items()}
    {'favorite_items': 100, 'favorite_stores': 10}
    """
    rng = np.random.default_rng([seed, items])

    def some(of: int) -> Int64s:
        return np.sort(rng.choice(of, round(share * of), replace=False)) + 1

    return {
        "favorite_items": pa.table({"item_id": some(items)}),
        "favorite_stores": pa.table({"store_id": some(STORES)}),
    }


def _opening_times(rng: np.random.Generator, per_hour: float, days: int) -> Int64s:
    """When items are sold: customers come by the hour of the day, and their items follow each other."""
    parts = []
    for day in range(days):
        customers = rng.poisson(per_hour * (CLOSES - OPENS) / BASKET)
        came = _by_the_hour(rng.random(customers)) * HOUR_US
        baskets = rng.geometric(1 / BASKET, customers)
        gaps = rng.exponential(SCAN_SECONDS * SECOND_US, int(baskets.sum()))
        scanned = np.cumsum(gaps)
        # Gaps of all customers were summed in one go; taking off the sum at one's own first item leaves one's own.
        before = np.repeat(scanned[np.cumsum(baskets) - baskets], baskets)
        times = np.repeat(came, baskets) + scanned - before
        parts.append(FIRST_DAY_US + day * DAY_US + times[times < CLOSES * HOUR_US])
    return np.sort(np.concatenate(parts)).astype(np.int64)


def _by_the_hour(chances: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Hours of the day from even chances, by inverting how busy it is up to each."""
    hours = np.linspace(OPENS, CLOSES, 751)
    busy = np.interp(hours, list(BUSY), list(BUSY.values()))
    until = np.append(0.0, np.cumsum((busy[1:] + busy[:-1]) / 2))
    return np.interp(chances, until / until[-1], hours)


def _descriptions(items: int) -> pa.Array:
    """About as many bytes as make a tuple of 200."""
    return pa.array([f"item {item + 1} ".ljust(160, ".") for item in range(items)])
