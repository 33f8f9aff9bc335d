"""Paths as Spark takes them: of this machine, or of a file system that a scheme names."""

from __future__ import annotations

import re

NOTES = {  # of a checkpoint, by name
    "owner": "watersmeet.json",  # whose it is
    "together": "watersmeet-together.json",  # whose it is, where several queries run as one
    "run": "watersmeet-run.json",  # the name of its run
    "starts": "watersmeet-starts.json",  # those that may have written to its sinks
    "script": "watersmeet-script.json",  # where the script lay that ran
    "skipped": "watersmeet-skipped.json",  # the batches that are left out when they are repeated
    "begun": "watersmeet-begun.json",  # the savepoint that it began with
    "replaced": "watersmeet-replaced.json",  # that another query has taken the place, until its first start
    "committed": "watersmeet-committed.json",  # the last batches whose rows its sinks have
}


def has_scheme(path: str) -> bool:
    """Whether only Spark knows how to read a path, such as s3a://bucket/folder or file:/folder.

    >>> has_scheme("file:/tmp/checkpoint"), has_scheme("s3a://here"), has_scheme("C:\\here"), has_scheme("/a:/b")
    (True, True, False, False)
    """
    return re.match(r"\w[\w+.-]+:/", path) is not None
