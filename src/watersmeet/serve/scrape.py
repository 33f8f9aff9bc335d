"""The numbers of all queries as Prometheus scrapes them: the table of metrics, each under its name there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from watersmeet.model.metric import BY_NAME, BY_NAME_NOW, COUNT, FLAG, GAUGE, KNOWN, LATEST, SECONDS, WORK
from watersmeet.runtime.metrics import METRICS
from watersmeet.serve.served import Served

ADDS_UP = (COUNT, SECONDS, KNOWN)
PREFIX = "watersmeet_"

Family = CounterMetricFamily | GaugeMetricFamily


class Scrape(Collector):
    def __init__(self, served: Served, of_server: Callable[[], Mapping[str, tuple[str, float, bool]]]) -> None:
        """of_server: what else is told of the server, by name: words, the number, and whether it only grows."""
        self._served = served
        self._of_server = of_server
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return []  # nothing is asked of the queries before somebody scrapes

    def collect(self) -> Iterable[Metric]:
        families: dict[str, Family] = {}
        for query in self._served.queries.values():
            for name, value in query.metrics().items():
                self._add(families, query.name, name, value)
            self._add_state(families, query.name)
        yield from families.values()
        for name, (words, value, grows) in self._of_server().items():
            kind = CounterMetricFamily if grows else GaugeMetricFamily
            yield kind(PREFIX + name, words, value=value)

    def _add_state(self, families: dict[str, Family], query: str) -> None:
        watched = self._served.queries[query].watched
        batches = _family(families, "batches", "batches that were answered", True, ["query"])
        batches.add_metric([query], watched.number + 1)
        busy = _family(families, "batch_seconds", "seconds that batches took since the start", True, ["query"])
        busy.add_metric([query], watched.batch_seconds)
        failed = _family(families, "failed", "1 if the query has failed and gives no more answers", False, ["query"])
        failed.add_metric([query], float(watched.failure is not None))
        if query not in self._served.runs:
            return
        run = self._served.runs[query]
        pause = _family(families, "snapshot_pause_seconds", "the longest pause for saving the state", False, ["query"])
        pause.add_metric([query], run.snapshot_pause_s)
        for name in run.execution.streams:
            taken = _family(families, "stream_rows_in", "rows that came in, by stream", True, ["query", "stream"])
            taken.add_metric([query, name], run.taken(name))

    def _add(self, families: dict[str, Family], query: str, name: str, value: Any) -> None:
        if name == "recall" and value is not None:
            words = "the share of the exact answer that was given"
            _family(families, name, words, False, ["query"]).add_metric([query], value)
        if name not in METRICS or (METRICS[name].where == "spark" and not value) or value is None:
            return
        metric = METRICS[name]
        if name == "bad_by_reason":
            family = _family(families, name, metric.words, True, ["query", "stream", "reason"])
            for key, number in value.items():
                family.add_metric([query, *key.split(": ", 1)], number)
            return
        if metric.kind in (*ADDS_UP, GAUGE, LATEST, FLAG) and isinstance(value, int | float):
            grows = metric.kind in ADDS_UP
            _family(families, name, metric.words, grows, ["query"]).add_metric([query], float(value))
        elif metric.kind in (BY_NAME, BY_NAME_NOW, WORK):
            label = "count" if metric.kind is WORK else "stream"
            family = _family(families, name, metric.words, metric.kind is BY_NAME, ["query", label])
            for key, number in value.items():
                family.add_metric([query, key], number)


def _family(families: dict[str, Family], name: str, words: str, grows: bool, labels: list[str]) -> Family:
    if name not in families:
        kind = CounterMetricFamily if grows else GaugeMetricFamily
        families[name] = kind(PREFIX + name, words, labels=labels)
    return families[name]
