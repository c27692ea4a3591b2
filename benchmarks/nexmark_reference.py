"""The results of Nexmark's queries by DuckDB: SQL over the events, written without a look at the applications."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa

_BIDS_OF_ITEMS = """
    SELECT auction, begins, count(*) AS bids
    FROM (SELECT auction, unnest(generate_series(
              time_bucket(INTERVAL 2 SECOND, made) - INTERVAL 8 SECOND, time_bucket(INTERVAL 2 SECOND, made),
              INTERVAL 2 SECOND)) AS begins FROM bids)
    GROUP BY auction, begins"""

_STRETCHES = """
    SELECT bidder, made, sum(new) OVER (PARTITION BY bidder ORDER BY made ROWS UNBOUNDED PRECEDING) AS stretch
    FROM (SELECT bidder, made, CASE WHEN made - lag(made) OVER (PARTITION BY bidder ORDER BY made) <= INTERVAL 10 SECOND
                             THEN 0 ELSE 1 END AS new FROM bids)"""

SQL = {
    "q0": "SELECT auction, bidder, price, made, extra FROM bids",
    "q1": "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(24, 3)), made, extra FROM bids",
    "q2": "SELECT auction, price FROM bids WHERE auction % 123 = 0",
    "q3": """
        SELECT name, city, state, auctions.id FROM auctions JOIN people ON seller = people.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": """
        SELECT category, avg(price) FROM (
            SELECT category, max(price) AS price FROM auctions JOIN bids ON auction = id
            WHERE bids.made BETWEEN auctions.made AND expires GROUP BY id, category)
        GROUP BY category""",
    "q5": f"""
        SELECT begins, auction, bids FROM ({_BIDS_OF_ITEMS})
        QUALIFY bids = max(bids) OVER (PARTITION BY begins)""",
    "q7": """
        SELECT auction, bidder, price, made, extra FROM bids JOIN (
            SELECT max(price) AS highest, time_bucket(INTERVAL 10 SECOND, made) AS begins FROM bids GROUP BY begins)
        ON price = highest AND made BETWEEN begins AND begins + INTERVAL 10 SECOND""",
    "q8": """
        SELECT DISTINCT people.id, name, time_bucket(INTERVAL 10 SECOND, people.made) FROM people JOIN auctions
        ON people.id = seller
            AND time_bucket(INTERVAL 10 SECOND, people.made) = time_bucket(INTERVAL 10 SECOND, auctions.made)
        """,
    "q11": f"""
        SELECT bidder, min(made), max(made) + INTERVAL 10 SECOND, count(*) FROM ({_STRETCHES})
        GROUP BY bidder, stretch""",
    "q17": """
        SELECT auction, CAST(made AT TIME ZONE 'UTC' AS DATE) AS day, count(*), count(*) FILTER (price < 10000),
            count(*) FILTER (price >= 1000000), min(price), max(price), avg(price), CAST(sum(price) AS BIGINT)
        FROM bids GROUP BY auction, day""",
}
"""By the names of the queries; columns are compared by position."""


def expected(query: str, events: Mapping[str, pa.Table]) -> pa.Table:
    """Return the rows of a query over people, auctions and bids."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in events.items():  # ``at`` is a word of its SQL
            connection.register(name, rows.rename_columns({"at": "made"}))
        return connection.sql(SQL[query]).to_arrow_table()
