"""Continuous queries: what an answer over sliding windows is at every instant, as a log of its changes."""
