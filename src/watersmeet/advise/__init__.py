"""How much memory a join needs for how much of its answer: the query run over a sample in several sizes of memory."""

from watersmeet.advise.report import Advice, Ceiling, Trial
from watersmeet.advise.trials import advise

__all__ = ["Advice", "Ceiling", "Trial", "advise"]
