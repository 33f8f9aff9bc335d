"""How much one server takes on: all of it has a bound."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.dataclass import dataclass

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    body_bytes: int = 16 * MIB
    bodies: int = 8  # so many of the largest bodies may be in memory at a time
    subscribers: int = 1_000
    kept_rows: int = 100_000  # the latest rows of each query, for those who come back
    kept_bytes: int = 64 * MIB
    connections: int = 512  # beside subscribers
    head_s: float = 10.0  # who has not asked for anything within so long is let go
    body_pause_s: float = 30.0  # who sends nothing of a body for so long is let go
    send_pause_s: float = 10.0  # who reads nothing of an answer for so long is let go
    room_s: float = 10.0  # for so long rows wait for those before them
    heartbeat_s: float = 15.0


UNBOUNDED = 1 << 20
MOST_ACCEPTED = 128  # connections that are taken at once, before any of them is looked at
FOR_QUERIES = 512  # files of checkpoints, sources and sinks


def allowed_files() -> int:
    """How many files this process may have open, once it has asked for as many as it gets."""
    try:
        import resource
    except ImportError:  # Windows
        return UNBOUNDED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = UNBOUNDED if hard == resource.RLIM_INFINITY else min(hard, UNBOUNDED)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return most if soft == resource.RLIM_INFINITY else soft


def fitted(limits: Limits, files: int) -> Limits:
    """The same limits, with fewer connections where a process may not have as many files open.

    >>> fitted(Limits(subscribers=1_000, connections=512), 4_096).subscribers
    1000
    >>> few = fitted(Limits(subscribers=1_000, connections=512), 1_024)
    >>> few.subscribers, few.connections
    (253, 131)
    """
    room = max(files - min(MOST_ACCEPTED + FOR_QUERIES, files * 3 // 4), 2)
    wanted = limits.subscribers + limits.connections
    if wanted <= room:
        return limits
    subscribers = max(limits.subscribers * room // wanted, 1)
    return replace(limits, subscribers=subscribers, connections=max(room - subscribers, 1))
