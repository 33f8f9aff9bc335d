"""The small graph of the offline optimum, chain by chain. optimum.py says what its nodes and arcs mean."""

from __future__ import annotations

import numpy as np

from watersmeet.compiling import kernel


@kernel
def events_of(rows, starts, key_count, instants, last, first_counted, from_stream, to_stream):
    """The events of the chains of some streams: each instant at which a partner arrives and a row of the chain could
    be in memory. `rows` are sorted by chain and instant; `starts` is where each chain begins.

    Gives per event its instant, the partners that arrive, the rows that could have stayed since the event before, and
    the place in `rows` after the last row that came earlier; and per row that may enter, the row and its event.
    """
    most = rows.size
    instant_of, gains = np.empty(most, np.int64), np.empty(most, np.int64)
    stayers, places = np.empty(most, np.int64), np.empty(most, np.int64)
    entering, entered = np.empty(most, np.int64), np.empty(most, np.int64)
    events = entries = 0
    for chain in range(from_stream * key_count, to_stream * key_count):
        partner = chain + key_count if chain < key_count else chain - key_count
        end = starts[chain + 1]
        alive = arrived = before = starts[chain]
        p, partners_end = starts[partner], starts[partner + 1]
        while p < partners_end:
            now = instants[rows[p]]
            gain = 0
            while p < partners_end and instants[rows[p]] == now:
                gain += 1
                p += 1
            if now < first_counted:
                continue
            # Rows of this very instant meet the partners in any case; only earlier ones gain by being held.
            while arrived < end and instants[rows[arrived]] < now:
                arrived += 1
            while alive < arrived and last[rows[alive]] < now:
                alive += 1
            if alive < arrived:
                # Rows that came since the last event may enter here; older ones can only have stayed.
                for k in range(max(before, alive), arrived):
                    entering[entries], entered[entries] = rows[k], events
                    entries += 1
                instant_of[events], gains[events], places[events] = now, gain, arrived
                stayers[events] = max(0, before - alive)
                events += 1
            before = arrived
    return instant_of[:events], gains[:events], stayers[:events], places[:events], entering[:entries], entered[:entries]


@kernel
def keep_newest(rows, instant_of, places, held, until):
    """At each event the `held` newest rows of its chain are in memory: note it in `until`."""
    for e in range(instant_of.size):
        for k in range(places[e] - held[e], places[e]):
            until[rows[k]] = max(until[rows[k]], instant_of[e])
