"""What a command does to its process."""

from __future__ import annotations

import gc
import sys

from watersmeet.cli.own_process import SWITCH_S, preferring_latency


def test_what_was_loaded_stays_out_of_looks_for_garbage_and_threads_take_turns_more_often() -> None:
    before_s = sys.getswitchinterval()
    gc.freeze()  # as one may have done who calls a command
    frozen = gc.get_freeze_count()
    with preferring_latency():
        assert sys.getswitchinterval() == SWITCH_S
    assert sys.getswitchinterval() == before_s
    assert gc.get_freeze_count() >= frozen > 0
