"""How much memory a join needs for how much of its answer, and which keys to spread: the query run over a sample."""

from watersmeet.advise.report import Advice, Ceiling, Trial
from watersmeet.advise.trials import advise

__all__ = ["Advice", "Ceiling", "Trial", "advise"]
