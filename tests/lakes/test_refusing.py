"""A store that asks who calls, seen from the command line: one sentence for each refusal, and a restart goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as pa_dataset
import pyarrow.fs as pa_fs
import pytest

from tests.connectors.commands import check_sentence, run
from tests.lakes import opened
from tests.lakes.store import server

pytestmark = pytest.mark.lakes

BUCKET = "answers"
SECRET = "hush-hush"
Keys = tuple[str, str]
# What users may do, by their names; what it takes to make each of them, and a bucket, is asked without an account.
USERS = {"owner": ["s3:*"], "reader": ["s3:Get*", "s3:List*"]}


@dataclass(frozen=True)
class Guarded:
    endpoint: str
    owner: Keys
    reader: Keys

    @property
    def who(self) -> dict[str, Keys]:
        """Those who are refused."""
        return {"stranger": ("AKIANOBODY", SECRET), "forger": (self.owner[0], SECRET), "reader": self.reader}

    def ways(self, keys: Keys) -> dict[str, str]:
        return {
            "fs.access_key": keys[0],
            "fs.secret_key": keys[1],
            "fs.endpoint_override": self.endpoint,
            "fs.region": "us-east-1",
        }

    def with_(self, keys: Keys) -> str:
        return ", ".join(f"'{name}' = '{value}'" for name, value in self.ways(keys).items())

    def environment(self, keys: Keys) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": keys[0],
            "AWS_SECRET_ACCESS_KEY": keys[1],
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def files(self) -> pa_fs.S3FileSystem:
        key, secret = self.owner
        return pa_fs.S3FileSystem(
            access_key=key, secret_key=secret, endpoint_override=self.endpoint, region="us-east-1"
        )


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    boto3 = pytest.importorskip("boto3", reason="needs moto with its server: pip install 'moto[server]'")
    with server(3 * len(USERS) + 1) as endpoint:
        how = {"endpoint_url": endpoint, "region_name": "us-east-1"}
        accounts = boto3.client("iam", aws_access_key_id="x", aws_secret_access_key="x", **how)
        keys: dict[str, Keys] = {}
        for name, actions in USERS.items():
            accounts.create_user(UserName=name)
            made = accounts.create_access_key(UserName=name)["AccessKey"]
            keys[name] = made["AccessKeyId"], made["SecretAccessKey"]
            allowed = {"Effect": "Allow", "Action": actions, "Resource": "*"}
            policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
            accounts.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=policy)
        store = boto3.client("s3", aws_access_key_id="x", aws_secret_access_key="x", **how)
        store.create_bucket(Bucket=BUCKET)
        yield Guarded(endpoint, keys["owner"], keys["reader"])


@pytest.fixture
def stream(tmp_path: Path) -> str:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("k,ts\n1,2026-01-01 00:00:00\n2,2026-01-01 00:00:01\n")
    return (
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = 'csv', path = '{tmp_path}/in', time = 'ts', "
        "lateness = '1 hour');\n"
    )


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "script.sql"
    file.write_text(text)
    return file


REFUSED = ("stranger", "forger", "reader")


@pytest.mark.parametrize("who", REFUSED)
@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_who_may_not_write(guarded: Guarded, tmp_path: Path, stream: str, who: str, kind: str) -> None:
    path = f"s3://{BUCKET}/{kind}-{who}"
    sink = "CREATE SINK out WITH (sink = '{}', path = '{}', {}) AS SELECT k FROM s;"
    file = written(tmp_path, stream + sink.format(kind, path, guarded.with_(guarded.who[who])))
    told = run(file, tmp_path / "state")
    check_sentence(told, path, *_refusals(told.said), never=(SECRET, *guarded.reader, *guarded.owner))
    again = run(written(tmp_path, stream + sink.format(kind, path, guarded.with_(guarded.owner))), tmp_path / "state")
    assert again.code == 0, again.said
    assert numbers(guarded, kind, f"{kind}-{who}") == [1, 2]


def _refusals(said: str) -> tuple[str, ...]:
    """Some requests are refused with a reason, others without."""
    reason = "the store does not know these credentials"
    return (reason,) if reason in said else ("access denied",)


def numbers(guarded: Guarded, kind: str, folder: str) -> list[int]:
    if kind == "delta":
        ways = {name.replace(".", "__"): value for name, value in guarded.ways(guarded.owner).items()}
        found = opened.table("delta", path=f"s3://{BUCKET}/{folder}", **ways)
    else:
        found = pa_dataset.dataset(f"{BUCKET}/{folder}", filesystem=guarded.files(), format="parquet").to_table()
    return sorted(found["k"].to_pylist())


@pytest.mark.parametrize("who", ["stranger", "forger"])
@pytest.mark.parametrize("kind", ["csv", "delta"])
def test_who_may_not_read(guarded: Guarded, tmp_path: Path, who: str, kind: str) -> None:
    file = written(
        tmp_path,
        f"CREATE STREAM s (k BIGINT, ts TIMESTAMP) WITH (source = '{kind}', path = 's3://{BUCKET}/x', time = 'ts', "
        f"{guarded.with_(guarded.who[who])}); "
        f"CREATE SINK out WITH (sink = 'csv', path = '{tmp_path}/out') AS SELECT k FROM s;",
    )
    told = run(file, tmp_path / "state")
    check_sentence(told, f"s3://{BUCKET}/x", *_refusals(told.said), "fs.secret_key", never=(SECRET, guarded.owner[0]))


@pytest.mark.parametrize("who", REFUSED)
def test_a_checkpoint_that_may_not_be_written(
    guarded: Guarded, tmp_path: Path, stream: str, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = f"s3://{BUCKET}/state-{who}"
    file = written(
        tmp_path, stream + f"CREATE SINK out WITH (sink = 'sqlite', path = '{tmp_path}/out.db') AS SELECT k FROM s;"
    )
    for name, value in guarded.environment(guarded.who[who]).items():
        monkeypatch.setenv(name, value)
    told = run(file, checkpoint)
    check_sentence(told, f"the checkpoint {checkpoint} cannot be", *_refusals(told.said), never=(SECRET,))
    for name, value in guarded.environment(guarded.owner).items():
        monkeypatch.setenv(name, value)
    assert run(file, checkpoint).code == 0


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_bucket_that_is_not_there(guarded: Guarded, tmp_path: Path, stream: str, kind: str) -> None:
    sink = f"sink = '{kind}', path = 's3://nobodys-bucket/x', {guarded.with_(guarded.owner)}"
    file = written(tmp_path, stream + f"CREATE SINK out WITH ({sink}) AS SELECT k FROM s;")
    check_sentence(run(file, tmp_path / "state"), "s3://nobodys-bucket/x", "there is no such bucket")
