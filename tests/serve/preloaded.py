"""What every life needs, imported before it is forked; no thread is started by that."""

import tests.serve.serving  # noqa: F401
import watersmeet.cli.serve
import watersmeet.operators.continuous.group_by
import watersmeet.operators.join.window_join  # noqa: F401
