"""The papers' own join algorithms, row by row: settings of one operator, with exact counts of their work."""
