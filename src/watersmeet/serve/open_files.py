"""Open files of this process: each connection is one, and its queries need some, too."""

from __future__ import annotations

from dataclasses import replace

from watersmeet.serve.limits import Limits

UNBOUNDED = 1 << 20
MOST_ACCEPTED = 128  # connections that are taken at once, before any of them is looked at
FOR_QUERIES = 512  # files of checkpoints, sources and sinks


def allowed_files() -> int:
    """How many this process may have open, once it has asked for as many as it gets."""
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
