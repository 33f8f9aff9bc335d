"""The types that the installed package gives: a user's program passes `mypy --strict`, and mistakes in one do not.

    python -m tests.typed                  by the package that this Python has installed
    python -m tests.typed env/bin/python   by the one that another has

mypy reads a package's types only where its files say that it has any (`py.typed`). The first time takes some 20 s,
others one: so `make check` runs it, which keeps what mypy has read, and `make test-wheel` for the wheel.
"""
