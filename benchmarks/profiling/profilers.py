"""Who looks at a process: py-spy, which sees lines of Python, and perf, which sees compiled code and the system.

Both are started beside it and look for the same seconds. py-spy comes from PyPI, perf from a distribution: without
perf there are no shares of kernels and libraries.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PY_SPY_HZ, PERF_HZ = 397, 1_999
LATE_S = 60.0  # beyond the seconds asked for
FRAME = re.compile(r"(.*) \((.*):(\d+)\)$")
SAMPLE = re.compile(r"\s*(.*?)\s+([0-9a-f]+) (.*?)(?:\+0x[0-9a-f]+)? \((.*)\)$")

ASIDE = "aside"  # a thread of this name makes what the benchmark needs, and counts for nothing


class MissingError(Exception):
    """Why nothing can be looked at here, in one sentence."""


@dataclass(frozen=True)
class Frame:
    function: str
    file: str
    line: int


Stack = tuple[Frame, ...]  # from the outermost call


@dataclass(frozen=True)
class Place:
    """Where a processor was: an address, the symbol that is known for it, and the file that it is from."""

    address: int
    symbol: str
    file: str


@dataclass(frozen=True)
class Seen:
    stacks: Counter[Stack]
    places: Counter[Place] | None  # None: there is no perf here


def py_spy() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise MissingError("py-spy is not installed: pip install py-spy, or the extra dev")
    return found


def why_no_perf() -> str | None:
    """None if it is here and may look."""
    perf = shutil.which("perf")
    if perf is None:
        return "perf is not installed, so there are no shares of kernels and libraries"
    tried = subprocess.run(
        [perf, "record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "--", "true"], check=False, capture_output=True
    )
    return (
        "perf may not look at processes here, so there are no shares of kernels and libraries"
        if tried.returncode
        else None
    )


def looked_at(process: int, seconds: float, folder: Path, *, waiting: bool, with_perf: bool) -> Seen:
    """waiting: also threads that wait, for what counts by the clock."""
    stacks, places = folder / "stacks", folder / "places"
    spy = [py_spy(), "record", "-p", str(process), "-d", f"{seconds:.0f}", "-r", str(PY_SPY_HZ), "-f", "raw"]
    # One that stops the process would see threads that wait as they wake, and change what it looks at.
    spy += ["--nonblocking", "--full-filenames", "-o", str(stacks), *(["--idle"] if waiting else [])]
    perf = ["perf", "record", "-q", "-B", "-N", "-e", "cpu-clock", "-F", str(PERF_HZ), "-o", str(places)]
    perf += ["-p", str(process), "--", "sleep", f"{seconds:g}"]
    with started(spy, "py-spy", seconds), started(perf, "perf", seconds) if with_perf else nothing():
        pass
    return Seen(stacks_of(stacks.read_text()), places_of(places) if with_perf else None)


@contextmanager
def nothing() -> Iterator[None]:
    yield


@contextmanager
def started(command: list[str], name: str, seconds: float) -> Iterator[None]:
    """It has ended when this ends."""
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield
        _, said = running.communicate(timeout=seconds + LATE_S)
    finally:
        running.kill()
        running.wait()
    if running.returncode:
        last = (said.strip().splitlines() or ["it said nothing"])[-1]
        raise MissingError(f"{name} could not look at a process: {last}")


def stacks_of(raw: str) -> Counter[Stack]:
    """What py-spy wrote: frames divided by semicolons, and how often."""
    found: Counter[Stack] = Counter()
    for line in raw.splitlines():
        frames, _, times = line.rpartition(" ")
        matches = (FRAME.match(one) for one in frames.split(";"))
        found[tuple(Frame(one[1], one[2], int(one[3])) for one in matches if one)] += int(times)
    return found


def places_of(data: Path) -> Counter[Place]:
    command = ["perf", "script", "-i", str(data), "--no-demangle", "-F", "comm,ip,sym,dso"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    matches = (SAMPLE.match(line) for line in told.splitlines())
    return Counter(Place(int(one[2], 16), one[3], one[4]) for one in matches if one and one[1] != ASIDE)
