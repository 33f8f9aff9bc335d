"""A short run as a picture: rows as points in event time, how long their windows hold them, and who met whom when."""

from watersmeet.timeline.telling import Part
from watersmeet.timeline.timeline import Timeline, timeline

__all__ = ["Part", "Timeline", "timeline"]
