"""Nexmark's queries in the SQL of Spark and of Flink; ``made`` is the time of an event. Columns count by position."""

from __future__ import annotations

_PLAIN = {
    "q0": "SELECT auction, bidder, price, made, extra FROM bids",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(24, 3)) AS price, made, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE MOD(auction, 123) = 0",
    "q3": (
        "SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN people p ON a.seller = p.id "
        "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')"
    ),
    "q4": (
        "SELECT category, AVG(CAST(price AS DOUBLE)) AS price FROM (SELECT a.category, MAX(b.price) AS price "
        "FROM auctions a JOIN bids b ON a.id = b.auction WHERE b.made BETWEEN a.made AND a.expires "
        "GROUP BY a.id, a.category) q GROUP BY category"
    ),
}

_SPARK_ITEMS = (
    "SELECT auction, window.start AS begins, count(*) AS num FROM bids "
    "GROUP BY auction, window(made, '10 seconds', '2 seconds')"
)

SPARK = {
    **_PLAIN,
    "q5": (
        f"WITH items AS ({_SPARK_ITEMS}) SELECT items.begins, auction, num FROM items "
        "JOIN (SELECT begins, max(num) AS most FROM items GROUP BY begins) m ON items.begins = m.begins AND num = most"
    ),
    "q7": (
        "SELECT auction, bidder, price, made, extra FROM bids JOIN (SELECT window.start AS begins, window.end AS ends, "
        "max(price) AS highest FROM bids GROUP BY window(made, '10 seconds')) h "
        "ON price = highest AND made BETWEEN begins AND ends"
    ),
    "q8": (
        "SELECT id, name, p.begins FROM (SELECT id, name, window.start AS begins FROM people "
        "GROUP BY id, name, window(made, '10 seconds')) p JOIN (SELECT seller, window.start AS begins FROM auctions "
        "GROUP BY seller, window(made, '10 seconds')) a ON id = seller AND p.begins = a.begins"
    ),
    "q11": (
        "SELECT bidder, w.start AS begins, w.end AS ends, num FROM (SELECT bidder, "
        "session_window(made, '10 seconds') AS w, count(*) AS num FROM bids "
        "GROUP BY bidder, session_window(made, '10 seconds'))"
    ),
}

_SPARK_WINDOWS = (
    "SELECT auction, window, count(*) AS num FROM bids GROUP BY auction, window(made, '10 seconds', '2 seconds')"
)

SPARK_STREAMING = {
    **{query: sql for query, sql in SPARK.items() if query in ("q0", "q1", "q2", "q3", "q11")},
    "q5": (
        f"SELECT window.start AS begins, auction, num FROM ({_SPARK_WINDOWS}) "
        f"JOIN (SELECT window, max(num) AS most FROM ({_SPARK_WINDOWS}) GROUP BY window) USING (window) "
        "WHERE num = most"
    ),
    "q7": (
        "SELECT auction, bidder, price, made, extra FROM bids JOIN (SELECT window, max(price) AS highest FROM bids "
        "GROUP BY window(made, '10 seconds')) ON price = highest AND made BETWEEN window.start AND window.end"
    ),
    "q8": (
        "SELECT id, name, window.start AS begins FROM (SELECT id, name, window FROM people "
        "GROUP BY id, name, window(made, '10 seconds')) p JOIN (SELECT seller, window FROM auctions "
        "GROUP BY seller, window(made, '10 seconds')) a USING (window) WHERE id = seller"
    ),
}
"""Those that Structured Streaming writes to files: each row once, when its window has closed."""

_FLINK_ITEMS = (
    "SELECT auction, window_start, window_end, count(*) AS num FROM TABLE(HOP(TABLE bids, DESCRIPTOR(made), "
    "INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end"
)


def _tumbling(table: str) -> str:
    return f"TABLE(TUMBLE(TABLE {table}, DESCRIPTOR(made), INTERVAL '10' SECOND))"


FLINK = {
    **_PLAIN,
    "q5": (
        f"SELECT i.window_start, i.auction, i.num FROM ({_FLINK_ITEMS}) i JOIN (SELECT window_start, window_end, "
        f"max(num) AS most FROM ({_FLINK_ITEMS}) GROUP BY window_start, window_end) m "
        "ON i.window_start = m.window_start AND i.window_end = m.window_end AND i.num = m.most"
    ),
    "q7": (
        "SELECT b.auction, b.bidder, b.price, b.made, b.extra FROM bids b JOIN (SELECT max(price) AS highest, "
        f"window_start, window_end FROM {_tumbling('bids')} GROUP BY window_start, window_end) h "
        "ON b.price = h.highest AND CAST(b.made AS TIMESTAMP(3)) BETWEEN h.window_start AND h.window_end"
    ),
    "q8": (
        "SELECT p.id, p.name, p.window_start FROM (SELECT id, name, window_start, window_end "
        f"FROM {_tumbling('people')} GROUP BY id, name, window_start, window_end) p "
        "JOIN (SELECT seller, window_start, window_end FROM "
        f"{_tumbling('auctions')} GROUP BY seller, window_start, window_end) a "
        "ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end"
    ),
    "q11": (
        "SELECT bidder, window_start, window_end, count(*) FROM TABLE(SESSION(TABLE bids PARTITION BY bidder, "
        "DESCRIPTOR(made), INTERVAL '10' SECOND)) GROUP BY bidder, window_start, window_end"
    ),
}
