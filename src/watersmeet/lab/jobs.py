"""What there is to run: an experiment at a scale with a seed."""

from __future__ import annotations

from collections.abc import Sequence

from watersmeet.dataclass import dataclass
from watersmeet.lab import store
from watersmeet.lab.experiment import Experiment, Scale
from watersmeet.lab.provenance import fingerprint


@dataclass(frozen=True, eq=False)  # each is one of a kind, and can be a key
class Job:
    experiment: Experiment
    scale: Scale = "small"
    seed: int = 1


def jobs(experiments: Sequence[Experiment], scales: Sequence[Scale], seeds: Sequence[int]) -> list[Job]:
    """Everything once, the small before the large. With one scale also experiments that do not have it, to be told."""
    return [
        Job(one, scale, seed)
        for scale in scales
        for one in experiments
        for seed in seeds
        if len(scales) == 1 or scale in one.settings
    ]


def is_current(record: store.Record, experiment: Experiment) -> bool:
    """Whether this code, with these settings, would measure the same again."""
    if not record.modules or fingerprint(record.modules) != record.code:
        return False
    return bool(record.settings == store.plain(experiment.settings.get(record.scale)))
