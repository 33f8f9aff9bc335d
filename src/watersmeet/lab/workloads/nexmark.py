"""Nexmark: people, their auctions, and bids, by the rules of the published benchmark.

Which kind an event is, its id and its time follow from its number alone: of 50 events one is a person, three are
auctions, 46 are bids. The rest is drawn. Most bids go to a few hot auctions and come from a few hot bidders.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.lab.workloads.making import SECOND_US, Columns, Numbers, at_least, table

PEOPLE, AUCTIONS, EVENTS = 1, 3, 50  # of 50 events; the others are bids
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_SELLERS, HOT_AUCTIONS, HOT_BIDDERS = 4, 2, 4  # one in so many is not hot
BATCH = 100  # the hot one is the first of the latest batch
IN_FLIGHT, ACTIVE_PEOPLE, LEAD = 100, 1000, 10  # defaults of the published generator
GROUP_STEP = 953  # also its: prime, so it steps through all places of a group that is no multiple of it
PLACES = tuple(zip(
    ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
    ("AZ", "CA", "CA", "ID", "OR", "OR", "WA", "WA", "WA", "WY"),
    strict=True,
))  # fmt: skip
CHANNELS, HOT_CHANNELS = 10_000, ("Google", "Facebook", "Baidu", "Apple")


def nexmark(
    rows: int = 100_000,
    seed: int = 1,
    *,
    rate: float = 10_000.0,
    out_of_order: int = 1,
    bidders_shifted: bool = False,
) -> dict[str, pa.Table]:
    """The streams of the Nexmark benchmark: person, auction and bid, in the proportion 1 : 3 : 46.

    rows: events of all streams together.
    rate: events a second.
    out_of_order: events arrive shuffled within groups of so many; 1 keeps them in order of time.
    bidders_shifted: the published generator adds 1000 to a bidder's id twice, so that bids point at people who come
        1000 people later; by default a bidder is a person that exists, as was meant.

    People have no names of their own but are called after their ids.

    >>> streams = nexmark(rows=1000, seed=1)
    >>> {name: table.num_rows for name, table in streams.items()}
    {'person': 20, 'auction': 60, 'bid': 920}
    >>> streams["bid"].schema.names
    ['auction', 'bidder', 'price', 'channel', 'ts']
    """
    at_least("out_of_order", out_of_order, 1)
    at_least("rate", rate, 1e-6)
    rng = np.random.default_rng(seed)
    event = _arriving(rows, out_of_order)
    place = event % EVENTS
    return {
        "person": _people(rng, event[place < PEOPLE], rate),
        "auction": _auctions(rng, event[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)], rate),
        "bid": _bids(rng, event[place >= PEOPLE + AUCTIONS], rate, bidders_shifted),
    }


def _arriving(rows: int, group: int) -> Numbers:
    """The numbers of the events in the order in which they arrive."""
    arrival = np.arange(-(-rows // group) * group)
    numbers = arrival // group * group + arrival * GROUP_STEP % group
    return numbers[numbers < rows]


def _times_us(event: Numbers, rate: float) -> Numbers:
    return np.asarray(event * (SECOND_US / rate), np.int64)


def _people(rng: np.random.Generator, event: Numbers, rate: float) -> pa.Table:
    ids = _latest_person(event) + FIRST_ID
    place = pa.array(rng.integers(0, len(PLACES), event.size))
    cities, states = (pa.array(one) for one in zip(*PLACES, strict=True))
    name = pc.binary_join_element_wise("person", pa.array(ids).cast(pa.string()), " ")
    columns: Columns = {"id": ids, "name": name, "city": cities.take(place), "state": states.take(place)}
    return table(_times_us(event, rate), columns)


def _auctions(rng: np.random.Generator, event: Numbers, rate: float) -> pa.Table:
    hot = rng.integers(0, HOT_SELLERS, event.size) > 0
    seller = np.where(hot, _latest_person(event) // BATCH * BATCH, _some_person(rng, event)) + FIRST_ID
    initial = _prices(rng, event.size)
    ids = _latest_auction(event) + FIRST_ID
    times = _times_us(event, rate)
    columns: Columns = {
        "id": ids,
        "item": pc.binary_join_element_wise("item", pa.array(ids).cast(pa.string()), " "),
        "seller": seller,
        "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, event.size),
        "initial_bid": initial,
        "reserve": initial + _prices(rng, event.size),
    }
    made = table(times, columns)
    # An auction is open for up to twice as long as it takes for all in flight to be replaced.
    horizon_us = max(1, int(2 * IN_FLIGHT * EVENTS // AUCTIONS * SECOND_US / rate))
    lasts = pa.array(1000 + rng.integers(0, horizon_us, event.size), pa.duration("us"))
    return made.add_column(6, "expires", pc.add(made["ts"], lasts))


def _bids(rng: np.random.Generator, event: Numbers, rate: float, shifted: bool) -> pa.Table:
    size = event.size
    hot_auction = rng.integers(0, HOT_AUCTIONS, size) > 0
    auction = np.where(hot_auction, _latest_auction(event) // BATCH * BATCH, _some_auction(rng, event)) + FIRST_ID
    hot_bidder = rng.integers(0, HOT_BIDDERS, size) > 0
    # The second of the batch, as published: the first is its hot seller, who should not bid.
    bidder = np.where(hot_bidder, _latest_person(event) // BATCH * BATCH + 1, _some_person(rng, event))
    channels = pa.concat_arrays([
        pa.array(HOT_CHANNELS),
        pc.binary_join_element_wise("channel", pa.array(np.arange(CHANNELS)).cast(pa.string()), "-"),
    ])  # fmt: skip
    hot_channel = rng.random(size) < 0.5
    chosen = np.where(
        hot_channel, rng.integers(0, len(HOT_CHANNELS), size), len(HOT_CHANNELS) + rng.integers(0, CHANNELS, size)
    )
    columns: Columns = {
        "auction": auction,
        "bidder": bidder + FIRST_ID * (2 if shifted else 1),
        "price": _prices(rng, size),
        "channel": channels.take(pa.array(chosen)),
    }
    return table(_times_us(event, rate), columns)


def _prices(rng: np.random.Generator, size: int) -> Numbers:
    """Prices in cents, from 1 to a million dollars, evenly over their orders of magnitude."""
    return np.round(10 ** (6 * rng.random(size)) * 100).astype(np.int64)


def _latest_person(event: Numbers) -> Numbers:
    """The number, from 0, of the last person up to an event."""
    return event // EVENTS * PEOPLE + np.minimum(event % EVENTS, PEOPLE - 1)


def _latest_auction(event: Numbers) -> Numbers:
    """The number, from 0, of the last auction up to an event; -1 before the first."""
    return event // EVENTS * AUCTIONS + np.clip(event % EVENTS - PEOPLE, -1, AUCTIONS - 1)


def _some_person(rng: np.random.Generator, event: Numbers) -> Numbers:
    """One of the active people, or of the few that will come next."""
    people = _latest_person(event) + 1
    active = np.minimum(people, ACTIVE_PEOPLE)
    numbers: Numbers = people - active + rng.integers(0, active + LEAD)
    return numbers


def _some_auction(rng: np.random.Generator, event: Numbers) -> Numbers:
    """One of the auctions in flight, or of the few that will come next."""
    newest = _latest_auction(event)
    oldest = np.maximum(newest - IN_FLIGHT, 0)
    numbers: Numbers = oldest + rng.integers(0, newest - oldest + 1 + LEAD)
    return numbers
