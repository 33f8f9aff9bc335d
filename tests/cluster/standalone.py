"""A standalone cluster of Spark's, started from the jars that pip brings: a master and workers, each a node of its own
with folders of its own, whose Python has nothing installed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

import pyspark

from tests.spark import processes

SPARK = Path(pyspark.__file__).parent
HERE = "127.0.0.1"
SOON_S = 120
# Nothing of the tree of the tests, nor of their Python, is to be found by executors.
_OWN = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "VIRTUAL_ENV")


class Node:
    """A worker of the cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.folder = cluster, cluster.folder / name
        (self.folder / "tmp").mkdir(parents=True)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        places = {"TMPDIR": str(self.folder / "tmp"), "WATERSMEET_WARM_DIR": str(self.folder / "warm")}
        options = ["--cores", "1", "--memory", "1G", "--webui-port", "0", "--work-dir", str(self.folder / "work")]
        main = ["org.apache.spark.deploy.worker.Worker", "--host", HERE, *options, self.cluster.master]
        self.process = self.cluster.java(main, self.folder, places)

    def kill(self) -> None:
        """As a machine dies: the worker and all that runs on it."""
        assert self.process is not None
        processes.kill(self.process.pid, *processes.descendants(self.process.pid))
        self.process.wait()

    def executors(self) -> list[int]:
        assert self.process is not None
        below = processes.descendants(self.process.pid)
        return [pid for pid, (_, command) in below.items() if "CoarseGrainedExecutorBackend" in command]

    def kill_executor(self) -> bool:
        """The executor with its Pythons; the worker starts another."""
        found = self.executors()
        processes.kill(*found, *(pid for one in found for pid in processes.descendants(one)))
        return bool(found)


class Cluster:
    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder = folder
        self.port, self.page = _free_port(), _free_port()
        self.master = f"spark://{HERE}:{self.port}"
        venv.create(folder / "bare", symlinks=True, with_pip=False)
        self.python = folder / "bare" / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
        assert self.python.exists()
        self.nodes = [Node(self, f"node{number}") for number in range(nodes)]
        (folder / "master").mkdir()
        pages = ["--host", HERE, "--port", str(self.port), "--webui-port", str(self.page)]
        self._master = self.java(["org.apache.spark.deploy.master.Master", *pages], folder / "master", {})
        for node in self.nodes:
            node.start()
        self.wait_for_nodes()

    def java(self, main: list[str], folder: Path, places: dict[str, str]) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name not in _OWN}
        environment |= {"SPARK_HOME": str(SPARK), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": HERE, **places}
        environment["PATH"] = os.pathsep.join([str(self.folder / "bare" / "bin"), environment["PATH"]])
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{SPARK}/jars/*"]
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                ["java", *options, *main], cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def wait_for_nodes(self) -> None:
        """Until the master knows all of them."""
        until = time.monotonic() + SOON_S
        while time.monotonic() < until:
            if self._alive() == len(self.nodes):
                return
            time.sleep(0.2)
        logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*/log"))
        raise AssertionError(f"the workers did not find the master\n{logs}")

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://{HERE}:{self.page}/json/", timeout=10) as page:
                return int(page.read().decode().partition('"aliveworkers" :')[2].split(",")[0])
        except (OSError, ValueError):
            return -1

    def stop(self) -> None:
        for process in (*(node.process for node in self.nodes), self._master):
            if process is not None and process.poll() is None:
                below = processes.descendants(process.pid)
                os.kill(process.pid, signal.SIGTERM)
                process.wait(30)
                processes.kill(*below)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((HERE, 0))
        return int(one.getsockname()[1])
