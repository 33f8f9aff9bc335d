"""What processes that are forked need, imported before, so that none does it again; no thread is started by that."""

import gc

import typer._adapters
import typer.main

import tests.command_line
import tests.durable.lives
import tests.forked
import tests.serve.serving  # noqa: F401
import watersmeet.cli.commands
import watersmeet.cli.run_durable
import watersmeet.cli.serve
import watersmeet.io.connectors.numbered_sinks
import watersmeet.io.connectors.readers
import watersmeet.operators.continuous.alone
import watersmeet.operators.join.window_join
import watersmeet.runtime.build_changing

typer.main.get_command(watersmeet.cli.commands.app)
gc.collect()
gc.freeze()
