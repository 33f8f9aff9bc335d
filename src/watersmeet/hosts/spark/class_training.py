"""Makes the class archive of Java and Spark (see class_archive.py), as a program of its own: it starts Spark, has it
load what a query needs, and ends."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from watersmeet.hosts.spark.launching.class_archive import SETTING, ClassArchive
from watersmeet.hosts.spark.launching.java import use_java
from watersmeet.private_folders import temporary_folder

LONGEST_SECONDS = 900.0  # that making one may take
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
        subprocess.run(command, check=True, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=LONGEST_SECONDS)
        os.chmod(draft, 0o600)
        draft.replace(base)
    finally:
        draft.unlink(missing_ok=True)


def train(draft: Path, base: Path) -> None:
    """Spark from its start to its end, with a query in between that reads as our sources and as Spark's do. `base` is
    made first if this Java has none of its own."""
    # Loaded here, as a process that works in the background gives way before that.
    from pyspark import SparkContext

    from watersmeet.hosts.spark.launching import launch
    from watersmeet.hosts.spark.launching.launch import JAVA_OPTIONS, START, start_spark
    from watersmeet.hosts.spark.run import SparkRun
    from watersmeet.runtime.run_settings import RunSettings

    launch.apart_from_terminal = False
    # Java would tell on stdout of each class that cannot be in it.
    options = f'{START[JAVA_OPTIONS]} "-XX:ArchiveClassesAtExit={draft}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    use_java()
    java_home = Path(os.environ["JAVA_HOME"])
    if not _has_base(java_home):
        _make_base(java_home, base)
        options += f' "-XX:SharedArchiveFile={base}"'
    spark = start_spark("local[2]", {JAVA_OPTIONS: options, SETTING: "false"})
    with temporary_folder("classes-") as folder:
        _write(folder)
        SparkRun(spark, SCRIPT.format(folder), RunSettings(available_now=True)).run()
        spark.read.parquet(f"{folder}/pairs").count()
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    # It ends when nobody can write to it any more, and writes the archive then.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(LONGEST_SECONDS)


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


def made_now() -> bool:
    """Make the archive of this machine's Java and Spark if it is not there; whether it is there now."""
    use_java()
    archive = ClassArchive.of_this_machine()
    return archive is not None and (archive.path.exists() or archive.make(train))


def _give_way() -> None:
    """Take the lowest priority. Linux shares processors between sessions before it looks at how nice a process is, and
    this is a session of its own, so that has to be told too."""
    if hasattr(os, "nice"):
        os.nice(19)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19")


def main() -> None:
    if not sys.argv[1:]:  # somebody waits for it
        if not made_now():
            print("no class archive was made, now or when it was tried last: Spark starts without one", file=sys.stderr)
        return
    path, chosen_by = sys.argv[1:]
    _give_way()
    # Its own scratch: that of whoever started this may be gone by now.
    os.chdir(tempfile.gettempdir())
    ClassArchive(Path(path).parent, Path(path).name, chosen_by).make(train)


if __name__ == "__main__":
    main()
