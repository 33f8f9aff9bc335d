"""Asks a run in another process to do something, such as to write a savepoint, by files in its checkpoint: one that
asks, and one that answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from time import sleep
from typing import Any
from uuid import uuid4

from watersmeet.errors import RunError, WatersmeetError
from watersmeet.hosts.local.durable.notes import FILE
from watersmeet.io.whole_files import write_whole

FILES = _ASKED, _ANSWERED = "asked.json", "answered.json"
LOOK_S = 0.2
SAVEPOINT, REPLACE = "savepoint", "replace"
Does = Callable[[Mapping[str, Any]], Sequence[str]]  # what is asked for, by what is said with it; gives words to tell


class Requests:
    """Looks for them beside the run."""

    def __init__(self, folder: Path, does: Mapping[str, Does]) -> None:
        self._folder, self._does = folder, does
        self._stop = Event()
        (folder / _ASKED).unlink(missing_ok=True)  # of whoever asked a life before
        self._thread = Thread(target=self._look, name="watersmeet is asked", daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.wait(LOOK_S):
            with suppress(OSError, ValueError):
                asked = json.loads((self._folder / _ASKED).read_bytes())
                (self._folder / _ASKED).unlink()
                answer = json.dumps({"id": asked["id"], **self._done(asked)})
                write_whole(self._folder / _ANSWERED, answer.encode(), on_disk=False)

    def _done(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What there is to say, or what went wrong, in words."""
        try:
            return {"said": list(self._does[asked["do"]](asked)), "wrong": None}
        except WatersmeetError as error:
            return {"wrong": [error.message, error.hint]}
        except Exception as error:
            return {"wrong": [f"{type(error).__name__}: {error}", None]}

    def close(self) -> None:
        self._stop.set()


def is_running(folder: Path) -> bool:
    """Whether a process of this machine has a checkpoint, or that of one of its queries, in use."""
    if sys.platform == "win32":
        return False
    import fcntl

    for held in (folder / "lock", *folder.glob("*/lock")):
        with suppress(FileNotFoundError), held.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
    return False


def ask(folder: Path, do: str, **said: Any) -> list[str]:
    """Have the process that runs there do something; returns when it is done, with what there is to say of it."""
    name = uuid4().hex
    write_whole(folder / _ASKED, json.dumps({"id": name, "do": do, **said}).encode(), on_disk=False)
    try:
        while (answer := _answer(folder, name)) is None:
            if not is_running(folder):
                raise RunError("the run has ended before it did what it was asked for", hint="ask once more")
            sleep(LOOK_S / 4)
    finally:
        (folder / _ASKED).unlink(missing_ok=True)
    (folder / _ANSWERED).unlink(missing_ok=True)
    if answer["wrong"] is not None:
        message, hint = answer["wrong"]
        raise RunError(str(message), hint=hint)
    return list(answer["said"])


def _answer(folder: Path, name: str) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((folder / _ANSWERED).read_bytes())
        return found if found["id"] == name else None
    return None


def scripts_of(folder: Path) -> list[str]:
    """Where the script lay whose queries have their checkpoints there."""
    from watersmeet.hosts.local.durable.notes import RunNotes
    from watersmeet.hosts.local.durable.place import Place

    folders = [one.parent for one in (*folder.glob(FILE), *folder.glob(f"*/{FILE}"))]
    found = (RunNotes(Place(one)).get("script") for one in folders)
    return list(dict.fromkeys(one for one in found if one is not None))
