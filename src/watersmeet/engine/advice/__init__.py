"""How much memory a join needs for how much of its answer: the query run over a sample in several sizes of memory."""

from watersmeet.engine.advice.report import Advice, Ceiling, Trial
from watersmeet.engine.advice.trials import advise

__all__ = ["Advice", "Ceiling", "Trial", "advise"]
