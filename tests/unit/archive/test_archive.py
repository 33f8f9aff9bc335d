"""The archive of a query in bounded memory: whole or not there, of one query only, completed by one command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest

import watersmeet as wm
from tests.forked import program
from tests.runners import Bag, bag_of
from tests.unit.operators.keeping.test_shedding_join import exactly, random_tables, selected
from watersmeet.archive.complete import Completing, CompletionReport, completion_of
from watersmeet.archive.disk import locked
from watersmeet.archive.folder import Archive
from watersmeet.archive.leftovers import leftovers
from watersmeet.archive.targets import FolderTarget
from watersmeet.cli.commands import main
from watersmeet.errors import DataError, OptionError, SinkError, SourceError

FORM = "2 RANGE"


def session_of(**more: pa.Table) -> wm.Session:
    session = wm.Session()
    for name, data in zip("ab", random_tables(2), strict=True):
        session.stream(name, data, time="ts")
    for name, data in more.items():
        session.table(name, data)
    return session


def archiving(archive: Path | str, sql: str = selected(FORM)) -> str:
    return f"{sql} OPTIONS (memory = '24 rows', archive = '{archive}')"


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_an_archive_describes_itself_and_completes_without_the_query(tmp_path):
    query = session_of().sql(archiving(tmp_path / "archive"))
    found, told = bag_of(query.to_arrow()), query.metrics()
    description = json.loads((tmp_path / "archive" / "watersmeet.json").read_text())
    assert description["sql"] == query.plan.sql
    assert description["format"] == 2
    assert description["relations"][0]["columns"] == {"id": "int64", "k": "int64", "s": "string", "ts": "timestamp[us]"}
    assert 0 < told["archived_rows"] < 300
    assert told["archived_bytes"] == sum(p.stat().st_size for p in tmp_path.rglob("*.parquet"))
    completed = bag_of(wm.complete(tmp_path / "archive"))
    assert found + completed == exactly(FORM)
    assert told["results"] + completed.total() == told["exact_results"]


def test_two_runs_of_a_query_share_an_archive_and_each_is_completed(tmp_path):
    given = Bag()
    for policy in ("prob", "rand"):
        sql = archiving(tmp_path / "archive").replace("memory", f"shed = '{policy}', memory")
        given += bag_of(session_of().sql(sql).to_arrow())
    assert given + bag_of(wm.complete(tmp_path / "archive")) == exactly(FORM) + exactly(FORM)


def test_static_tables_are_completed_with_as_the_run_saw_them(tmp_path):
    names = pa.table({"k": [1, 2, 2, None], "name": ["one", "two", "zwei", "none"]})
    sql = "SELECT a.id, b.id, n.name FROM a [RANGE 30 SECONDS], b [RANGE 50 SECONDS], names n "
    sql += "WHERE a.k = b.k AND a.k = n.k AND n.name <> 'one'"
    exact = bag_of(session_of(names=names).sql(sql).to_arrow())
    little = archiving(tmp_path / "archive", sql).replace("24 rows", "12 rows")
    given = bag_of(session_of(names=names).sql(little).to_arrow())
    completed = bag_of(wm.complete(tmp_path / "archive"))
    assert completed
    assert given + completed == exact


def test_an_archive_takes_only_what_its_own_query_needs(tmp_path):
    session_of().sql(archiving(tmp_path / "archive", selected(FORM).replace("a.id, a.s, ", ""))).to_arrow()
    names = {name for path in tmp_path.rglob("*.parquet") for name in pa_parquet.read_schema(path).names}
    assert {name for name in names if not name.startswith("#")} == {"a.k", "b.k", "b.id", "b.s"}


# ---- whole or not there ---------------------------------------------------------------------------------------------


def test_a_run_that_fails_leaves_nothing_in_the_archive(tmp_path):
    wrong = random_tables(2)[1].slice(0, 120)
    late = pa.concat_tables([wrong, pa.table({"id": [1], "k": [1], "s": ["x"], "ts": [None]}, schema=wrong.schema)])
    session = wm.Session()
    session.stream("a", random_tables(2)[0], time="ts")
    session.stream("b", late, time="ts")
    with pytest.raises(DataError, match="NULL"):
        session.sql(archiving(tmp_path / "archive")).to_arrow()
    assert files_in(tmp_path) == ["archive/watersmeet.json"]
    assert wm.complete(tmp_path / "archive").num_rows == 0


def test_results_that_are_not_asked_for_to_the_end_leave_nothing_either(tmp_path):
    batches = session_of().sql(archiving(tmp_path / "archive")).batches(batch_rows=10)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert files_in(tmp_path) == ["archive/watersmeet.json"]


def test_a_query_that_is_only_explained_or_tried_on_other_rows_archives_nothing(tmp_path):
    query = session_of().sql(archiving(tmp_path / "archive"))
    query.explain(analyze=True)
    query.over(dict(zip("ab", random_tables(2), strict=True))).to_arrow()
    assert files_in(tmp_path) == []


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_the_archive_of_another_query_is_refused(tmp_path):
    session_of().sql(archiving(tmp_path / "archive")).to_arrow()
    other = session_of().sql(archiving(tmp_path / "archive", selected(FORM).replace("30 SEC", "31 SEC")))
    with pytest.raises(SinkError, match="belongs to another query"):
        other.to_arrow()
    with pytest.raises(DataError, match="belongs to another query"):
        wm.complete(other)


def test_a_folder_of_other_things_is_no_archive(tmp_path):
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(SinkError, match="holds other files, such as letter"):
        session_of().sql(archiving(tmp_path)).to_arrow()
    with pytest.raises(SourceError, match="is no archive"):
        wm.complete(tmp_path)
    with pytest.raises(SourceError, match="is no archive"):
        wm.complete(tmp_path / "nowhere")


def test_a_query_without_an_archive_cannot_be_completed():
    with pytest.raises(OptionError, match="no archive"):
        wm.complete(session_of().sql(selected(FORM)))


def test_an_archive_of_another_format_is_told(tmp_path):
    session_of().sql(archiving(tmp_path)).to_arrow()
    path = tmp_path / "watersmeet.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    with pytest.raises(DataError, match="format 99"):
        wm.complete(tmp_path)


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, data in zip("ab", random_tables(2), strict=True):
        pa_parquet.write_table(data, f"{name}.parquet")
    streams = "".join(f"CREATE STREAM {name} WITH (path = '{name}.parquet', time = 'ts');\n" for name in "ab")
    select = archiving("archive", selected(FORM).replace("b.id, b.s", "b.id AS other, b.s AS t"))
    Path("query.sql").write_text(f"{streams}CREATE SINK out WITH (path = 'out.parquet') AS {select};\n")
    return Path("query.sql")


def call(*arguments: str) -> int:
    before = sys.argv
    sys.argv = ["watersmeet", *arguments]
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    finally:
        sys.argv = before
    return 0


def completed_rows() -> Bag:
    return sum((bag_of(pa_parquet.read_table(one)) for one in Path("out-completed").iterdir()), Bag())


def test_the_command_completes_into_the_sink_and_says_what_it_did(script, capsys):
    assert call("run", str(script), "--engine", "local", "--quiet") == 0
    assert call("complete", str(script), "--engine", "local", "--chunk-rows", "50") == 0
    given = bag_of(pa_parquet.read_table("out.parquet"))
    assert given + completed_rows() == exactly(FORM)
    said = capsys.readouterr().err
    assert said.endswith(
        f"out: {completed_rows().total():,} rows completed; with the {given.total():,} given before that is "
        f"{exactly(FORM).total():,}, the exact answer; in out-completed\n"
    )
    assert call("complete", str(script), "--engine", "local") == 0
    assert "0 rows completed" in capsys.readouterr().err
    assert given + completed_rows() == exactly(FORM)


def test_a_folder_gets_the_completed_rows_itself(script):
    Path("out.parquet").mkdir()
    script.write_text(script.read_text().replace("path = 'out.parquet'", "path = 'out.parquet', mode = 'append'"))
    assert call("run", str(script), "--engine", "local", "--quiet") == 0
    assert call("complete", str(script), "--engine", "local", "--archive", "archive", "--quiet") == 0
    assert bag_of(pa_parquet.read_table("out.parquet")) == exactly(FORM)


def test_a_run_that_is_killed_leaves_nothing_that_counts(script, capsys):
    """As if the power had failed: the process ends without a chance to tidy up."""
    die = "import os, watersmeet.archive.folder as f; f.OpenRun.commit = lambda self: os._exit(9);"
    command = ("run", "query.sql", "--engine", "local", "-q")
    assert program(f"{die} from watersmeet.cli import main; main()", *command).communicate().returncode == 9
    assert Archive.open("archive").unfinished() == 1
    assert call("complete", str(script), "--engine", "local") == 0
    assert "0 rows completed" in capsys.readouterr().err


def test_only_one_completes_at_a_time(script, capsys):
    assert call("run", str(script), "--engine", "local", "--quiet") == 0
    with locked(Path("archive")):
        assert call("complete", str(script), "--engine", "local") == 1
    assert "is being completed already" in capsys.readouterr().err


def test_a_script_without_an_archive_says_what_to_do(script, capsys):
    script.write_text(script.read_text().replace(", archive = 'archive'", ""))
    assert call("complete", str(script), "--engine", "local") == 2
    assert "no archive to complete from" in capsys.readouterr().err


def cleaned(folder: Path, *, completed: bool = False) -> list[str]:
    with leftovers(folder, 0.0, completed=completed) as found:
        assert all(left.remove() for left in found)
        return [left.what for left in found]


def test_records_that_were_completed_go_if_asked_for_and_cannot_be_completed_again(tmp_path):
    archive, query = tmp_path / "archive", session_of().sql(archiving(tmp_path / "archive"))
    given = bag_of(query.to_arrow())

    def completed() -> CompletionReport:
        target = FolderTarget(tmp_path / "out", "parquet", query.plan.output_schema, {})
        return Completing(completion_of(archive), target).run()

    assert cleaned(archive, completed=True) == [], "nothing was completed yet"
    assert completed().total == exactly(FORM).total()
    before = sum(path.stat().st_size for path in archive.rglob("*.parquet"))
    assert cleaned(archive) == [], "nobody asked for it"
    assert cleaned(archive, completed=True) == ["records all of which were completed"]
    assert sum(path.stat().st_size for path in archive.rglob("*.parquet")) < before / 2
    assert cleaned(archive, completed=True) == []
    with pytest.raises(DataError, match=r"the records of 1 run of the archive .* were let go"):
        wm.complete(archive)
    with pytest.raises(DataError, match="not all can be completed again"):
        Completing(completion_of(archive), FolderTarget(tmp_path / "out", "parquet", query.plan.output_schema, {})).run(
            again=True
        )
    # Another run is completed beside what is there, and the account is that of both.
    given += bag_of(query.to_arrow())
    told = completed()
    assert told.describe().endswith("the exact answer")
    assert given + bag_of(pa_parquet.read_table(tmp_path / "out")) == exactly(FORM) + exactly(FORM)


def test_only_runs_that_were_killed_are_removed_unasked(tmp_path):
    archive = tmp_path / "archive"
    session_of().sql(archiving(archive)).to_arrow()
    open_run, killed = Archive.open(archive).begin(), archive / ".run-00112233445566778899aabbccddeeff"
    killed.mkdir()
    for path in (open_run.path, killed):
        os.utime(path, (0, 0))
    before = files_in(archive)
    assert cleaned(archive) == ["a run that was killed, and does not count"]
    assert (killed.exists(), open_run.path.exists(), files_in(archive)) == (False, True, [".lock", *before])
    open_run.abort()


def test_records_of_a_run_that_may_go_on_stay(tmp_path):
    archive, query = tmp_path / "archive", session_of().sql(archiving(tmp_path / "archive"))
    query.to_arrow()
    (run,) = Archive.open(archive).runs()
    commits = tmp_path / "commits"
    commits.mkdir()
    (commits / "1").touch()
    run.follow(commits=str(commits), until=9)  # as on Spark, while its checkpoint is there
    Completing(completion_of(archive), FolderTarget(tmp_path / "out", "parquet", query.plan.output_schema, {})).run()
    assert cleaned(archive, completed=True) == []
    (commits / "1").unlink()
    commits.rmdir()
    assert cleaned(archive, completed=True) == ["records all of which were completed"]
