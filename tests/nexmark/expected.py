"""What the Nexmark queries mean, in DuckDB's SQL over the whole tables, written from their published descriptions.

Of a query whose answer changes it is the answer at the end. With windows it is the same over the rows that are in them
then; `WITHIN` are the conditions of joins that only grow.
"""

from __future__ import annotations

_RANKS = """
    count(*), count(*) FILTER (price < 10000), count(*) FILTER (price >= 10000 AND price < 1000000),
    count(*) FILTER (price >= 1000000)"""
_DISTINCT = "".join(
    f""", count(DISTINCT {column}), count(DISTINCT {column}) FILTER (price < 10000),
    count(DISTINCT {column}) FILTER (price >= 10000 AND price < 1000000),
    count(DISTINCT {column}) FILTER (price >= 1000000)"""
    for column in ("bidder", "auction")
)
_CHANNEL_ID = "regexp_extract(url, 'channel_id=([0-9]*)', 1)"
# Of equal prices and times the first by all columns is taken, as ORDER BY does here.
_ALL = "auction, bidder, price, channel, url, extra, ts"

_WON = """SELECT a.id, a.seller, a.category, b.price, b.ts
          FROM auction a JOIN bid b ON b.auction = a.id AND b.ts >= a.ts AND b.ts <= a.expires"""

