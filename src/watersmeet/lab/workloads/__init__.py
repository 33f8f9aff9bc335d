"""Generators of streams: seeded, vectorised, and the same for everyone who gives the same numbers."""
