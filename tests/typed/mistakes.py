"""What mypy must not take: each line says for which of its codes it is refused. Nobody runs it."""

import watersmeet as wm


def mistakes() -> None:
    session = wm.Session(buckets="8")  # arg-type
    session.stream("orders", {"id": [1]}, "ts")  # call-arg
    session.stream("orders", time=7)  # arg-type
    text: str = session.sql("SELECT id FROM orders")  # assignment
    answer = session.sql(7)  # arg-type
    answer.to_arow(text)  # attr-defined
    answer.start_async(timeout="long")  # arg-type
    wm.EventTime("ts", latness="1 second")  # call-arg
    wm.Sesion()  # attr-defined


def hint(error: wm.WatersmeetError) -> str:
    return error.hint  # return-value
