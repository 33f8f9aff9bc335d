"""Jobs that are read together: one streaming query of Spark's, in which each has its own buckets."""

from __future__ import annotations

from collections.abc import Iterable

from watersmeet.dataclass import dataclass
from watersmeet.hosts.spark.jobs.job import SparkJob, stream_of
from watersmeet.model.catalog import Stream
from watersmeet.plan.nodes import Input


@dataclass(frozen=True)
class JobGroup:
    """At least one job; where there are several, the streams that they know by one name are the same."""

    jobs: tuple[SparkJob, ...]
    gone: tuple[int, ...] = ()  # keys of others that were read with these once: what they keep is let go

    def reading(self, source: str) -> list[tuple[SparkJob, list[Input]]]:
        """The jobs that read a stream, and the inputs by which they do."""
        found = ((job, [one for one in job.streams if one.relation.name == source]) for job in self.jobs)
        return [(job, inputs) for job, inputs in found if inputs]

    def stream(self, source: str) -> Stream:
        return stream_of(self.reading(source)[0][1][0])

    @property
    def inputs(self) -> Iterable[Input]:
        return (one for job in self.jobs for one in job.streams)

    @property
    def keys(self) -> list[int]:
        """All buckets and guards, also those that are gone."""
        return [*(key for job in self.jobs for key in (*job.bucket_ids, job.guard)), *self.gone]

    @property
    def guards(self) -> list[int]:
        return [job.guard for job in self.jobs]

    @property
    def waiting(self) -> list[SparkJob]:
        """Those whose answers wait for the watermark, and so for the end of a run. One that is alone is asked before:
        a stage may follow it."""
        return [job for job in self.jobs if job.waits or len(self.jobs) == 1]

    @property
    def pulse_us(self) -> int | None:
        """The shortest silence that is to be noticed, if any is."""
        return min((job.pulse_us for job in self.jobs if job.pulse_us is not None), default=None)

    @property
    def hands_over(self) -> bool:
        """Whether rows go to buckets by the memory that all tasks share, where they are many."""
        first = self.jobs[0]
        return first.start.shares_memory and (len(self.jobs) > 1 or not first.is_stateless)

    def columns_read(self, source: str) -> set[str]:
        """The columns of a stream that some job needs; late rows go to a sink whole."""
        stream = self.stream(source)
        if stream.late_to is not None:
            return set(stream.schema.names)
        return {name for job, inputs in self.reading(source) for one in inputs for name in job.columns_needed(one)}

    def columns_sent(self, source: str) -> set[str]:
        """The columns that leave Spark: also those of records that cannot be read, of which all is told."""
        stream = self.stream(source)
        return set(stream.schema.names) if stream.arrival.keeps_going else self.columns_read(source)
