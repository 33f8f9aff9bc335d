"""Makes the class archive of Java and Spark (see class_archive.py): a process of its own starts Spark, has it load what
a query needs, and ends. It and its Java are a group, which ends with whoever asked for it, however that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import IO

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.launching.class_archive import SETTING, ClassArchive
from watersmeet.hosts.spark.launching.java import use_java
from watersmeet.hosts.spark.launching.launch import let_workers_import_us
from watersmeet.noticing import phase
from watersmeet.temporary_folders import temporary_folder

LONGEST_SECONDS = 600.0  # that making one may take
STARTING, JOINING, WRITING, DONE = "starting Spark", "running a small join", "writing the class archive", "done"
SCRIPT = """
CREATE STREAM a (k BIGINT, v DOUBLE, ts TIMESTAMP)
WITH (source='parquet', path='{0}/a', time='ts', maxFilesPerTrigger='1');
CREATE STREAM b (k BIGINT, v DOUBLE, ts TIMESTAMP)
WITH (source='parquet', path='{0}/b', time='ts', maxFilesPerTrigger='1', packed='false');
CREATE SINK pairs WITH (sink='parquet', path='{0}/pairs', mode='overwrite') AS
SELECT a.k, a.v, b.v AS w FROM a, b WHERE a.k = b.k WINDOW = 1 SECOND;
"""


def _has_base(java_home: Path) -> bool:
    """Whether Java came with an archive of its own classes; those cut to size for a package do not."""
    return any(java_home.glob("lib/server/classes*.jsa"))


def _make_base(java_home: Path, base: Path) -> None:
    draft = base.with_suffix(f".{os.getpid()}")
    try:
        command = [str(java_home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={draft}"]
        nowhere = subprocess.DEVNULL
        subprocess.run(command, check=True, stdin=nowhere, stdout=nowhere)
        os.chmod(draft, 0o600)
        draft.replace(base)
    finally:
        draft.unlink(missing_ok=True)


def train(draft: Path, base: Path, begin: Callable[[str], object]) -> None:
    """Spark from its start to its end, with a query in between that reads as our sources and as Spark's do. `base` is
    made first if this Java has none of its own. `begin` is told what is begun."""
    from pyspark import SparkContext

    from watersmeet.hosts.spark.launching import launch
    from watersmeet.hosts.spark.launching.launch import JAVA_OPTIONS, START, start_spark
    from watersmeet.hosts.spark.run import SparkRun
    from watersmeet.runtime.run_settings import RunSettings

    launch.apart_from_terminal = False
    # Java would tell on stdout of each class that cannot be in it.
    options = f'{START[JAVA_OPTIONS]} "-XX:ArchiveClassesAtExit={draft}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    options += f' "-Djava.io.tmpdir={tempfile.gettempdir()}"'
    use_java()
    java_home = Path(os.environ["JAVA_HOME"])
    if not _has_base(java_home):
        _make_base(java_home, base)
        options += f' "-XX:SharedArchiveFile={base}"'
    spark = start_spark("local[2]", {JAVA_OPTIONS: options, SETTING: "false"})
    begin(JOINING)
    with temporary_folder("classes-") as folder:
        _write(folder)
        SparkRun(spark, SCRIPT.format(folder), RunSettings(available_now=True)).run()
        spark.read.parquet(f"{folder}/pairs").count()
    begin(WRITING)
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    # It ends when nobody can write to it any more, and writes the archive then.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _write(folder: Path) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in "ab":
        (folder / name).mkdir()
        for number in range(3):
            at = pa.array((np.arange(200) + 200 * number) * 1000).cast(pa.timestamp("us"))
            rows = pa.table({"k": np.arange(200) % 20, "v": np.ones(200), "ts": at})
            path = folder / name / f"{number}.parquet"
            pq.write_table(rows, path)
            os.utime(path, (1_700_000_000 + number,) * 2)


def make_archive(tell: Callable[[str], object], longest_s: float = LONGEST_SECONDS) -> tuple[Path, bool]:
    """Make the archive of this machine's Java and Spark if it is not there: where it is, and whether it is new. `tell`
    is told, in a sentence, what begins then."""
    use_java()
    archive = ClassArchive.of_this_machine()
    if archive is None:
        raise SetupError(
            "there is no private folder in which a class archive could be kept",
            hint="name a folder of your own (mkdir -m 700) in XDG_CACHE_HOME",
        )
    return archive.path, archive.make(partial(train_apart, tell=tell, longest_s=longest_s))


def train_apart(
    draft: Path, base: Path, tell: Callable[[str], object], longest_s: float, program: str = __name__
) -> None:
    """Run `train` in a process of its own, and show what it is at; nothing of it is left afterwards."""
    tell(
        "Spark is started once, runs a small join, and Java keeps what it has loaded by then: one or two minutes, at "
        f"most {longest_s / 60:.0f}"
    )
    let_workers_import_us()
    # What is killed clears nothing away, so it has a folder of its own for all it makes.
    with tempfile.TemporaryFile() as told, temporary_folder("training-") as scratch:
        environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", program, str(draft), str(base)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=told, start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        too_long = threading.Timer(longest_s, _end_group, [process])
        too_long.start()
        try:
            is_done = _follow(process.stdout)
        finally:
            was_too_long = not too_long.is_alive()
            too_long.cancel()
            _end_group(process)
            process.communicate()
        if not is_done:
            told.seek(0)
            why = f"it took longer than {longest_s:,.0f} s" if was_too_long else _last_line(told)
            raise SetupError(f"no class archive was made: {why}", hint="Spark starts without one, only slower")


def _follow(steps: IO[bytes]) -> bool:
    """Show what the other process is at, until it ends; whether it came to its end."""
    with ExitStack() as shown:
        shown.enter_context(phase(STARTING))
        for line in steps:
            shown.close()
            step = line.decode().strip()
            if step == DONE:
                return True
            shown.enter_context(phase(step))
    return False


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End it and its Java. It was not waited for yet, so that no other process can have its number."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _last_line(told: IO[bytes]) -> str:
    lines = told.read().decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it was ended")


def _end_with_whoever_asked() -> None:
    """They hold the other end of stdin, and it closes however they end."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        if hasattr(os, "killpg"):
            os.killpg(0, signal.SIGKILL)
        os._exit(1)

    threading.Thread(target=wait, name="whoever asked", daemon=True).start()


def main() -> None:
    _end_with_whoever_asked()
    # What Java and Spark print is not for who follows the steps. Closed by the end, after what went wrong is told.
    steps = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    train(Path(sys.argv[1]), Path(sys.argv[2]), lambda step: steps.write(f"{step}\n"))
    steps.write(f"{DONE}\n")


if __name__ == "__main__":
    main()
