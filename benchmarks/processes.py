"""What this process and all below it use of the machine, Java's and Python's apart, where /proc tells it."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["java", "python"]
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1


@dataclass(frozen=True)
class Process:
    """`cpu_s` with that of processes below it that have ended."""

    number: int
    kind: Kind
    cpu_s: float


def processes() -> Iterator[Process]:
    """This one and all below it."""
    below: dict[int, list[int]] = {}
    found: dict[int, Process] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = entry.read_text().rpartition(")")
        except OSError:
            continue
        fields, number = tail.split(), int(entry.parent.name)
        below.setdefault(int(fields[1]), []).append(number)
        kind: Kind = "java" if head.endswith("(java") else "python"
        found[number] = Process(number, kind, sum(map(int, fields[11:15])) / TICKS)
    ahead = [os.getpid()]
    while ahead:
        number = ahead.pop()
        if number in found:
            yield found[number]
        ahead += below.get(number, [])


def cpu_seconds(kind: Kind | None = None) -> float:
    """What they have used of the processors."""
    return sum(one.cpu_s for one in processes() if kind in (None, one.kind))


def memory_mb(process: int, name: str, file: str = "status") -> float:
    """`VmHWM` of `status` is the most that ever was resident; `Pss` of `smaps_rollup` counts what processes share once,
    in parts."""
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path(f"/proc/{process}/{file}").read_text(), re.MULTILINE)
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


class MemoryWatch:
    """The most memory of all Javas and of all Pythons but this one, each together, while a block runs."""

    def __init__(self) -> None:
        self.most_mb: dict[Kind, float] = {"java": 0.0, "python": 0.0}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            now: dict[Kind, float] = {"java": 0.0, "python": 0.0}
            for one in processes():
                if one.kind == "java":  # one that is alone shares nothing, and knows its most by itself
                    now["java"] += memory_mb(one.number, "VmHWM")
                elif one.number != os.getpid():  # workers are forks, which share what was loaded before
                    now["python"] += memory_mb(one.number, "Pss", "smaps_rollup")
            self.most_mb = {kind: max(most, now[kind]) for kind, most in self.most_mb.items()}