EXPECTED = {
    "q101": """SELECT id, item_name, max_price FROM auction LEFT JOIN
               (SELECT auction, max(price) AS max_price FROM bid GROUP BY auction) ON id = auction""",
    "q102": """SELECT id, item_name, count(*) FROM auction a JOIN bid b ON a.id = b.auction GROUP BY id, item_name
               HAVING count(*) >= (SELECT count(*) / count(DISTINCT auction) FROM bid)""",
    "q103": """SELECT id, item_name FROM auction
               WHERE id IN (SELECT auction FROM bid GROUP BY auction HAVING count(*) >= 20)""",
    "q104": """SELECT id, item_name FROM auction
               WHERE id NOT IN (SELECT auction FROM bid GROUP BY auction HAVING count(*) < 20)""",
    "q105": """SELECT id, item_name, count(*) AS n FROM auction a JOIN bid b ON a.id = b.auction GROUP BY id, item_name
               ORDER BY n DESC, id, item_name LIMIT 1000""",
    "q106": f"SELECT min(final) FROM (SELECT id, max(price) AS final FROM ({_WON}) GROUP BY id)",
    "q107": "SELECT quantile_cont(price, 0.01), quantile_cont(price, 0.5), quantile_cont(price, 0.99) FROM bid",
    "q201": """
        WITH cumulated AS (
            SELECT channel, price, time_bucket(INTERVAL 1 MINUTE, ts) AS start,
                   unnest(generate_series(time_bucket(INTERVAL 10 SECOND, ts) + INTERVAL 10 SECOND,
                                          time_bucket(INTERVAL 1 MINUTE, ts) + INTERVAL 1 MINUTE,
                                          INTERVAL 10 SECOND)) AS until
            FROM bid)
        SELECT channel, start, until, count(*), max(price) FROM cumulated GROUP BY channel, start, until""",
    "q202": """SELECT auction, time_bucket(INTERVAL 10 SECOND, ts) + INTERVAL 10 SECOND AS until,
                      list(price ORDER BY ts)
               FROM bid GROUP BY auction, until""",
    "q203": """SELECT kind, time_bucket(INTERVAL 10 SECOND, ts) + INTERVAL 10 SECOND AS until, count(*)
               FROM (SELECT 'person' AS kind, ts FROM person UNION ALL SELECT 'auction', ts FROM auction
                     UNION ALL SELECT 'bid', ts FROM bid) GROUP BY kind, until""",
    "q0": "SELECT auction, bidder, price, ts, extra FROM bid",
    "q1": "SELECT auction, bidder, price * 0.908::DOUBLE, ts, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT name, city, state, auction.id FROM person JOIN auction ON seller = person.id
             WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) FROM (SELECT id, category, max(price) AS final FROM ({_WON}) GROUP BY ALL)
              GROUP BY category""",
    "q5": """
        WITH hopping AS (
            SELECT auction, unnest(generate_series(time_bucket(INTERVAL 2 SECOND, ts) - INTERVAL 8 SECOND,
                                                   time_bucket(INTERVAL 2 SECOND, ts), INTERVAL 2 SECOND)) AS start
            FROM bid),
             counts AS (SELECT auction, start, count(*) AS num FROM hopping GROUP BY auction, start)
        SELECT auction, num FROM counts QUALIFY num = max(num) OVER (PARTITION BY start)""",
    "q6": f"""
        WITH won AS (SELECT * FROM ({_WON})
                     QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, id, seller, price, ts) = 1)
        SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY ts ROWS BETWEEN 10 PRECEDING AND CURRENT ROW)
        FROM won""",
    "q7": """
        WITH highest AS (SELECT max(price) AS price, time_bucket(INTERVAL 10 SECOND, ts) AS start
                         FROM bid GROUP BY start)
        SELECT auction, price, bidder, ts, extra FROM bid JOIN highest USING (price)
        WHERE ts BETWEEN start AND start + INTERVAL 10 SECOND""",
    "q8": """SELECT DISTINCT p.id, name, time_bucket(INTERVAL 10 SECOND, p.ts) FROM person p JOIN auction a
             ON p.id = a.seller AND time_bucket(INTERVAL 10 SECOND, p.ts) = time_bucket(INTERVAL 10 SECOND, a.ts)""",
    "q9": """SELECT id, item_name, description, initial_bid, reserve, a.ts, expires, seller, category, a.extra,
                    auction, bidder, price, b.ts, b.extra
             FROM auction a JOIN bid b ON b.auction = a.id AND b.ts BETWEEN a.ts AND a.expires
             QUALIFY row_number() OVER (PARTITION BY id ORDER BY price DESC, b.ts) = 1""",
    "q10": "SELECT auction, bidder, price, ts, extra, strftime(ts, '%Y-%m-%d'), strftime(ts, '%H:%M') FROM bid",
    "q11": """
        WITH starts AS (SELECT bidder, ts, coalesce(ts - lag(ts) OVER (PARTITION BY bidder ORDER BY ts)
                                                    >= INTERVAL 10 SECOND, true)::INT AS new FROM bid),
             numbered AS (SELECT bidder, ts, sum(new) OVER (PARTITION BY bidder ORDER BY ts) AS s FROM starts)
        SELECT bidder, count(*), min(ts), max(ts) + INTERVAL 10 SECOND FROM numbered GROUP BY bidder, s""",
    "q12": """SELECT bidder, count(*), time_bucket(INTERVAL 10 SECOND, arrival),
                     time_bucket(INTERVAL 10 SECOND, arrival) + INTERVAL 10 SECOND
              FROM bid GROUP BY bidder, time_bucket(INTERVAL 10 SECOND, arrival)""",
    "q13": "SELECT auction, bidder, price, ts, value FROM bid JOIN side_input ON auction % 10000 = key",
    "q14": """SELECT auction, bidder, price * 0.908::DOUBLE,
                     CASE WHEN hour(ts) BETWEEN 8 AND 18 THEN 'dayTime'
                          WHEN hour(ts) <= 6 OR hour(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END,
                     ts, extra, len(extra) - len(replace(extra, 'c', ''))
              FROM bid WHERE price * 0.908::DOUBLE > 1000000 AND price * 0.908::DOUBLE < 50000000""",
    "q15": f"SELECT strftime(ts, '%Y-%m-%d') AS day, {_RANKS}{_DISTINCT} FROM bid GROUP BY day",
    "q16": f"""SELECT channel, strftime(ts, '%Y-%m-%d') AS day, max(strftime(ts, '%H:%M')), {_RANKS}{_DISTINCT}
               FROM bid GROUP BY channel, day""",
    "q17": f"""SELECT auction, strftime(ts, '%Y-%m-%d') AS day, {_RANKS}, min(price), max(price), avg(price),
                      sum(price)::BIGINT
               FROM bid GROUP BY auction, day""",
    "q18": f"""SELECT auction, bidder, price, channel, url, ts, extra FROM bid
               QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY ts DESC, {_ALL}) = 1""",
    "q19": f"""SELECT {_ALL}, row_number() OVER (PARTITION BY auction ORDER BY price DESC, {_ALL}) AS rank
               FROM bid QUALIFY rank <= 10""",
    "q20": """SELECT b.auction, bidder, price, channel, url, b.ts, b.extra, item_name, description, initial_bid,
                     reserve, a.ts, expires, seller, category, a.extra
              FROM bid b JOIN auction a ON b.auction = a.id WHERE category = 10{b_a}""",
    "q21": f"""SELECT auction, bidder, price, channel,
                      CASE channel WHEN 'Apple' THEN '0' WHEN 'Google' THEN '1' WHEN 'Facebook' THEN '2'
                                   WHEN 'Baidu' THEN '3' ELSE {_CHANNEL_ID} END
               FROM bid WHERE {_CHANNEL_ID} <> '' OR channel IN ('Apple', 'Google', 'Facebook', 'Baidu')""",
    "q22": """SELECT auction, bidder, price, channel, u[4], u[5], u[6]
              FROM (SELECT *, string_split(url, '/') AS u FROM bid)""",
    "q23": """SELECT bidder, price, channel, url, b.extra, p.id, name, email_address, credit_card, city, state, p.extra,
                     item_name, description, initial_bid, reserve, a.ts, expires, seller, category, a.extra
              FROM bid b, person p, auction a WHERE p.id = b.bidder AND a.seller = b.bidder{b_a}{b_p}{a_p}""",
}
_APART = " AND abs(epoch_us({0}.ts) - epoch_us({1}.ts)) <= {2}"
FIVE_S, TEN_S = 5_000_000, 10_000_000
# Joins that only grow, and how far apart their rows are with windows.
GROWING = {"q3": TEN_S, "q20": FIVE_S, "q23": FIVE_S}


def expected_sql(query: str, within_us: int | None = None) -> str:
    """The SQL of a query, with rows of joins at most so far apart."""
    text = EXPECTED[query]
    if query == "q3" and within_us is not None:
        text += _APART.format("person", "auction", within_us)
    for pair in ("b_a", "b_p", "a_p"):
        bound = "" if within_us is None else _APART.format(*pair.split("_"), within_us)
        text = text.replace(f"{{{pair}}}", bound)
    return text
