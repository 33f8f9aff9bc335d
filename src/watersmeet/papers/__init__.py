"""What exists to compare with the papers: their joins, their models of shedding, their orders.

No query needs it that does not ask for it by name."""
