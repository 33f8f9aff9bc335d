"""H04's operators as printed: each finds by itself what has expired in its state, and passes tuples with tuple-orders.

Here for comparison only, behind the wall: `OPTIONS (pipeline = 'tpa_scan')` and its sisters run them.
"""
