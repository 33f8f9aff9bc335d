"""The papers' rules for join orders, and what they are held against."""
