"""A query as workers are sent it: how it is cut into buckets, how its rows lie in packets, and whose state it is."""
