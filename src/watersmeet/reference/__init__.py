"""The oracle: what a query means, by recomputation. Slow and obviously right; shares nothing with the engine."""
