"""OVER: rows with what functions make of those around them."""
