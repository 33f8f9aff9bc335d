"""A durable execution as a `Run` drives it: who calls is told what cannot be waited for, and who takes answers what
went wrong."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime
from math import inf
from pathlib import Path
from threading import get_ident
from typing import Any

import pyarrow as pa

from watersmeet.errors import RunError
from watersmeet.hosts.local.driver import Driver
from watersmeet.hosts.local.durable.durable_execution import DurableExecution
from watersmeet.hosts.local.durable.queue_sink import NotTaken, QueueSink
from watersmeet.hosts.local.pull import FINISHING_S
from watersmeet.runtime.savepoints.folder import QUERY, writing_savepoint


class DurableDriver(Driver):
    def __init__(
        self, run: DurableExecution, kept: QueueSink | None, timeout_s: float | None, answers_go_to: str
    ) -> None:
        """kept: where answers wait, unless they go elsewhere."""
        super().__init__(run.execution, kept)
        self.run, self._kept, self._timeout_s, self.answers_go_to = run, kept, timeout_s, answers_go_to

    # ---- rows and time go in ----------------------------------------------------------------------------------------

    def push(self, name: str, rows: Any, timeout: float | None) -> int:
        self._check_elsewhere("push()", "push_soon() does not wait")
        self._check_pushed(name, "pushed")
        timeout = self._timeout_s if timeout is None else timeout
        try:
            return self.run.push(name, rows, timeout_s=timeout)
        except NotInTime:
            raise self._not_in_time(name, timeout) from None

    def _not_in_time(self, name: str, timeout: float | None) -> RunError:
        waiting = 0 if self._kept is None else self._kept.rows
        why = f": {waiting:,} rows of the answer wait to be taken" if waiting else ""
        return RunError(
            f"the rows pushed to {name!r} were not on the disk within {timeout:g} s{why}",
            hint=f"they still come to it when there is room, so do not push them again; taken({name!r}) tells how "
            "many rows of it are in",
        )

    def push_soon(self, name: str, rows: Any, timeout: float | None) -> list[Future[int]]:
        self._check_pushed(name, "pushed")
        timeout = self._timeout_s if timeout is None else timeout
        return self.run.push_soon(name, rows, timeout_s=0.0 if self.run.is_own_thread else timeout)

    def advance(self, name: str, until_us: int) -> None:
        self._check_elsewhere("advance()")
        self._check_pushed(name, "told how far it is")
        self.run.advance(name, until_us)

    def end(self, name: str) -> None:
        self._check_elsewhere("end()")
        self._check_pushed(name, "ended")
        self.run.end(name)

    def flush(self) -> None:
        self._check_elsewhere("flush()")
        self.run.flush()

    # ---- life -------------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None) -> bool:
        self._check_elsewhere("wait()")
        try:
            return self.run.wait(timeout)
        except NotTaken:
            return True
        except BaseException as error:
            if error is self.failure:
                self._raised_in.add(get_ident())
            raise

    def finish(self) -> None:
        """However long the answers take, unless somebody calls `stop`."""
        if self.is_open:
            self.flush()
            self._stop(inf)
        else:
            self.stop()

    def stop(self) -> None:
        self._stop(FINISHING_S)

    def _stop(self, patience_s: float) -> None:
        self.run.request_stop(patience_s)
        if self._kept is not None:
            self._kept.let_go()
        if not self.run.is_own_thread:
            self.wait(None)

    def fail(self, error: BaseException) -> None:
        self.run.fail(error)

    def close(self, error: BaseException | None) -> None:
        self.stop()

    # ---- what it is now ---------------------------------------------------------------------------------------------

    def taken(self, name: str) -> int:
        return self.run.taken(name)

    def answer(self) -> pa.Table | None:
        return self.run.answer()

    def metrics(self) -> dict[str, Any]:
        return self.run.metrics()

    @property
    def failure(self) -> BaseException | None:
        error = self.run.error
        return None if isinstance(error, NotTaken) else error

    @property
    def is_open(self) -> bool:
        return self.run.is_open

    @property
    def state(self) -> str:
        if self.run.is_open:
            return "running"
        return "ended by an error" if self.failure is not None else "stopped"

    @property
    def extent(self) -> str:
        return f"{self.batches:,} batches in {self.checkpoint}"

    @property
    def checkpoint(self) -> Path:
        return self.run.folder

    @property
    def batches(self) -> int:
        return self.run.progress.number + 1

    def savepoint(self, out: Path | str, timeout: float | None) -> None:
        try:
            contents = self.run.contents(timeout)
        except NotInTime:
            raise RunError(
                f"the batch in hand was not done within {timeout:g} s, so no savepoint was taken",
                hint="wait for longer, or take it of the run once it has stopped",
            ) from None
        except NotTaken:
            raise RunError(
                "the run ended while answers waited to be taken, and a savepoint would be behind them",
                hint="start it once more, take() them, and take the savepoint then",
            ) from None
        with writing_savepoint(out) as savepoint:
            savepoint.add(QUERY, contents)

    @property
    def repeated_batches(self) -> int:
        return self.run.progress.repeated

    # ---- inside -----------------------------------------------------------------------------------------------------

    def _check_pushed(self, name: str, what: str) -> None:
        if self.run.is_read(name):
            raise RunError(
                f"stream {name!r} is read by the run itself, so it cannot be {what}",
                hint=f"declare it by its columns alone to push it: session.stream({name!r}, schema=…, time=…)",
            )

    def _check_elsewhere(self, how: str, hint: str = "call it from another thread") -> None:
        """In the thread that answers, nothing can be waited for that it would do itself."""
        if self.run.is_own_thread:
            raise RunError(f"{how} would wait for ever inside on_answer or on_late", hint=hint)
