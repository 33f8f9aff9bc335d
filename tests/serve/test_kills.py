"""A server that is killed in the middle of posts: what clients send again is there once, and the answers are exact."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq

from tests.effort import EFFORT
from tests.serve.serving import Life, row

POSTS, EACH, CLIENTS = 60, 7, 3
# After a write some queries have rows that nobody was told of; torn, none has.
POINTS = ("Journal.append after", "Journal.append torn", "Snapshots.publish after", "Journal.append after", None)


def rows_of(client: int, number: int) -> list[dict[str, Any]]:
    """All of one instant, so that no order of clients makes any late."""
    return [row(client, number + n / 8, 0) for n in range(EACH)]


class Sender:
    """Sends its posts in order; one that nobody acknowledged is sent again to the next life."""

    def __init__(self, client: int) -> None:
        self.client = client
        self.acknowledged = 0

    def run(self, life: Life) -> None:
        own = Life.client_of(life.port)
        try:
            there = own.get("/streams/a").json()["sequences"].get(f"c{self.client}", 0)
            assert there >= self.acknowledged, f"{self.acknowledged} were acknowledged, {there} are there"
            # Some go by what the server knows, as if they had lost all memory; some by what they were told.
            for number in range((there if self.client else self.acknowledged) + 1, POSTS + 1):
                found = own.post("a", rows_of(self.client, number), X_Client=f"c{self.client}", X_Sequence=str(number))
                assert found.status_code in (200, 503), found.text
                if found.status_code == 503:
                    return
                self.acknowledged = number
        except httpx.TransportError:
            return


def sent(life: Life, senders: list[Sender]) -> list[threading.Thread]:
    threads = [threading.Thread(target=one.run, args=(life,)) for one in senders]
    for thread in threads:
        thread.start()
    return threads


def test_kills_in_the_middle_of_posts_change_nothing(tmp_path: Path) -> None:
    rng = random.Random(5)
    senders = [Sender(client) for client in range(CLIENTS)]
    kills = 0
    for point in POINTS * EFFORT:
        life = Life(tmp_path, ends_at=point, after=rng.randrange(1, 8))
        threads = sent(life, senders)
        if point is None:
            time.sleep(rng.uniform(0.05, 0.25))
            life.kill()
        for thread in threads:
            thread.join()
        kills += any(one.acknowledged < POSTS for one in senders)
        life.kill()
    assert kills >= 2  # the first two come before all is sent, whatever the speed
    life = Life(tmp_path)
    for thread in sent(life, senders):
        thread.join()
    assert [one.acknowledged for one in senders] == [POSTS] * CLIENTS
    last = life.client.posted("a", [row(9, 0, 1)])
    expected = {
        client: (POSTS * EACH, sum(one["v"] for post in range(1, POSTS + 1) for one in rows_of(client, post)))
        for client in range(CLIENTS)
    }
    found = {one["k"]: (one["n"], one["total"]) for one in life.client.answer("groups", last["batches"]["groups"])}
    assert found == expected
    taken = life.client.get("/streams/a").json()["taken_by_query"]
    assert set(taken.values()) == {POSTS * EACH * CLIENTS + 1}
    assert life.terminate() == 0
    assert added_up(tmp_path / "groups") == expected


def added_up(folder: Path) -> dict[int, tuple[int, float]]:
    """What the changes in the sink add up to."""
    counts: dict[tuple[int, int, float], int] = defaultdict(int)
    for one in pq.read_table(folder).to_pylist():
        counts[one["k"], one["n"], one["total"]] += 1 if one["_op"] == "+" else -1
    assert set(counts.values()) <= {0, 1}
    return {k: (n, total) for (k, n, total), count in counts.items() if count}
