from __future__ import annotations

from collections import Counter

from tests.peers import refused, statements

told = [(whose, statement, refused(statement)) for whose, statement in statements()]
for _, statement, error in told:
    if error is not None:
        print(f"{statement}\n    {str(error).splitlines()[0]}\n")
whole = Counter(whose for whose, _, _ in told)
taken = Counter(whose for whose, _, error in told if error is None)
print(*(f"{whose}: {taken[whose]} of {number}" for whose, number in whole.items()), sep="\n")
print(f"all: {taken.total()} of {whole.total()}")
