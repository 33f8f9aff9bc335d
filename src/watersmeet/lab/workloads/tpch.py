"""TPC-H: parts, who supplies and who orders them, in the tables and columns of the published benchmark.

Keys, dates and texts follow its rules, but values that its queries ask for are drawn more often, so that all of them
find something among a few hundred rows. Prices and lines of an order do not follow from each other as they do there.
Every stream has a time besides its published columns: `ts`, which is on the day a line was shipped, or of the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.lab.workloads.making import DAY_US, Columns, Numbers, at_least
from watersmeet.lab.workloads.texts import joined, words

FIRST_DAY, DAYS = 8035, 2406  # 1992-01-01, and so many days until the last order
TODAY = FIRST_DAY + 1263  # 1995-06-17: what was shipped by then has been billed
LINES, SUPPLIERS_OF_A_PART = 7, 4  # at most so many lines in an order
HOT = 0.5  # the share of values that queries ask for
LARGE_ORDERS = 25  # one order in so many has all lines, each of nearly as much as can be
WITHOUT_ORDERS = 3  # one customer in so many has none

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
ASKED_NATIONS = (2, 3, 6, 7, 8, 20)  # Brazil, Canada, France, Germany, India, Saudi Arabia
ASKED_CODES = (3, 7, 8, 13, 19, 20, 21)  # those of telephones that begin with 13, 17, 18, 23, 29, 30 and 31
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
COLOURS = ("almond", "blue", "chocolate", "forest", "green", "ivory", "lemon", "navy", "rose", "tomato")
TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
ASKED_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO PLATED BRASS", "MEDIUM POLISHED TIN")
CONTAINERS = (("SM", "LG", "MED", "JUMBO", "WRAP"), ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"))
ASKED_CONTAINERS = ("SM CASE", "MED BOX", "MED BAG", "LG PKG")
ASKED_BRANDS = (12, 23, 34, 45)
ASKED_SIZES = (3, 9, 14, 15)
MONEY = pa.decimal128(15, 2)

Drawing = np.random.Generator


def tpch(rows: int = 60_000, seed: int = 1) -> dict[str, pa.Table]:
    """The streams of the TPC-H benchmark: lines of orders, and what they are about.

    rows: lines of orders, about; six million are its scale factor 1.

    >>> streams = tpch(rows=1000, seed=1)
    >>> {name: table.num_rows for name, table in streams.items()}
    {'customer': 25, 'lineitem': 989, 'orders': 250, 'part': 33, 'partsupp': 132, 'supplier': 12}
    >>> streams["partsupp"].schema.names
    ['ps_partkey', 'ps_suppkey', 'ps_availqty', 'ps_supplycost', 'ps_comment', 'ts']
    """
    at_least("rows", rows, 1)
    rng = np.random.default_rng(seed)
    orders, customers = max(rows // 4, 1), max(rows // 40, 6)
    parts, suppliers = max(rows // 30, 6), max(rows // 600, 12)
    order = _orders(rng, orders, customers)
    return {
        "customer": _customers(rng, customers),
        "lineitem": _lines(rng, order, parts, suppliers),
        "orders": order,
        "part": _parts(rng, parts),
        "partsupp": _supplied(rng, parts, suppliers),
        "supplier": _suppliers(rng, suppliers),
    }


def tpch_nation() -> pa.Table:
    """The nations, each with its region."""
    names, regions = zip(*NATIONS, strict=True)
    keys = np.arange(len(names))
    return pa.table({"n_nationkey": keys, "n_name": names, "n_regionkey": regions, "n_comment": names})


def tpch_region() -> pa.Table:
    """The regions of the earth."""
    return pa.table({"r_regionkey": np.arange(len(REGIONS)), "r_name": REGIONS, "r_comment": REGIONS})


def _customers(rng: Drawing, size: int) -> pa.Table:
    keys = np.arange(1, size + 1)
    nations = _often(rng, 3 * ASKED_NATIONS + ASKED_CODES, np.arange(len(NATIONS)), size)
    columns: Columns = {
        "c_custkey": keys,
        "c_name": _numbered("Customer#", keys),
        "c_address": words(rng, size, 20),
        "c_nationkey": nations,
        "c_phone": _telephones(rng, nations),
        "c_acctbal": _money(rng, size, -99_999, 999_999),
        "c_mktsegment": _one_of(rng, SEGMENTS, size),
        "c_comment": words(rng, size, 40),
    }
    return _in_order(_some_days(rng, size), columns)


def _suppliers(rng: Drawing, size: int) -> pa.Table:
    keys = np.arange(1, size + 1)
    # Each of the nations that are asked for has one.
    nations = np.concatenate([ASKED_NATIONS, _often(rng, ASKED_NATIONS, np.arange(len(NATIONS)), size)])[:size]
    complaints = pa.array(rng.random(size) < 0.2)
    columns: Columns = {
        "s_suppkey": keys,
        "s_name": _numbered("Supplier#", keys),
        "s_address": words(rng, size, 20),
        "s_nationkey": nations,
        "s_phone": _telephones(rng, nations),
        "s_acctbal": _money(rng, size, -99_999, 999_999),
        "s_comment": pc.if_else(complaints, "the Customer has sent Complaints", words(rng, size, 40)),
    }
    return _in_order(_some_days(rng, size), columns)


def _parts(rng: Drawing, size: int) -> pa.Table:
    keys = np.arange(1, size + 1)
    kinds = [joined(" ", *(_one_of(rng, syllables, size) for syllables in some)) for some in (TYPES, CONTAINERS)]
    kind, container = (
        _or_one_of(rng, asked, drawn) for asked, drawn in zip((ASKED_TYPES, ASKED_CONTAINERS), kinds, strict=True)
    )
    makers = _often(rng, ASKED_BRANDS, np.arange(11, 56), size)
    columns: Columns = {
        "p_partkey": keys,
        "p_name": joined(" ", *(_one_of(rng, COLOURS, size) for _ in range(3))),
        "p_mfgr": joined("", "Manufacturer#", pa.array(makers // 10).cast(pa.string())),
        "p_brand": joined("", "Brand#", pa.array(makers).cast(pa.string())),
        "p_type": kind,
        "p_size": _often(rng, ASKED_SIZES, np.arange(1, 51), size),
        "p_container": container,
        "p_retailprice": _money(rng, size, 90_000, 200_000),
        "p_comment": words(rng, size, 12),
    }
    return _in_order(_some_days(rng, size), columns)


def _supplied(rng: Drawing, parts: int, suppliers: int) -> pa.Table:
    part = np.repeat(np.arange(1, parts + 1), SUPPLIERS_OF_A_PART)
    size = part.size
    columns: Columns = {
        "ps_partkey": part,
        "ps_suppkey": _supplier_of(part, np.tile(np.arange(SUPPLIERS_OF_A_PART), parts), suppliers),
        "ps_availqty": rng.integers(1, 10_000, size),
        "ps_supplycost": _money(rng, size, 100, 100_000),
        "ps_comment": words(rng, size, 40),
    }
    return _in_order(_some_days(rng, size), columns)


def _orders(rng: Drawing, size: int, customers: int) -> pa.Table:
    buyers = np.arange(1, customers + 1)
    days = _some_days(rng, size)
    special = pa.array(rng.random(size) < 0.2)
    columns: Columns = {
        "o_orderkey": np.arange(1, size + 1),
        "o_custkey": rng.choice(buyers[buyers % WITHOUT_ORDERS != 0], size),
        "o_orderstatus": pc.if_else(pa.array(days + 60 < TODAY), "F", _one_of(rng, ("O", "P"), size)),
        "o_totalprice": _money(rng, size, 100_000, 40_000_000),
        "o_orderdate": _dates(days),
        "o_orderpriority": _one_of(rng, PRIORITIES, size),
        "o_clerk": _numbered("Clerk#", rng.integers(1, 1000, size)),
        "o_shippriority": np.zeros(size, np.int64),
        "o_comment": pc.if_else(special, "some special and some other requests", words(rng, size, 40)),
    }
    return _in_order(days, columns, rng)


def _lines(rng: Drawing, orders: pa.Table, parts: int, suppliers: int) -> pa.Table:
    """The lines of the orders. Some orders are large, which query 18 looks for."""
    large = orders["o_orderkey"].to_numpy() % LARGE_ORDERS == 0
    count = np.where(large, LINES, rng.integers(1, LINES + 1, large.size))
    of = np.repeat(np.arange(large.size), count)
    size = of.size
    ordered = orders["o_orderdate"].cast(pa.int32()).to_numpy()[of].astype(np.int64)
    shipped = ordered + rng.integers(1, 122, size)
    received = shipped + rng.integers(1, 31, size)
    quantity = np.where(large[of], rng.integers(44, 51, size), rng.integers(1, 51, size))
    part = rng.integers(1, parts + 1, size)
    returned = _one_of(rng, ("R", "A"), size)
    columns: Columns = {
        "l_orderkey": orders["o_orderkey"].to_numpy()[of],
        "l_partkey": part,
        "l_suppkey": _supplier_of(part, rng.integers(0, SUPPLIERS_OF_A_PART, size), suppliers),
        "l_linenumber": np.arange(size) - np.repeat(np.cumsum(count) - count, count) + 1,
        "l_quantity": _hundredths(quantity * 100),
        "l_extendedprice": _hundredths(quantity * rng.integers(90_000, 200_000, size)),
        "l_discount": _hundredths(rng.integers(0, 11, size)),
        "l_tax": _hundredths(rng.integers(0, 9, size)),
        "l_returnflag": pc.if_else(pa.array(received <= TODAY), returned, "N"),
        "l_linestatus": pc.if_else(pa.array(shipped > TODAY), "O", "F"),
        "l_shipdate": _dates(shipped),
        "l_commitdate": _dates(ordered + rng.integers(30, 91, size)),
        "l_receiptdate": _dates(received),
        "l_shipinstruct": _one_of(rng, INSTRUCTIONS, size),
        "l_shipmode": _one_of(rng, MODES, size),
        "l_comment": words(rng, size, 20),
    }
    return _in_order(shipped, columns, rng)


def _supplier_of(part: Numbers, number: Numbers, suppliers: int) -> Numbers:
    """The suppliers of a part, of which there are four."""
    return (part + number * (suppliers // SUPPLIERS_OF_A_PART)) % suppliers + 1


def _in_order(days: Numbers, columns: Columns, rng: Drawing | None = None) -> pa.Table:
    """Rows by their times, which are at midnight of a day, or some time on it if there is a generator."""
    times = days * DAY_US + (0 if rng is None else rng.integers(0, DAY_US, days.size))
    made = pa.table({**columns, "ts": pa.array(times, pa.timestamp("us"))})
    return made.take(np.argsort(times, kind="stable"))


def _some_days(rng: Drawing, size: int) -> Numbers:
    return rng.integers(FIRST_DAY, FIRST_DAY + DAYS, size)


def _dates(days: Numbers) -> pa.Array:
    return pa.array(days.astype(np.int32), pa.date32())


def _money(rng: Drawing, size: int, least: int, most: int) -> pa.Array:
    return _hundredths(rng.integers(least, most, size))


def _hundredths(numbers: Numbers) -> pa.Array:
    whole = pa.array(numbers, pa.int64()).cast(pa.decimal128(19, 0))
    return pc.multiply(whole, pa.scalar(Decimal("0.01"))).cast(MONEY)


def _numbered(prefix: str, numbers: Numbers) -> pa.Array:
    return joined("", prefix, pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0"))


def _telephones(rng: Drawing, nations: Numbers) -> pa.Array:
    parts = (nations + 10, *(rng.integers(low, 10 * low, nations.size) for low in (100, 100, 1000)))
    return joined("-", *(pa.array(part).cast(pa.string()) for part in parts))


def _one_of(rng: Drawing, values: Sequence[str], size: int) -> pa.Array:
    return pa.array(values).take(pa.array(rng.integers(0, len(values), size)))


def _or_one_of(rng: Drawing, asked: Sequence[str], drawn: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(rng.random(len(drawn)) < HOT), _one_of(rng, asked, len(drawn)), drawn)


def _often(rng: Drawing, asked: Sequence[int], every: npt.NDArray[np.int64], size: int) -> Numbers:
    """Numbers of which some come more often."""
    return np.where(rng.random(size) < HOT, rng.choice(asked, size), rng.choice(every, size))
