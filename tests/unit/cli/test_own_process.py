"""What a command does to its process."""

from __future__ import annotations

import gc
import sys

from watersmeet.cli.own_process import SWITCH_S, preferring_latency


def looked_at(thing: object) -> bool:
    """Whether looks for garbage pass over it."""
    return any(each is thing for each in gc.get_objects())


def test_what_was_loaded_stays_out_of_looks_for_garbage_and_threads_take_turns_more_often() -> None:
    before_s = sys.getswitchinterval()
    loaded: list[object] = [[]]
    assert looked_at(loaded)
    with preferring_latency():
        assert sys.getswitchinterval() == SWITCH_S
        assert not looked_at(loaded)
    assert sys.getswitchinterval() == before_s
    assert not looked_at(loaded)
