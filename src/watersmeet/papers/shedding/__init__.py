"""The papers' models of bounded memory, and the best that could have been done."""
