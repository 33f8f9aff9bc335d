"""Why did these rows not meet? Which condition fails, which window and by how much, or what became of them."""

from watersmeet.why.answer import Why, why
from watersmeet.why.conditions import Reason

__all__ = ["Reason", "Why", "why"]
