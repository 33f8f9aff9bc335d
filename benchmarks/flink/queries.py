"""The Nexmark queries in Flink's SQL, over the same files and with the names of their columns."""

from __future__ import annotations

from pathlib import Path

_COLUMNS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, seller BIGINT, category BIGINT, initial_bid BIGINT, "
    "reserve BIGINT, expires TIMESTAMP(3), extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING",
}
_RANKS = """count(*) AS total_bids,
    count(*) FILTER (WHERE price < 10000) AS rank1_bids,
    count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (WHERE price >= 1000000) AS rank3_bids"""
_DISTINCT = _RANKS + "".join(
    f""",
    count(DISTINCT {one}) AS total_{one}s,
    count(DISTINCT {one}) FILTER (WHERE price < 10000) AS rank1_{one}s,
    count(DISTINCT {one}) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_{one}s,
    count(DISTINCT {one}) FILTER (WHERE price >= 1000000) AS rank3_{one}s"""
    for one in ("bidder", "auction")
)
_DAY = "DATE_FORMAT(ts, 'yyyy-MM-dd')"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_OF_BID = "auction, bidder, price, channel, url, ts, extra"
_TUMBLED = "FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '10' SECOND))"
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_WON = "FROM auction a, bid b WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires"

FLINK = {
    "q101": """SELECT a.id, a.item_name, b.max_price FROM auction a
               LEFT JOIN (SELECT auction, MAX(price) AS max_price FROM bid GROUP BY auction) b ON a.id = b.auction""",
    "q102": """SELECT a.id, a.item_name, COUNT(b.auction) AS bid_count FROM auction a JOIN bid b ON a.id = b.auction
               GROUP BY a.id, a.item_name
               HAVING COUNT(b.auction) >= (SELECT CAST(COUNT(*) AS DOUBLE) / COUNT(DISTINCT auction) FROM bid)""",
    "q103": """SELECT id, item_name FROM auction
               WHERE id IN (SELECT auction FROM bid GROUP BY auction HAVING COUNT(*) >= 20)""",
    "q104": """SELECT id, item_name FROM auction
               WHERE id NOT IN (SELECT auction FROM bid GROUP BY auction HAVING COUNT(*) < 20)""",
    "q105": """SELECT a.id, a.item_name, COUNT(b.auction) AS bid_count FROM auction a JOIN bid b ON a.id = b.auction
               GROUP BY a.id, a.item_name ORDER BY bid_count DESC LIMIT 1000""",
    "q106": f"SELECT MIN(final) AS min_final FROM (SELECT a.id, MAX(b.price) AS final {_WON} GROUP BY a.id)",
    "q201": """SELECT channel, window_start, window_end, COUNT(*) AS num, MAX(price) AS highest
               FROM TABLE(CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))
               GROUP BY channel, window_start, window_end""",
    "q202": f"""SELECT auction, window_end, ARRAY_AGG(price) AS prices {_TUMBLED.format("bid", "ts")}
                GROUP BY auction, window_start, window_end""",
    "q0": "SELECT auction, bidder, price, ts, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, ts, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT p.name, p.city, p.state, a.id FROM auction AS a INNER JOIN person AS p ON a.seller = p.id
             WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')""",
    "q4": f"""SELECT q.category, AVG(q.final) AS average
              FROM (SELECT MAX(b.price) AS final, a.category {_WON} GROUP BY a.id, a.category) q GROUP BY q.category""",
    "q5": f"""
        SELECT a.auction, a.num
        FROM (SELECT auction, count(*) AS num, window_start AS s, window_end AS e FROM {_HOP}
              GROUP BY auction, window_start, window_end) AS a
        JOIN (SELECT max(num) AS maxn, s, e
              FROM (SELECT count(*) AS num, window_start AS s, window_end AS e FROM {_HOP}
                    GROUP BY auction, window_start, window_end) AS c
              GROUP BY s, e) AS m
        ON a.s = m.s AND a.e = m.e AND a.num >= m.maxn""",
    "q7": f"""
        SELECT b.auction, b.price, b.bidder, b.ts, b.extra FROM bid b
        JOIN (SELECT MAX(price) AS maxprice, window_end AS ts {_TUMBLED.format("bid", "ts")}
              GROUP BY window_start, window_end) h
        ON b.price = h.maxprice WHERE b.ts BETWEEN h.ts - INTERVAL '10' SECOND AND h.ts""",
    "q8": f"""
        SELECT p.id, p.name, p.s
        FROM (SELECT id, name, window_start AS s, window_end AS e {_TUMBLED.format("person", "ts")}
              GROUP BY id, name, window_start, window_end) p
        JOIN (SELECT seller, window_start AS s, window_end AS e {_TUMBLED.format("auction", "ts")}
              GROUP BY seller, window_start, window_end) a
        ON p.id = a.seller AND p.s = a.s AND p.e = a.e""",
    "q9": f"""
        SELECT id, item_name, description, initial_bid, reserve, ts, expires, seller, category, extra,
               auction, bidder, price, bid_ts, bid_extra
        FROM (SELECT a.*, b.auction, b.bidder, b.price, b.ts AS bid_ts, b.extra AS bid_extra,
                     ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts ASC) AS rownum {_WON})
        WHERE rownum <= 1""",
    "q10": f"SELECT auction, bidder, price, ts, extra, {_DAY} AS dt, DATE_FORMAT(ts, 'HH:mm') AS hm FROM bid",
    "q11": """SELECT bidder, count(*) AS bid_count, window_start, window_end
              FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '10' SECOND))
              GROUP BY bidder, window_start, window_end""",
    "q12": f"""SELECT bidder, count(*) AS bid_count, window_start, window_end {_TUMBLED.format("arriving", "arrival")}
               GROUP BY bidder, window_start, window_end""",
    "q13": """SELECT b.auction, b.bidder, b.price, b.ts, s.`value`
              FROM bid b JOIN side_input s ON MOD(b.auction, 10000) = s.key""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price,
                     CASE WHEN HOUR(ts) >= 8 AND HOUR(ts) <= 18 THEN 'dayTime'
                          WHEN HOUR(ts) <= 6 OR HOUR(ts) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
                     ts, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
              FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS `day`, {_DISTINCT} FROM bid GROUP BY {_DAY}",
    "q16": f"""SELECT channel, {_DAY} AS `day`, max(DATE_FORMAT(ts, 'HH:mm')) AS `minute`, {_DISTINCT}
               FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""SELECT auction, {_DAY} AS `day`, {_RANKS}, min(price) AS min_price, max(price) AS max_price,
                      avg(price) AS avg_price, sum(price) AS sum_price
               FROM bid GROUP BY auction, {_DAY}""",
    "q18": f"""SELECT {_OF_BID}
               FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS r FROM bid)
               WHERE r <= 1""",
    "q19": f"""SELECT {_OF_BID}, r
               FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS r FROM bid)
               WHERE r <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, b.ts, b.extra, item_name, description, initial_bid, reserve,
                     a.ts AS auction_ts, expires, seller, category, a.extra AS auction_extra
              FROM bid AS b INNER JOIN auction AS a ON b.auction = a.id WHERE a.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel,
                      CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
                           WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
                           ELSE {_CHANNEL_ID} END AS channel_id
               FROM bid
               WHERE {_CHANNEL_ID} IS NOT NULL OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
                     SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3
              FROM bid""",
    "q23": """SELECT bidder, price, channel, url, b.extra AS bid_extra, p.id AS person_id, name, email_address,
                     credit_card, city, state, p.extra AS person_extra, item_name, description, initial_bid, reserve,
                     a.ts AS auction_ts, expires, seller, category, a.extra AS auction_extra
              FROM bid b JOIN person p ON p.id = b.bidder JOIN auction a ON a.seller = b.bidder""",
}  # q6 it cannot run


def setup(folder: Path) -> str:
    """The tables over files of a folder."""
    made = [
        f"CREATE TABLE {name} ({columns}, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '4' SECOND) "
        f"WITH {_files(folder, name)}"
        for name, columns in _COLUMNS.items()
    ]
    made.append(f"CREATE TABLE side_input (key BIGINT, `value` STRING) WITH {_files(folder, 'side_input')}")
    arrival = "ts TIMESTAMP(3), arrival AS PROCTIME()"
    made.append(f"CREATE TABLE arriving ({_COLUMNS['bid']}, {arrival}) WITH {_files(folder, 'bid')}")
    return ";\n".join(made) + ";\n"


def _files(folder: Path, name: str) -> str:
    return f"('connector' = 'filesystem', 'path' = '{(folder / name).as_uri()}.parquet', 'format' = 'parquet')"
