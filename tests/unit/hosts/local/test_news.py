"""Those who wait for news are told, and only they."""

from __future__ import annotations

import threading

from watersmeet.hosts.local.news import News


def test_who_waits_is_counted_until_it_is_told_or_its_time_is_over() -> None:
    news = News()
    with news:
        news.wait(0.001)
        assert news.waiting == 0
    there: list[int] = []

    def wait() -> None:
        with news:
            news.wait_for(lambda: bool(there), 30)
            there.append(2)

    others = [threading.Thread(target=wait) for _ in range(3)]
    for one in others:
        one.start()
    while True:
        with news:
            if news.waiting == 3:
                there.append(1)
                news.tell()
                break
    for one in others:
        one.join(30)
    assert there == [1, 2, 2, 2]
    assert news.waiting == 0
