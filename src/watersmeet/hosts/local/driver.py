"""What a `Run` stands for: it feeds an execution, in whichever threads, and hands its answers on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Future
from pathlib import Path
from threading import get_ident
from typing import Any

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.answer_queue import AnswerQueue
from watersmeet.hosts.local.pushed_execution import PushedExecution


class Driver(ABC):
    """`Run` says what its methods do. Streams come by their names as they were declared; what takes a checkpoint is
    refused here, for those who keep nothing."""

    answers_go_to = "on_answer"

    def __init__(self, execution: PushedExecution, answers: AnswerQueue | None) -> None:
        """answers: where they wait to be taken, unless they go elsewhere."""
        self.execution, self.answers = execution, answers
        self._raised_in: set[int] = set()  # the threads that know what ended it

    @abstractmethod
    def push(self, name: str, rows: Any, timeout: float | None) -> int | None: ...

    @abstractmethod
    def advance(self, name: str, until_us: int) -> None: ...

    @abstractmethod
    def end(self, name: str) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...

    @abstractmethod
    def finish(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """End with an error, which is raised where somebody pushes or waits."""

    @abstractmethod
    def close(self, error: BaseException | None) -> None:
        """What the end of a `with` block does, which may be an error's."""

    def leave(self, error: BaseException | None) -> None:
        """A `with` block ends. What ended the run is raised, unless whoever leaves the block knows it: by an error that
        is on its way, or as it was raised to this thread before."""
        is_known = error is not None or get_ident() in self._raised_in
        try:
            self.close(error)
        except Exception:
            if not is_known:
                raise

    @abstractmethod
    def wait(self, timeout: float | None) -> bool: ...

    @abstractmethod
    def taken(self, name: str) -> int: ...

    @abstractmethod
    def answer(self) -> pa.Table | None:
        """What a changing answer is now; None if the answer does not change."""

    @abstractmethod
    def metrics(self) -> dict[str, Any]: ...

    @property
    @abstractmethod
    def failure(self) -> BaseException | None:
        """What ended the run, if something went wrong."""

    def raise_failure(self) -> None:
        """Whoever waits for answers is told."""
        if self.failure is not None:
            self._raised_in.add(get_ident())
            raise self.failure

    @property
    @abstractmethod
    def is_open(self) -> bool: ...

    @property
    @abstractmethod
    def state(self) -> str:
        """In a word, for people."""

    @property
    @abstractmethod
    def extent(self) -> str:
        """How far it is, for people."""

    # ---- what takes a checkpoint ----------------------------------------------------------------------------------

    def push_soon(self, name: str, rows: Any, timeout: float | None) -> list[Future[int]]:
        raise _keeps_nothing("push_soon()")

    @property
    def checkpoint(self) -> Path:
        raise _keeps_nothing("checkpoint")

    @property
    def batches(self) -> int:
        raise _keeps_nothing("number of batches")

    def savepoint(self, out: Path | str, timeout: float | None) -> None:
        raise _keeps_nothing("savepoint")

    @property
    def repeated_batches(self) -> int:
        raise _keeps_nothing("repeated batch")


def _keeps_nothing(what: str) -> RunError:
    return RunError(
        f"this run keeps nothing, so it has no {what}", hint="start(checkpoint='state') keeps its progress in a folder"
    )
