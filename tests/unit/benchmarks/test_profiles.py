"""Where time goes: what is made of what profilers have seen, and that kernels have their names."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks import page, profiles
from benchmarks.profiling import addresses, profilers, shares
from benchmarks.profiling.addresses import Names
from benchmarks.profiling.profilers import Frame, MissingError, Place, Seen, stacks_of
from benchmarks.profiling.workloads import WORKLOADS
from watersmeet.operators.kernels.rows import disorder

SOURCE = "/somewhere/src/watersmeet"
TAKE = Frame("GroupBy.take", f"{SOURCE}/operators/continuous/group_by.py", 7)
SUMMED = Frame("_sum", "/lib/numpy/_core/_methods.py", 50)
NAMES = Names([(0x1000, "_ZN10watersmeet9operators7kernels4sums6spreadB3v4"), (0x2000, "NRT_decref")])


def test_stacks_are_read_with_names_that_have_anything_in_them():
    raw = f"run.<locals>.<genexpr> (a b.py:3);GroupBy.take ({TAKE.file}:7) 12\nmain (x.py:1) 3\nmain (x.py:1) 1\n"
    first = (Frame("run.<locals>.<genexpr>", "a b.py", 3), TAKE)
    assert stacks_of(raw) == Counter({first: 12, (Frame("main", "x.py", 1),): 4})


def test_a_line_outside_counts_for_the_line_of_ours_that_called_it():
    seen = shares.in_source(Counter({(TAKE, SUMMED): 6, (TAKE,): 2, (SUMMED,): 9}))
    assert shares.by_room(seen) == {"operators/continuous": 8}
    assert shares.by_function(seen) == {"operators/continuous/group_by.py: GroupBy.take": 8}


def test_waiting_for_the_disk_is_a_room_of_its_own(tmp_path):
    file = tmp_path / "src" / "watersmeet" / "journal.py"
    file.parent.mkdir(parents=True)
    file.write_text("import os\nos.fdatasync(3)\n")
    stacks = Counter({(Frame("sync", str(file), line),): 1 for line in (1, 2)})
    assert shares.by_room(stacks) == {"watersmeet": 1, "disk": 1}
    assert set(shares.by_function(stacks)) == {"journal.py: sync", "journal.py: sync, disk"}


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("[kernel.kallsyms]", "operating system"),
        ("/v/site-packages/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so", "numpy"),
        ("/v/site-packages/pyarrow/libarrow.so.2600", "pyarrow"),
        ("/v/site-packages/pyarrow/lib.cpython-311-x86_64-linux-gnu.so", "pyarrow"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "C library"),
        ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", "C library"),
        ("/opt/lib/libpython3.11.so.1.0", "Python"),
        ("/opt/bin/python3.11", "Python"),
        ("/opt/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", "Python"),
        ("/v/numba/_dispatcher.cpython-311-x86_64-linux-gnu.so", "Numba"),
        ("/tmp/perf-17.map", "code without a name"),
        ("/opt/lib/libduckdb.so", "libduckdb.so"),
    ],
)
def test_code_is_of_the_library_that_its_file_is_from(file, library):
    assert shares.library(Place(1, "any", file), NAMES) == library


def test_compiled_code_has_the_name_of_its_kernel():
    places = Counter(
        {Place(0x1010, "[unknown]", "/tmp/perf-17.map"): 3, Place(5, "clear_page_erms", "[kernel.kallsyms]"): 1}
    )
    assert shares.by_kernel(places, NAMES) == {"sums.spread": 3, shares.ZEROING: 1}
    assert shares.by_library(places, NAMES) == {"kernels": 3, shares.ZEROING: 1}
    assert NAMES.at(0xFFF) is None
    assert NAMES.at(0x2000) == "NRT_decref"
    assert NAMES.at(0x2000 + addresses.FAR_IN_RUNTIME) is None


def test_kernels_of_this_process_are_found_by_address():
    disorder(np.arange(4), np.int64(0))
    code = addresses.compiled_code()
    assert "rows.disorder" in {Names(code).at(address) for address, name in code if "disorder" in name}
    assert code == sorted(code)


def test_shares_are_of_all_that_was_seen_and_what_is_little_is_not_told():
    assert shares.shares(Counter({"a": 800, "b": 198, "c": 2})) == {"a": 0.8, "b": 0.198}
    assert shares.shares(Counter({"a": 3, "b": 1}), most=1) == {"a": 0.75}


def test_what_counts_by_the_clock_is_seen_within_a_batch_alone():
    batch = Frame("BatchLoop._batch", f"{SOURCE}/hosts/local/durable/batch_loop.py", 9)
    seen = Seen(
        Counter({(batch, TAKE): 3, (batch,): 1, (TAKE,): 5}), Counter({Place(1, "x", "/opt/bin/python3.11"): 7})
    )
    told = profiles.figure_of("latency: join of two", seen, NAMES)
    assert told.median == 4
    assert told.notes["rooms"] == {"operators/continuous": 0.75, "hosts/local": 0.25}
    assert "kernels" not in told.notes
    assert profiles.figure_of("one push: x", seen, NAMES).notes["kernels"] == {"Python": 1.0}


def test_without_py_spy_there_is_a_sentence_and_no_figure(tmp_path, monkeypatch):
    monkeypatch.setattr(profilers.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(profilers.shutil, "which", lambda name: None)
    with pytest.raises(MissingError, match="py-spy is not installed"):
        list(profiles.figures(list(WORKLOADS), 1.0))


def test_without_perf_rooms_and_functions_are_told(monkeypatch):
    monkeypatch.setattr(profilers.shutil, "which", lambda name: None)
    assert profilers.why_no_perf() == "perf is not installed, so there are no shares of kernels and libraries"
    told = profiles.figure_of("one push: x", Seen(Counter({(TAKE,): 4}), None), NAMES)
    assert (told.median, "kernels" in told.notes) == (4, False)


def test_a_profiler_that_fails_says_its_last_line():
    command = [sys.executable, "-c", "raise SystemExit('first\\nit may not')"]
    with (
        pytest.raises(MissingError, match="py-spy could not look at a process: it may not"),
        profilers.started(command, "py-spy", 1.0),
    ):
        pass


def test_a_workload_goes_on_until_it_is_told_to_end(tmp_path):
    with profiles.at_work("one push: join of two", tmp_path) as running:
        time.sleep(0.2)
        assert running.poll() is None
        said, _ = running.communicate("end\n", timeout=60)
    assert running.returncode == 0
    assert said.startswith("[[")


def test_one_that_is_left_is_ended(tmp_path):
    with pytest.raises(KeyError), profiles.at_work("one push: join of two", tmp_path) as running:
        raise KeyError
    assert running.poll() is not None


def may_look() -> bool:
    try:
        profilers.py_spy()
    except MissingError:
        return False
    return sys.platform == "linux" and os.geteuid() == 0


@pytest.mark.skipif(not may_look(), reason="py-spy is not there, or may not look at a process")
def test_a_workload_is_seen(tmp_path):
    without = profilers.why_no_perf()
    seen, names = profiles.looked("one push: join of two", Path(tmp_path), 1.0, without is None)
    told = profiles.figure_of("one push: join of two", seen, names)
    assert "operators/join" in told.notes["rooms"]
    if without is None:
        assert "Python" in told.notes["kernels"]
        assert "code without a name" not in told.notes["kernels"]


def test_the_page_tells_the_five_largest_and_any_share_by_name(monkeypatch, capsys):
    notes = {
        "kernels": dict.fromkeys("abcdef", 0.1),
        "libraries": {"kernels": 0.6},
        "rooms": {"io": 0.25},
        "functions": {},
    }
    found = {"figures": [{"name": "one: x, y", "median": 1234, "notes": notes}]}
    monkeypatch.setattr(page, "results", lambda name: found)
    row = page.profiles(None).splitlines()[2]
    assert row == "| one: x, y | a 10 %, b 10 %, c 10 %, d 10 %, e 10 % | io 25 % | 1,234 |"
    assert page.share("one: x, y; kernels + io") == "85 %"
    assert page.share("one: x, y; nothing") == "under 1 %"
    assert page.share("two; io") == page.MISSING
    assert "has no workload 'two'" in capsys.readouterr().err


def test_every_share_that_the_page_asks_for_is_of_a_workload():
    asked = [one[3] for one in page.PLACE.finditer(page.TEMPLATE.read_text()) if one[1] == "share"]
    assert asked
    assert {one.partition("; ")[0] for one in asked} <= set(WORKLOADS)


def test_all_of_it_is_run_beside_the_others():
    from benchmarks.all import PARTS

    assert PARTS["profiles"][1] <= 4
    assert subprocess.run(
        [sys.executable, "-m", "benchmarks.profiles", "--help"], check=True, stdout=subprocess.DEVNULL
    )
