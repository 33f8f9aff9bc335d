"""Where tasks tell of floods, on the driver (see mailbox.py), and what becomes of it: a warning, and the way out."""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.jobs.mailbox import PATIENCE_S, Mailbox
from watersmeet.hosts.spark.launching.launch import is_connect
from watersmeet.hosts.spark.progress.messages import tell_both
from watersmeet.runtime.skipped_batches import way_past
from watersmeet.warning import DataWarning

log = logging.getLogger("watersmeet")
MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class Flood:
    """What a task has told: of which query and batch, if it is of a stream."""

    sentence: str
    query: str
    batch: int | None

    def __str__(self) -> str:
        return self.sentence if self.batch is None else f"{self.sentence}; {way_past(self.batch, 'dataframe')}"


OnFlood = Callable[[Flood], None]


class PostOffice:
    """Listens for tasks of all queries of this process, on the address that Spark itself gives to its executors."""

    def __init__(self, bound: str, host: str) -> None:
        self._host = host
        self._open: dict[str, OnFlood] = {}
        self._heard: set[tuple[str, int | None]] = set()  # every bucket tells of the same
        self._listening = socket.create_server((bound, 0))
        threading.Thread(target=self._listen, name="floods", daemon=True).start()

    def mailbox(self, on_flood: OnFlood) -> Mailbox:
        key = secrets.token_hex(16)
        self._open[key] = on_flood
        return Mailbox(self._host, self._listening.getsockname()[1], key)

    def _listen(self) -> None:
        while True:
            with suppress(Exception):  # whatever came, the others are still heard
                come, _ = self._listening.accept()
                with come:
                    come.settimeout(PATIENCE_S)
                    self._take(json.loads(_received(come)))

    def _take(self, said: dict[str, Any]) -> None:
        key = next((one for one in list(self._open) if hmac.compare_digest(one, str(said["key"]))), None)
        if key is None or (key, said["batch"]) in self._heard:
            return
        self._heard.add((key, said["batch"]))
        self._open[key](Flood(str(said["sentence"]), str(said["query"]), said["batch"]))


def _received(come: socket.socket) -> bytes:
    found = b""
    while len(found) < MOST_BYTES and (more := come.recv(MOST_BYTES)):
        found += more
    return found


_offices: dict[str, PostOffice] = {}
_opening = threading.Lock()


def mailbox(spark: SparkSession, on_flood: OnFlood) -> Mailbox | None:
    """None where tasks have no way to this process, as from a Spark Connect server."""
    if is_connect(spark):
        return None
    host = spark.conf.get("spark.driver.host", "127.0.0.1") or ""
    try:
        with _opening:
            if host not in _offices:
                _offices[host] = PostOffice(spark.conf.get("spark.driver.bindAddress", host) or host, host)
        return _offices[host].mailbox(on_flood)
    except OSError as error:
        log.warning("floods are told in the logs of Spark's workers only, as %s cannot be listened on: %s", host, error)
        return None


def warn_of(flood: Flood) -> None:
    tell_both(DataWarning("many_answers", str(flood)))
