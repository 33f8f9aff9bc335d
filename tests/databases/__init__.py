"""Answers kept as tables of databases, and static tables loaded from them."""
