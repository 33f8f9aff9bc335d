"""Work that is done beside what goes on, one thing after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any


class Background:
    """A thread that no program waits for when it ends; those of `concurrent.futures` are waited for, for ever if what
    they do waits for somebody who has gone."""

    def __init__(self, name: str) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()

        def do() -> None:
            try:
                done.set_result(work(*arguments))
            except BaseException as error:
                done.set_exception(error)

        self._waiting.put(do)
        return done

    def shutdown(self) -> None:
        """Return when all is done."""
        self.stop()
        self._thread.join()

    def stop(self) -> None:
        """End when all is done, without anyone waiting for it."""
        self._waiting.put(None)

    def _work(self) -> None:
        while (do := self._waiting.get()) is not None:
            do()
            del do  # nothing of it is held until more comes
