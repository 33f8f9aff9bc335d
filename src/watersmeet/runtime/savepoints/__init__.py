"""Savepoints: where a run is, written so that another goes on from it, on any host."""
