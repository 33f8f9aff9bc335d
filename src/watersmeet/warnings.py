"""What a program is warned of while its queries run."""


class LateRowsWarning(UserWarning):
    """Rows came too late and were dropped."""


class WaitingRowsWarning(UserWarning):
    """A query on Spark has ended while rows wait for the watermark: their answers are still to come."""
