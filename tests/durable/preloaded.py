"""What every life needs, imported before it is forked; no thread is started by that."""

import watersmeet.hosts.local.durable.durable_execution
import watersmeet.hosts.local.durable.jobs
import watersmeet.io.connectors.numbered_sinks
import watersmeet.io.connectors.readers
import watersmeet.operators.join.window_join
import watersmeet.sql  # noqa: F401
