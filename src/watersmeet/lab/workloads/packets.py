"""Packets of network flows on their way over several links, with delays and losses."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from watersmeet.errors import DataError
from watersmeet.lab.workloads.making import SECOND_US, Numbers, at_least, drawn, in_time_order, zipf_shares

SIZES, SIZE_SHARES = np.array([40, 576, 1500]), np.array([0.5, 0.2, 0.3])  # acknowledgements, fragments, full packets
PORTS = np.array([443, 80, 53, 22, 25])
DELAY_SECONDS = 0.02  # from link to link, in the mean


def packets(
    rows: int = 60_000,
    seed: int = 1,
    *,
    links: int = 2,
    flows: int = 2_000,
    skew: float = 1.1,
    rate: float = 10_000.0,
    loss: float = 0.01,
) -> dict[str, pa.Table]:
    """Packets seen on link1, link2, …; join them by (`flow`, `packet`), parts of a second apart.

    rows: of all links together, if none were lost.
    links: how many links each packet passes.
    flows: how many there are.
    skew: the k-th largest flow has as many packets as 1 / k^skew.
    rate: packets a second on each link.
    loss: the share that is lost between two links.

    >>> seen = packets(rows=2000, seed=1)
    >>> seen["link1"].schema.names, seen["link1"].num_rows, seen["link2"].num_rows < 1000
    (['flow', 'packet', 'src', 'dst', 'port', 'bytes', 'ts'], 1000, True)
    """
    at_least("links", links, 1)
    at_least("rate", rate, 1e-6)
    if not 0 <= loss < 1:
        raise DataError(f"loss is a share, from 0 to below 1, but {loss} was given")
    rng = np.random.default_rng(seed)
    size = rows // links
    flow = rng.permutation(flows)[drawn(rng, zipf_shares(flows, skew), size)]
    times = np.cumsum(rng.exponential(SECOND_US / rate, size)).astype(np.int64)
    ends = rng.integers(1, 2**24, (2, flows))
    columns = {
        "flow": flow,
        "packet": _numbered(flow),
        "src": ends[0, flow],
        "dst": ends[1, flow],
        "port": PORTS[rng.integers(0, PORTS.size, flows)][flow],
        "bytes": SIZES[drawn(rng, SIZE_SHARES, size)],
    }
    made = {}
    for link in range(1, links + 1):
        made[f"link{link}"] = in_time_order(times, columns)
        kept = rng.random(times.size) >= loss
        columns = {name: values[kept] for name, values in columns.items()}
        delay = rng.exponential(DELAY_SECONDS * SECOND_US, int(kept.sum()))
        times = times[kept] + delay.astype(np.int64)
    return made


def _numbered(flow: Numbers) -> Numbers:
    """The number of each packet in its flow."""
    order = np.argsort(flow, kind="stable")
    first = np.searchsorted(flow[order], flow[order])
    numbers = np.empty_like(flow)
    numbers[order] = np.arange(flow.size) - first
    return numbers
