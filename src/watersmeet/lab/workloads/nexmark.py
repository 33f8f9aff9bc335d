"""Nexmark: people, their auctions, and bids, by the rules of the published benchmark.

Which kind an event is, its id and its time follow from its number alone: of 50 events one is a person, three are
auctions, 46 are bids. The rest is drawn. Most bids go to a few hot auctions and come from a few hot bidders.

The rules, and the numbers in them, are those of the generators of Apache Beam and of nexmark-flink. Times are in
microseconds here, not cut to milliseconds, and all letters are from a to z.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.lab.workloads.making import SECOND_US, Columns, Numbers, at_least, table
from watersmeet.lab.workloads.texts import filled_up, joined, words

PEOPLE, AUCTIONS, EVENTS = 1, 3, 50  # of 50 events; the others are bids
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_SELLERS, HOT_AUCTIONS, HOT_BIDDERS = 4, 2, 4  # one in so many is not hot
BATCH = 100  # the hot one is the first of the latest batch
IN_FLIGHT, ACTIVE_PEOPLE, LEAD = 100, 1000, 10  # defaults of the published generator
GROUP_STEP = 953  # also its: prime, so it steps through all places of a group that is no multiple of it
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
CHANNELS, HOT_CHANNELS = 10_000, ("Google", "Facebook", "Baidu", "Apple")
WITHOUT_ID = 10  # of so many channels one does not tell its id in its addresses
PERSON_BYTES, AUCTION_BYTES, BID_BYTES = 200, 500, 100  # of a row, on average; `extra` fills it up
NUMBER_BYTES = 8
SIDE_ROWS = 10_000


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

    >>> streams = nexmark(rows=1000, seed=1)
    >>> {name: table.num_rows for name, table in streams.items()}
    {'person': 20, 'auction': 60, 'bid': 920}
    >>> streams["bid"].schema.names
    ['auction', 'bidder', 'price', 'channel', 'url', 'extra', 'ts']
    """
    at_least("out_of_order", out_of_order, 1)
    at_least("rate", rate, 1e-6)
    # Numbers and texts are drawn apart, so that what is drawn of one does not change the other.
    rng, texts = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    event = _arriving(rows, out_of_order)
    place = event % EVENTS
    return {
        "person": _people(texts, event[place < PEOPLE], rate),
        "auction": _auctions(rng, texts, event[(place >= PEOPLE) & (place < PEOPLE + AUCTIONS)], rate),
        "bid": _bids(rng, texts, event[place >= PEOPLE + AUCTIONS], rate, bidders_shifted),
    }


def nexmark_side_input(rows: int = SIDE_ROWS) -> pa.Table:
    """The table that query 13 looks numbers up in: each number from 0 on, and the same as text.

    >>> nexmark_side_input(rows=2).to_pylist()
    [{'key': 0, 'value': '0'}, {'key': 1, 'value': '1'}]
    """
    key = pa.array(np.arange(rows))
    return pa.table({"key": key, "value": key.cast(pa.string())})


