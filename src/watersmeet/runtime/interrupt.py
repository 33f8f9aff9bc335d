"""Ctrl-C and SIGTERM: the first asks a run to stop after the batch in hand, the second ends it at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 130  # the exit code of whoever was stopped
TOLD_WITHIN_S = 1.0  # where nobody reads what is told, nobody waits for it longer


class AbortedInBatch(KeyboardInterrupt):
    """The second Ctrl-C: what the batch in hand has done is given up."""


class Interrupts:
    """Remembers whether a stop was asked for, across the runs of a script."""

    def __init__(self, tell: Callable[[str], None], unit: str = "batch") -> None:
        """unit: what is finished before a run stops."""
        self.requested = False
        self._tell = tell
        self._unit = unit

    @contextmanager
    def stopping(self, request_stop: Callable[[], None]) -> Iterator[None]:
        """Within the block, the first Ctrl-C calls `request_stop` and the second raises AbortedInBatch."""

        def handle(signum: int, frame: FrameType | None) -> None:
            if self.requested:
                raise KeyboardInterrupt
            self.requested = True
            request_stop()
            telling.start()

        # By another thread: the one that is interrupted may be in the middle of telling something else.
        text = f"stopping after the {self._unit} in hand; press Ctrl-C again to abort"
        telling = threading.Thread(target=self._tell, args=(text,), daemon=True)
        before = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        except KeyboardInterrupt:
            raise AbortedInBatch from None
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)
            if telling.ident is not None:
                telling.join(TOLD_WITHIN_S)


@contextmanager
def term_as_ctrl_c() -> Iterator[None]:
    """Within the block SIGTERM ends as Ctrl-C does, also while nothing runs yet: what was begun is put away, and the
    exit code is that of a stop."""

    def handle(signum: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # where Python lets nobody listen to signals
        yield
        return
    before = signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
