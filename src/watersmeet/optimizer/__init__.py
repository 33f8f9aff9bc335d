"""From a logical join to a strategy: a tuple of rules, one per file."""
