"""The command line. It listens to Ctrl-C before it loads anything else, which takes a while."""

import sys

from watersmeet.runtime.interrupt import INTERRUPTED, term_as_ctrl_c


def main() -> None:
    """The command `watersmeet`."""
    try:
        if {"run", "warm-up"} & set(sys.argv):  # others end by SIGTERM in their own way
            with term_as_ctrl_c():
                _command()
        else:
            _command()
    except KeyboardInterrupt:  # before the command has begun
        raise SystemExit(INTERRUPTED) from None


def _command() -> None:
    from watersmeet.cli.commands import main as command

    command()
