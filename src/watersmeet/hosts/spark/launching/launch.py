"""Starts Spark with settings that suit this library, or gives a session of the user's the few it must have."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from watersmeet.errors import SetupError
from watersmeet.hosts.spark.errors import first_useful_line
from watersmeet.hosts.spark.launching import class_archive, daemon, local_files, package
from watersmeet.hosts.spark.launching.class_archive import ClassArchive, is_wanted
from watersmeet.hosts.spark.launching.executors import gone, wait_for_executors
from watersmeet.hosts.spark.launching.fork_server import environment_for_spark, python_for_spark
from watersmeet.hosts.spark.launching.java import hiding_spark_home, kept_script, use_java
from watersmeet.hosts.spark.launching.noise import quiet_stderr
from watersmeet.hosts.spark.launching.package import HOME
from watersmeet.temporary_folders import TemporaryFolder

_log = logging.getLogger(__name__)

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
COUNTING = "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows"
PARTITIONS = "spark.sql.shuffle.partitions"
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT, SOME_BYTES = "2147483647", "64m"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
LOGGING = Path(__file__).with_name("log4j2.properties")
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

# What may be set on a running session.
SESSION: Mapping[str, str] = {
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    # Counting rows makes RocksDB look up every key before it is written.
    COUNTING: "false",
    # With 2, a batch that a file sink took just before a crash can never be repeated: Spark fails an assertion.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "1",
    # Spark casts between TIMESTAMP and TIMESTAMP_NTZ, and shows times, by the zone of the session.
    "spark.sql.session.timeZone": "UTC",
    # Its default, INT96, does not say that it holds instants, and other readers take it for readings without a zone.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # With a limit of bytes, Spark asks after every row how many there are, which takes five times as long as to convert
    # it. This number of rows, its own, is the limit instead, until a query has columns whose values may be of any size;
    # packets are cut so that as many of them fit.
    ARROW_BYTES: NO_LIMIT,
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.streaming.metricsEnabled": "true",
}
# Of each value on its way to and from Python Arrow's Java would ask whether it lies inside its column, which takes a
# fifth of what the way takes. Spark goes by the number of rows of a batch, and asks for NULLs, as before.
UNCHECKED = "-Darrow.enable_unsafe_memory_access=true"
# What must be there when it starts.
START: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A new worker would import everything and load the kernels anew in every batch.
    "spark.python.worker.reuse": "true",
    # Where many queries start on few cores, workers are slow to say who they are.
    "spark.python.authenticate.socketTimeout": "120s",
    # Read when the JVM starts, before any session could set it. In quotes, as the path may have spaces.
    JAVA_OPTIONS: f'"-Dlog4j2.configurationFile=file:{LOGGING}" {UNCHECKED}',
}
LOCAL: Mapping[str, str] = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
# Executors are Javas of their own.
CLUSTER: Mapping[str, str] = {"spark.executor.extraJavaOptions": UNCHECKED}
# Java in a session of its own does not hear the terminal's Ctrl-C. Whoever wants Java to end with their group of
# processes turns it off.
apart_from_terminal = True
# Where workers surely find our modules, these are loaded before workers are forked.
PRELOADING: Mapping[str, str] = {
    "spark.python.daemon.module": daemon.MODULE,
    # Spark has a daemon for each environment, and this puts a variable into that of some stages only.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false",
}

# "true" as a setting of Spark: batches are small and shall be quick from the first on. Else Java and Spark compile for
# long runs over many rows, which takes most of the processors' time in the first dozens of small batches.
SMALL_BATCHES = "spark.watersmeet.smallBatches"
FOR_SMALL_BATCHES: Mapping[str, str] = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"

LONGEST_WAIT_S = 60.0

# What start_spark is at: it looks for a Java, starts it, starts Spark in it, and has a session.
Phase = Literal["java", "jvm", "spark", "ready"]
OnPhase = Callable[[Phase], None]


def start_spark(
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    remote: str | None = None,
    app_name: str = "watersmeet",
    on_phase: OnPhase | None = None,
    tell: Callable[[str], None] = _log.info,
    package: str | os.PathLike[str] | None = None,
) -> SparkSession:
    """A Spark session: a JVM of our own, or with `remote` (sc://host:port) a Spark Connect server.

    `conf` wins over the settings made here. If this process has a session already, that one is given, with the
    settings that a running session takes. `on_phase` is called with what is being done, as it begins: "java", "jvm",
    "spark", and "ready" at the end; of a session that is there already, or elsewhere, "ready" alone. `tell` is called
    with a sentence if something would have later starts take less, or keeps this one waiting; by default the log has
    it. The executors of a cluster get this package, and what it needs where `package` names an archive that
    `watersmeet package` has made.
    """
    chosen = dict(conf or {})
    given = None if package is None else _checked_package(Path(package), chosen.get("spark.master", master), remote)
    begin = on_phase or (lambda phase: None)
    if remote is not None:
        spark = _connected(remote, chosen, app_name)
        begin("ready")
        return spark
    ours = SparkContext._active_spark_context is None
    with _importing_meanwhile() if ours else nullcontext():
        if ours:
            _launch(_start_conf(master, chosen, app_name, given), begin, tell, by_name=given is not None)
        spark = SparkSession.builder.config(map=dict(chosen)).getOrCreate()
        if PARTITIONS not in chosen:
            spark.conf.set(PARTITIONS, str(cores(spark)))
    begin("ready")
    return spark


@contextmanager
def _importing_meanwhile() -> Iterator[None]:
    """While Java starts this process waits, so it imports what the first query will need."""
    thread = threading.Thread(target=_import, name="imports", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Two threads that import at once may see modules that are half there; so nobody else does meanwhile.
        thread.join()


def _import() -> None:
    with suppress(ImportError):  # whoever needs it will say what is missing
        for name in ("watersmeet.hosts.spark.host", "watersmeet.hosts.spark.run", "watersmeet.session"):
            import_module(name)


def _start_workers(context: SparkContext) -> None:
    """Have Spark start the daemon of its Python workers, which loads what they need while the first query is planned. A
    small job does, and whatever becomes of it is nobody's concern."""
    global _starting

    def ask() -> None:
        with suppress(Exception):
            context.parallelize([0], 1).mapPartitions(_as_they_are).count()

    _starting = threading.Thread(target=ask, name="workers", daemon=True)
    _starting.start()


_starting: threading.Thread | None = None


def wait_for_workers() -> None:
    """Until the workers have what they need, if they are just getting it. A query needs them in its first batch; before
    that Spark gives a Python on the driver 10 s to start, which that one should have the processor for."""
    if _starting is not None:
        _starting.join(LONGEST_WAIT_S)


def _as_they_are(rows: Iterable[int]) -> Iterable[int]:
    return rows


def ensure_settings(spark: SparkSession) -> list[str]:
    """Give a user's session what stateful queries cannot do without, and tell which settings were changed.

    Spark keeps the state of arbitrary operators only in RocksDB, and with changelogs a batch writes what it
    changed instead of everything. Every shuffle partition runs a Python task in every batch, with rows or without,
    so that Spark's 200 are far too many. Other settings, and what the user has set, are left as they are. They
    apply to queries that start from now on; a running one, and a checkpoint, keep their own.
    """
    changed = []
    # Only the provider is changed against a user's word: without it Spark refuses the query.
    for name, value in ((PROVIDER, ROCKSDB), (CHANGELOG, "true"), (COUNTING, "false")):
        if name == PROVIDER or spark.conf.get(name, None) is None:
            changed += _set(spark, name, value)
    if PARTITIONS not in spark.conf.getAll:  # which has what somebody set, not Spark's defaults
        changed += _set(spark, PARTITIONS, str(cores(spark)))
    return changed


def limit_arrow_batches(spark: SparkSession) -> None:
    """For a query of columns whose values may be of any size: an Arrow batch takes 2 GB, and of them so many rows as
    Spark puts into one may have more. It holds for what the session runs later, too."""
    if spark.conf.get(ARROW_BYTES) == NO_LIMIT:
        spark.conf.set(ARROW_BYTES, SOME_BYTES)


def cores(spark: SparkSession) -> int:
    """How many tasks Spark runs at once, as it knows by itself."""
    if not is_connect(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    # Spark Connect has no context to ask, but a plan of its own making shows the number, without a job.
    with redirect_stdout(StringIO()) as printed:
        spark.range(1).explain()
    splits = re.search(r"splits=(\d+)", printed.getvalue())
    return max(1, int(splits.group(1))) if splits else int(spark.conf.get(PARTITIONS, "8") or 8)


def _set(spark: SparkSession, name: str, value: str) -> list[str]:
    if spark.conf.get(name, None) == value:
        return []
    spark.conf.set(name, value)
    return [name]


def _start_conf(master: str, chosen: Mapping[str, str], app_name: str, given: Path | None = None) -> SparkConf:
    ours = {**SESSION, **START, "spark.driver.memory": f"{driver_memory_mb()}m"}
    if is_local(chosen.get("spark.master", master)):
        ours |= LOCAL
        ours |= PRELOADING if _workers_run_this_python(chosen) else {}
    else:
        ours |= CLUSTER
        chosen = {**chosen, **package.settings(given or _package_alone(), chosen)}
    if _is_true(SMALL_BATCHES, chosen):
        ours |= {**FOR_SMALL_BATCHES, JAVA_OPTIONS: f"{START[JAVA_OPTIONS]} {QUICK_COMPILER}"}
    conf = SparkConf(loadDefaults=False)
    for name, value in {**ours, **chosen}.items():
        conf.set(name, value)
    return conf.setMaster(chosen.get("spark.master", master)).setAppName(chosen.get("spark.app.name", app_name))


def _is_true(name: str, chosen: Mapping[str, str]) -> bool:
    said = chosen.get(name, "false").lower()
    if said not in ("true", "false"):
        raise SetupError(f"{name} is true or false, and {chosen[name]!r} was given")
    return said == "true"


def _workers_run_this_python(chosen: Mapping[str, str]) -> bool:
    """Another may not have this package, and its daemon would not even start."""
    programs = [chosen.get("spark.pyspark.python"), os.environ.get("PYSPARK_PYTHON")]
    return all(program in (None, "", sys.executable) for program in programs)


def _checked_package(given: Path, master: str, remote: str | None) -> Path:
    if remote is not None or is_local(master):
        where = f"{remote} has what is installed there" if remote else f"{master} has none elsewhere"
        raise SetupError(f"a package is for the executors of a cluster, and {where}", hint="leave it out")
    path = given.expanduser().absolute()
    package.read_package(path)
    return path


def _package_alone() -> Path:
    """This package without what it needs, for as long as this process lives: Spark hands it to executors that come
    later, too."""
    folder = TemporaryFolder("package-")
    atexit.register(folder.remove)
    package.write_package(folder.path / "watersmeet.tar.gz", alone=True)
    return folder.path / "watersmeet.tar.gz"


def _launch(conf: SparkConf, begin: OnPhase, tell: Callable[[str], None], *, by_name: bool) -> None:
    """Start the JVM apart from the terminal's Ctrl-C, its stderr without the usual noise, and its context. by_name:
    executors look for a Python of this version, as nothing else of this one need be there."""
    program = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    named = package.program_name() if by_name and not program else None
    # A JVM stays after its context was stopped; then only a context is missing.
    if SparkContext._gateway is None:
        begin("java")
        java = use_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        if is_local(conf.get("spark.master") or ""):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        let_workers_import_us()
        if is_local(conf.get("spark.master") or ""):  # executors elsewhere would not find them
            local_files.bring(conf)
        _use_class_archive(conf, tell)
        # SparkContext would launch the JVM by itself, but takes no arguments for the process.
        start_gateway: Any = java_gateway.launch_gateway
        begin("jvm")
        with quiet_stderr() as stderr, _environment(conf, named):
            try:
                gateway = start_gateway(conf, {"stderr": stderr, "start_new_session": apart_from_terminal})
            except Exception as error:
                raise SetupError(
                    f"Spark did not start on {java}: {_why_not(error)}",
                    hint="what it printed stands above; another Java can be named in JAVA_HOME",
                ) from None
        SparkContext._ensure_initialized(gateway=gateway)
    if local_files.are_there(SparkContext._jvm):
        local_files.use(conf)
    begin("spark")
    context = _context(conf, tell)
    context.pythonExec = named or program or context.pythonExec
    if conf.get("spark.python.daemon.module") == daemon.MODULE:
        context.pythonExec = str(python_for_spark() or context.pythonExec)
        _start_workers(context)


def _context(conf: SparkConf, tell: Callable[[str], None]) -> SparkContext:
    if is_local(conf.get("spark.master") or ""):
        return SparkContext(conf=conf)
    try:
        context = SparkContext(conf=conf)
        wait_for_executors(context, tell)
    except SetupError:
        raise
    except Exception as error:
        raise gone(conf.get("spark.master"), first_useful_line(error)) from None
    return context


@contextmanager
def _environment(conf: SparkConf, named: str | None) -> Iterator[None]:
    """What Java and all below it find in their environment, without a change of this process's own. named: the program
    that executors look for, which on the driver is to be this Python."""
    # The launcher is a Java that lives for half a second.
    chosen = {"SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")}
    if named is not None:
        script = kept_script(named, f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        if script is not None:
            chosen["PATH"] = os.pathsep.join([str(script.parent), os.environ.get("PATH", os.defpath)])
    forks = conf.get("spark.python.daemon.module") == daemon.MODULE
    chosen |= environment_for_spark() if forks else {}
    # A Spark of the user's own, or another Python for the workers, may have no other pyspark than the zip.
    if forks and "SPARK_HOME" not in os.environ:
        hiding = hiding_spark_home(Path(os.environ["JAVA_HOME"]))
        chosen |= {} if hiding is None else {"JAVA_HOME": str(hiding)}
    before = {name: os.environ.get(name) for name in chosen}
    os.environ.update(chosen)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _use_class_archive(conf: SparkConf, tell: Callable[[str], None]) -> None:
    """Have Java load Spark's classes from an archive, or tell what that would gain; a user's own options for Java are
    left alone."""
    ours = conf.get(JAVA_OPTIONS) or ""
    if not ours.startswith(START[JAVA_OPTIONS]) or not is_wanted(conf.get(class_archive.SETTING)):
        return
    archive = ClassArchive.of_this_machine()
    if archive is None:
        return
    found = archive.java_options()
    conf.set(JAVA_OPTIONS, " ".join([ours, *found]))
    if not found and os.environ.get(class_archive.VARIABLE, "").lower() != class_archive.READY:
        tell(class_archive.GAIN)


def _why_not(error: Exception) -> str:
    """What the start of Spark failed with, without the name of its error class."""
    detail = re.sub(r"^\[[A-Z_.]+\]\s*", "", first_useful_line(error)).rstrip(".")
    gone = "gateway process exited" in detail
    return "Java ended before Spark could talk to it" if gone else detail[:1].lower() + detail[1:]


def _connected(remote: str, chosen: Mapping[str, str], app_name: str) -> SparkSession:
    if re.fullmatch(r"local(\[.*\])?", remote):
        use_java()
    try:
        spark = SparkSession.builder.remote(remote).appName(app_name).getOrCreate()
    except Exception as error:
        raise SetupError(f"there is no Spark Connect server at {remote}: {str(error).splitlines()[0]}") from None
    # A server may have fixed some of ours; what the user asked for must be set.
    for name, value in {**SESSION, **chosen}.items():
        try:
            spark.conf.set(name, value)
        except Exception as error:
            if name in chosen:
                raise SetupError(f"{name} cannot be set on {remote}: {str(error).splitlines()[0]}") from None
    ensure_settings(spark)
    return spark


def let_workers_import_us() -> None:
    """Python workers find an installed package by themselves, and a source tree through PYTHONPATH."""
    if not workers_find_us():
        paths = os.environ.get("PYTHONPATH", "")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HOME), paths]))


def workers_find_us() -> bool:
    """Whether another start of this Python looks where this package is."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return str(HOME) in paths or HOME.name in ("site-packages", "dist-packages")


def is_connect(spark: SparkSession) -> bool:
    """Whether Spark runs elsewhere, behind Spark Connect."""
    return not hasattr(spark, "_jsc")


def is_local(master: str) -> bool:
    return master == "local" or master.startswith("local[")


def driver_memory_mb() -> int:
    """A quarter of the machine's memory, from 1 to 4 GB."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        total = 0
    return max(1024, min(4096, total // 4 >> 20))
