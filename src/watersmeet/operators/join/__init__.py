"""The n-way window join: stores, indexes, routes as programs."""
