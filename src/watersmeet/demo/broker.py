"""A broker of Kafka in a process of its own, for demonstrations and tests: its jars, a folder and two free ports.

The jars are those of a distribution that is there, or come from Maven Central.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watersmeet.errors import SetupError
from watersmeet.noticing import phase
from watersmeet.private_folders import cache_folders

VERSION = "4.3.1"
JARS_VARIABLE = "WATERSMEET_KAFKA"
_CLUSTER_ID = "d2F0ZXJzbWVldC1kZW1vIQ"
_START_S = 60.0
_STOP_S = 20.0
_FETCH_S = 600
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# Repositories that the poms of some jars name themselves, by id: Maven Central has all of them, and a mirror of it,
# under whatever id, must be asked alone.
_REPOSITORIES = ("apache.snapshots", "ossrh", "sonatype-nexus-snapshots", "jboss-public-repository-group")
# It lives for minutes, so it is to start soon rather than to run fast.
_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


def jars() -> Path:
    """The folder of a broker's jars; fetched if they are nowhere. Raises SetupError, in a sentence, if that fails."""
    named = os.environ.get(JARS_VARIABLE)
    if named:
        found = next((one for one in (Path(named) / "libs", Path(named)) if any(one.glob("kafka_2.13-*.jar"))), None)
        if found is None:
            raise SetupError(f"{JARS_VARIABLE} names {named}, where there is no kafka_2.13-….jar")
        return found
    folder = next(cache_folders())[0] / f"kafka-{VERSION}"
    if not any(folder.glob("kafka_2.13-*.jar")):
        _fetch(folder)
    return folder


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        raise SetupError("a broker of Kafka needs Java 17 or newer, and no java is found", hint="install one")
    return found


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(
            f"the jars of a broker of Kafka are not there, and mvn, which would fetch them, is not found ({folder})",
            hint=f"install Maven, or unpack Kafka and say {JARS_VARIABLE}=/where/it/is",
        )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pom.xml").write_text(_POM, encoding="utf-8")
    command = [maven, "-q", "-B", _COPY, "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
    with phase("fetching a broker of Kafka", first_time=True):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_FETCH_S)
    if done.returncode:
        words = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr).strip()
        raise SetupError(f"the jars of a broker of Kafka could not be fetched: {words[:300]}")


def _why_not(has_ended: bool, log: str) -> str:
    """What a broker says that is still starting is not why it takes long."""
    return log.strip()[-500:] if has_ended else f"it did not answer within {_START_S:.0f} s"


def _repository(name: str) -> str:
    return (
        f"<repository><id>{name}</id><url>file:///none</url><releases><enabled>false</enabled></releases>"
        "<snapshots><enabled>false</enabled></snapshots></repository>"
    )


_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>watersmeet</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
  <repositories>{"".join(map(_repository, _REPOSITORIES))}</repositories>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""


class Broker:
    """`user` and `password`: those whom its second listener lets in."""

    user, password = "alice", "opensesame"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, self._safe_port, controller = _free_ports(3)
        self.brokers = f"127.0.0.1:{self._port}"
        self.safe_brokers = f"127.0.0.1:{self._safe_port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._classpath = f"{jars()}/*"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "server.properties").write_text(self._properties(controller), encoding="utf-8")
        formatting = ["kafka.tools.StorageTool", "format", "--standalone", "-t", _CLUSTER_ID, "-c", "server.properties"]
        done = subprocess.run(self._command(*formatting), cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise SetupError(f"a broker of Kafka could not be set up: {(done.stderr or done.stdout).strip()[-300:]}")

    def start(self) -> None:
        log = (self._folder / "broker.log").open("ab")
        with phase("starting a broker of Kafka"), log:
            process = self._process = subprocess.Popen(
                self._command("kafka.Kafka", "server.properties"), cwd=self._folder, stdout=log, stderr=log
            )
            until_s = time.monotonic() + _START_S
            while not self._answers():
                if process.poll() is not None or time.monotonic() > until_s:
                    why = _why_not(
                        process.poll() is not None, (self._folder / "broker.log").read_text(errors="replace")
                    )
                    self.stop()
                    raise SetupError(f"a broker of Kafka did not start: {why}")
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with socket.socket() as asked:
            asked.settimeout(0.5)
            return asked.connect_ex(("127.0.0.1", self._port)) == 0

    def _command(self, *arguments: str) -> list[str]:
        return [java(), *_JAVA, "-cp", self._classpath, *arguments]

    def _properties(self, controller: int) -> str:
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{self.user}="{self.password}";'
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},SASL_PLAINTEXT://127.0.0.1:{self._safe_port},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": login,
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.check.interval.ms": "1000",
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


def _free_ports(number: int) -> list[int]:
    held = [socket.socket() for _ in range(number)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()


@contextmanager
def running_broker(folder: Path) -> Iterator[Broker]:
    broker = Broker(folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
