"""The workloads as sources of SQL: WITH (source = 'lab:zipf', stream = 's1', rows = '1000', …)."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

import pyarrow as pa

from watersmeet.errors import SourceError
from watersmeet.lab.workloads import WORKLOADS


def workload_table(name: str, options: Mapping[str, str]) -> pa.Table:
    """The rows of one stream of a workload; all options but `stream` are parameters of the workload."""
    if name not in WORKLOADS:
        near = get_close_matches(name, WORKLOADS, n=1)
        hint = f"did you mean lab:{near[0]}? " if near else ""
        raise SourceError(f"there is no workload {name!r}", hint=f"{hint}there are {', '.join(WORKLOADS)}")
    parameters = {key: value for key, value in options.items() if key != "stream"}
    return WORKLOADS[name].table(options.get("stream"), parameters)
