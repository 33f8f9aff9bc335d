"""The command line is made of its functions once in a process: that takes 40 ms, which each command would in tests."""

from functools import cache

import typer.main

typer.main.get_command = cache(typer.main.get_command)