def _arriving(rows: int, group: int) -> Numbers:
    """The numbers of the events in the order in which they arrive."""
    arrival = np.arange(-(-rows // group) * group)
    numbers = arrival // group * group + arrival * GROUP_STEP % group
    return numbers[numbers < rows]


def _times_us(event: Numbers, rate: float) -> Numbers:
    return np.asarray(event * (SECOND_US / rate), np.int64)


def _people(texts: np.random.Generator, event: Numbers, rate: float) -> pa.Table:
    size = event.size
    columns: Columns = {
        "id": _latest_person(event) + FIRST_ID,
        "name": joined(" ", _one_of(texts, FIRST_NAMES, size), _one_of(texts, LAST_NAMES, size)),
        "email_address": joined("", words(texts, size, 7), "@", words(texts, size, 5), ".com"),
        "credit_card": joined(" ", *(_four_digits(texts, size) for _ in range(4))),
        "city": _one_of(texts, CITIES, size),
        "state": _one_of(texts, STATES, size),
    }
    columns["extra"] = filled_up(texts, _bytes(columns, NUMBER_BYTES), PERSON_BYTES)
    return table(_times_us(event, rate), columns)


def _auctions(rng: np.random.Generator, texts: np.random.Generator, event: Numbers, rate: float) -> pa.Table:
    size = event.size
    hot = rng.integers(0, HOT_SELLERS, size) > 0
    seller = np.where(hot, _latest_person(event) // BATCH * BATCH, _some_person(rng, event)) + FIRST_ID
    initial = _prices(rng, size)
    category = FIRST_CATEGORY + rng.integers(0, CATEGORIES, size)
    reserve = initial + _prices(rng, size)
    # An auction is open for up to twice as long as it takes for all in flight to be replaced.
    horizon_us = max(1, int(2 * IN_FLIGHT * EVENTS // AUCTIONS * SECOND_US / rate))
    lasts = pa.array(1000 + rng.integers(0, horizon_us, size), pa.duration("us"))
    named: Columns = {"item_name": words(texts, size, 20), "description": words(texts, size, 100)}
    columns: Columns = {
        "id": _latest_auction(event) + FIRST_ID,
        **named,
        "seller": seller,
        "category": category,
        "initial_bid": initial,
        "reserve": reserve,
        "extra": filled_up(texts, _bytes(named, 6 * NUMBER_BYTES), AUCTION_BYTES),
    }
    made = table(_times_us(event, rate), columns)
    return made.add_column(7, "expires", pc.add(made["ts"], lasts))


def _bids(rng: np.random.Generator, texts: np.random.Generator, event: Numbers, rate: float, shifted: bool) -> pa.Table:
    size = event.size
    hot_auction = rng.integers(0, HOT_AUCTIONS, size) > 0
    auction = np.where(hot_auction, _latest_auction(event) // BATCH * BATCH, _some_auction(rng, event)) + FIRST_ID
    hot_bidder = rng.integers(0, HOT_BIDDERS, size) > 0
    # The second of the batch, as published: the first is its hot seller, who should not bid.
    bidder = np.where(hot_bidder, _latest_person(event) // BATCH * BATCH + 1, _some_person(rng, event))
    hot_channel = rng.random(size) < 0.5
    chosen = pa.array(
        np.where(
            hot_channel, rng.integers(0, len(HOT_CHANNELS), size), len(HOT_CHANNELS) + rng.integers(0, CHANNELS, size)
        )
    )
    channels, urls = _channels(texts)
    columns: Columns = {
        "auction": auction,
        "bidder": bidder + FIRST_ID * (2 if shifted else 1),
        "price": _prices(rng, size),
        "channel": channels.take(chosen),
        "url": urls.take(chosen),
        "extra": filled_up(texts, np.full(size, 4 * NUMBER_BYTES), BID_BYTES),
    }
    return table(_times_us(event, rate), columns)


def _channels(texts: np.random.Generator) -> tuple[pa.Array, pa.Array]:
    """The names of all channels, the hot ones first, and the address that each has."""
    number = np.arange(CHANNELS)
    names = pa.concat_arrays([pa.array(HOT_CHANNELS), joined("-", "channel", pa.array(number).cast(pa.string()))])
    folders = [words(texts, len(names), 5, "_") for _ in range(3)]
    address = joined("/", "https://www.nexmark.com", *folders, "item.htm?query=1")
    told = joined("", "&channel_id=", pa.array(_mirrored(number)).cast(pa.string()))
    told = pc.if_else(pa.array(texts.integers(0, WITHOUT_ID, CHANNELS) > 0), told, "")
    return names, joined("", address, pa.concat_arrays([pa.array([""] * len(HOT_CHANNELS)), told]))


def _mirrored(number: Numbers) -> Numbers:
    """The 32 bits of a number in the other order, without the sign that this may give it."""
    bits = np.zeros(number.size, np.uint32)
    for place in range(32):
        bits |= ((number.astype(np.uint32) >> place) & 1) << (31 - place)
    mirrored: Numbers = np.abs(bits.view(np.int32).astype(np.int64))
    return mirrored


def _one_of(texts: np.random.Generator, of: tuple[str, ...], size: int) -> pa.Array:
    return pa.array(of).take(pa.array(texts.integers(0, len(of), size)))


def _four_digits(texts: np.random.Generator, size: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(texts.integers(0, 10_000, size)).cast(pa.string()), width=4, padding="0")


def _bytes(columns: Columns, numbers: int) -> Numbers:
    """How long the texts of each row are, beside so many bytes of numbers."""
    lengths = [pc.binary_length(one) for one in columns.values() if isinstance(one, pa.Array)]
    sizes: Numbers = numbers + np.sum([one.to_numpy(zero_copy_only=False) for one in lengths], axis=0).astype(np.int64)
    return sizes


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
