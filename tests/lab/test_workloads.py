"""The generators: seeded, in the order of time, of the shape they promise; and the same as sources of SQL."""

from __future__ import annotations

import inspect
import re
from datetime import datetime
from importlib import import_module
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet
import pytest

from tests.unit.cli.test_commands import call
from watersmeet.errors import DataError, SetupError, SourceError
from watersmeet.hosts.local.pulled_execution import PulledExecution
from watersmeet.lab.workloads import WORKLOADS, Workload, cameras, flights, nexmark, packets, pizzas, weather, zipf
from watersmeet.lab.workloads.flights import have_flights
from watersmeet.lab.workloads.pizzas import have_pizzas
from watersmeet.runtime.script import read_script

SEEDED = [one for one in WORKLOADS.values() if "seed" in one.parameters]
SECOND = 1_000_000


def numbers(table: pa.Table, column: str) -> npt.NDArray[np.int64]:
    return table[column].combine_chunks().cast(pa.int64()).to_numpy()


@pytest.mark.parametrize("workload", SEEDED, ids=lambda one: one.name)
def test_streams_are_in_the_order_of_time_and_named_as_listed(workload: Workload) -> None:
    streams = workload.made()
    assert tuple(streams) == workload.streams
    for table in streams.values():
        assert table.schema.field("ts").type == pa.timestamp("us")
        assert table.num_rows
        assert np.all(np.diff(numbers(table, "ts")) >= 0)


@pytest.mark.parametrize("workload", SEEDED, ids=lambda one: one.name)
def test_the_same_seed_gives_the_same_rows_and_another_others(workload: Workload) -> None:
    few = {"rows": 5000} if "rows" in workload.parameters else {}
    first, again, other = (workload.made(seed=seed, **few) for seed in (3, 3, 4))
    assert all(first[name].equals(again[name]) for name in first)
    assert not any(first[name].equals(other[name]) for name in first)


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=lambda one: one.name)
def test_every_parameter_is_explained(workload: Workload) -> None:
    text = inspect.getdoc(workload.make) or ""
    assert workload.about.endswith(".")
    explained = {"seed", *re.findall(r"^(\w+): ", text, re.MULTILINE), *re.findall(r"`(\w+)`", text)}
    assert set(workload.parameters) - explained == set()


@pytest.mark.parametrize("skew", [0.0, 1.0, 2.0])
def test_zipf_keys_have_their_shares(skew: float) -> None:
    table = zipf(rows=200_000, streams=1, domain=10, skew=skew)["s1"]
    counts = np.sort(np.bincount(numbers(table, "key"), minlength=10))[::-1]
    shares = np.arange(1, 11) ** -skew / np.sum(np.arange(1, 11) ** -skew)
    assert np.all(np.abs(counts / table.num_rows - shares) < 0.005)


def test_correlated_streams_share_their_ranking() -> None:
    def tops(correlated: bool) -> list[int]:
        streams = zipf(rows=40_000, streams=4, skew=1.5, correlated=correlated)
        return [int(np.bincount(numbers(table, "key")).argmax()) for table in streams.values()]

    assert len(set(tops(correlated=True))) == 1
    assert len(set(tops(correlated=False))) > 1


def test_streams_of_different_skew_and_poisson_gaps() -> None:
    streams = zipf(rows=40_000, skew=(0.0, 2.0), arrivals="poisson", rate=10.0)
    flat, skewed = (np.bincount(numbers(table, "key")).max() / table.num_rows for table in streams.values())
    assert flat < 0.03
    assert skewed > 0.5
    gaps = np.diff(numbers(streams["s1"], "ts")) / SECOND
    assert gaps.mean() == pytest.approx(0.1, rel=0.05)
    assert gaps.std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    ("call_", "message"),
    [
        (lambda: zipf(skew=(1.0,)), "one for each of 2 streams"),
        (lambda: zipf(arrivals="never"), "'tick' or 'poisson', but 'never'"),  # type: ignore[arg-type]
        (lambda: zipf(domain=0), "domain is at least 1, but 0"),
        (lambda: zipf(rate=0), "rate is more than 0"),
        (lambda: weather(stations=5), "stations is at least 648, but 5"),
        (lambda: packets(loss=1.0), "loss is a share"),
        (lambda: cameras(passing=2.0), "passing is a share"),
    ],
)
def test_what_makes_no_sense_is_refused(call_: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call_()  # type: ignore[operator]


def test_nexmark_follows_the_published_proportions_and_ids() -> None:
    streams = nexmark(rows=50_000)
    person, auction, bid = streams.values()
    assert [table.num_rows for table in streams.values()] == [1000, 3000, 46_000]
    assert numbers(person, "id").tolist() == list(range(1000, 2000))
    assert numbers(auction, "id").tolist() == list(range(1000, 4000))
    assert set(numbers(auction, "category")) == {10, 11, 12, 13, 14}
    assert np.all(numbers(auction, "expires") > numbers(auction, "ts"))
    assert np.all(numbers(auction, "reserve") > numbers(auction, "initial_bid"))
    # Three quarters of the sellers and bidders and half of the auctions bid for are hot: the first of a hundred.
    hot = [
        np.mean(numbers(auction, "seller") % 100 == 0),
        np.mean(numbers(bid, "bidder") % 100 == 1),
        np.mean(numbers(bid, "auction") % 100 == 0),
    ]
    assert hot == pytest.approx([0.75, 0.75, 0.5], abs=0.03)
    prices = np.log10(numbers(bid, "price") / 100)
    assert np.quantile(prices, [0.0, 0.5, 1.0]) == pytest.approx([0, 3, 6], abs=0.1)


def test_nexmark_ids_are_those_of_the_latest_people_and_auctions() -> None:
    streams = nexmark(rows=100_000)
    auction, bid = streams["auction"], streams["bid"]
    latest = np.searchsorted(numbers(auction, "ts"), numbers(bid, "ts"), side="right") - 1 + 1000
    behind = latest - numbers(bid, "auction")
    assert behind.min() == -10
    assert behind.max() <= 100


def test_nexmark_texts_follow_the_published_rules() -> None:
    person, auction, bid = nexmark(rows=50_000).values()
    for table, size in ((person, 200), (auction, 500), (bid, 100)):
        texts = [c for c in table.column_names if pa.types.is_string(table.schema.field(c).type) and c != "url"]
        numbers_only = 8 * (4 if table is bid else 6 if table is auction else 1)
        lengths = sum(pc.binary_length(table[c]).to_numpy() for c in texts if not (table is bid and c == "channel"))
        assert np.mean(numbers_only + lengths) == pytest.approx(size, rel=0.01)
    assert set(person["state"].to_pylist()) == {"AZ", "CA", "ID", "OR", "WA", "WY"}
    assert len(set(zip(person["city"].to_pylist(), person["state"].to_pylist(), strict=True))) == 60
    assert all(re.fullmatch(r"\d{4}( \d{4}){3}", card) for card in person["credit_card"].to_pylist())
    assert all(re.fullmatch(r"[a-z ]{1,6}@[a-z ]{1,4}\.com", one) for one in person["email_address"].to_pylist())
    assert {len(name) for name in auction["item_name"].to_pylist()} <= set(range(20))
    assert set("".join(bid["extra"].to_pylist())) == set("abcdefghijklmnopqrstuvwxyz")


def test_nexmark_channels_have_one_address_each_and_most_tell_their_id() -> None:
    bid = nexmark(rows=200_000)["bid"]
    channels = dict(zip(bid["channel"].to_pylist(), bid["url"].to_pylist(), strict=True))
    assert len(set(zip(bid["channel"].to_pylist(), bid["url"].to_pylist(), strict=True))) == len(channels)
    hot = [name in ("Google", "Facebook", "Baidu", "Apple") for name in bid["channel"].to_pylist()]
    assert np.mean(hot) == pytest.approx(0.5, abs=0.01)
    address = r"https://www\.nexmark\.com(/[a-z_]{3,4}){3}/item\.htm\?query=1(&channel_id=\d+)?"
    assert all(re.fullmatch(address, url) for url in channels.values())
    tells = ["channel_id" in url for name, url in channels.items() if name.startswith("channel-")]
    assert np.mean(tells) == pytest.approx(0.9, abs=0.01)
    # The bits in the other order, without the sign: of 1 only the first is set then, of 3 the first two.
    for name, number in (("channel-1", 2**31), ("channel-3", 2**30), ("channel-4", 2**29)):
        assert channels[name].endswith(f"&channel_id={number}") or "channel_id" not in channels[name]


def test_nexmark_brings_the_table_of_query_13() -> None:
    table = WORKLOADS["nexmark"].table("side_input", {})
    assert table.num_rows == 10_000
    assert table["value"].to_pylist() == [str(key) for key in table["key"].to_pylist()]


def test_a_workload_is_written_to_files_that_queries_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("lab", "make", "nexmark", "rows=5000", "seed=3") == 0
    assert "nexmark/bid.parquet  4,600 rows" in capsys.readouterr().out
    made = nexmark(rows=5000, seed=3)
    assert all(pa_parquet.read_table(f"nexmark/{name}.parquet").equals(table) for name, table in made.items())
    assert pa_parquet.read_table("nexmark/side_input.parquet").num_rows == 10_000
    assert call("lab", "make", "nexmark", "rows=5000") == 1
    assert "nexmark/person.parquet already exists\nhint: say --overwrite" in capsys.readouterr().err
    assert call("lab", "make", "nexmark", "rows=50", "--overwrite", "--into", "other", "--format", "csv") == 0
    assert (tmp_path / "other" / "bid.csv").read_text().startswith('"auction","bidder","price","channel","url"')
    capsys.readouterr()
    assert call("lab", "make", "nexmark", "rows") == 2
    assert "'rows' is no parameter of a workload\nhint: write NAME=VALUE" in capsys.readouterr().err


def test_bidders_are_people_unless_shifted_as_in_the_published_generator() -> None:
    plain, shifted = (nexmark(rows=10_000, bidders_shifted=how)["bid"] for how in (False, True))
    assert np.all(numbers(shifted, "bidder") - numbers(plain, "bidder") == 1000)
    assert numbers(plain, "bidder").max() < 1000 + 200 + 10


def test_out_of_order_events_are_the_same_events() -> None:
    ordered, shuffled = (nexmark(rows=10_007, out_of_order=size) for size in (1, 100))
    times = numbers(shuffled["bid"], "ts")
    assert np.any(np.diff(times) < 0)
    assert np.max(np.maximum.accumulate(times) - times) <= 100 * SECOND / 10_000
    for name, table in ordered.items():
        assert sorted(numbers(shuffled[name], "ts")) == numbers(table, "ts").tolist()


def test_weather_reports_come_from_every_square_and_most_from_a_few() -> None:
    years = weather(rows=400_000)
    for table in years.values():
        counts = np.sort(np.bincount(numbers(table, "cell"), minlength=648))[::-1]
        assert counts.size == 648
        assert counts.min() > 0
        assert counts[:65].sum() / counts.sum() > 0.4
    hours = numbers(years["this_year"], "ts") // (3600 * SECOND) % 24
    assert set(hours) == set(range(0, 24, 3))


def test_objects_pass_the_cameras_one_after_another() -> None:
    seen = cameras(rows=30_000, returning=0.0)
    north, centre, south = (
        dict(zip(numbers(t, "object").tolist(), numbers(t, "ts").tolist(), strict=True)) for t in seen.values()
    )
    passed = north.keys() & centre.keys() & south.keys()
    assert len(passed) == 6000
    assert all((north[one] < centre[one]) == (centre[one] < south[one]) for one in passed)


def test_packets_are_delayed_or_lost_on_their_way() -> None:
    first, second, third = (
        {(row["flow"], row["packet"]): row["ts"] for row in table.to_pylist()}
        for table in packets(rows=30_000, links=3, loss=0.1).values()
    )
    assert len(first) == 10_000
    assert first.keys() > second.keys() > third.keys()
    assert len(third) / len(first) == pytest.approx(0.81, abs=0.02)
    assert all(second[key] >= first[key] for key in second)


def test_flights_are_all_there() -> None:
    streams = flights()
    assert sum(streams[name].num_rows for name in ("ewr", "jfk", "lga")) == 336_776
    assert all(np.all(np.diff(numbers(table, "ts")) >= 0) for table in streams.values())
    assert sum(table.num_rows for name, table in flights(1000).items() if name != "weather") == 1000


def test_pizzas_are_all_there() -> None:
    streams = pizzas()
    assert sum(table.num_rows for table in streams.values()) == 49_574
    assert sum(table.num_rows for table in pizzas(1000).values()) == 1000
    first = pa.concat_tables(streams.values()).sort_by("ts").slice(0, 1).to_pylist()[0]
    assert (first["name"], first["size"], first["cents"]) == ("hawaiian", "M", 1325)
    assert first["ts"] == datetime(2015, 1, 1, 11, 38, 36)


def test_without_the_package_pizzas_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("watersmeet.lab.workloads.pizzas")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(module, "_sold", module._sold.__wrapped__)
    assert not have_pizzas()
    with pytest.raises(SetupError, match=r"watersmeet\[pizzas\]"):
        pizzas()


def test_without_the_package_flights_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("watersmeet.lab.workloads.flights")  # the function of that name hides it
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setattr(module, "_departures", module._departures.__wrapped__)  # as if nothing had been read before
    assert not have_flights()
    with pytest.raises(SetupError, match=r"watersmeet\[flights\]"):
        flights()


SOURCE = "CREATE STREAM {name}{columns} WITH (source='lab:nexmark', stream='{stream}', rows='20000', time='ts');"


def script(columns: str = "") -> str:
    declared = [
        SOURCE.format(name=name, stream=name, columns=columns if name == "bid" else "") for name in ("auction", "bid")
    ]
    query = "SELECT a.id, b.price FROM auction a, bid b WHERE a.id = b.auction DWINDOW (a, b) = 200 MILLISECONDS"
    return "\n".join([*declared, query])


@pytest.mark.parametrize("columns", ["", " (auction BIGINT, price BIGINT, ts TIMESTAMP)"], ids=["inferred", "declared"])
def test_a_query_reads_a_workload_as_a_source(columns: str) -> None:
    (job,) = read_script(script(columns))
    rows = sum(batch.num_rows for batch in PulledExecution(job.plan).batches())
    made = nexmark(rows=20_000)
    opened = dict(zip(numbers(made["auction"], "id").tolist(), numbers(made["auction"], "ts").tolist(), strict=True))
    waits = [
        ts - opened.get(one, ts + 1)
        for one, ts in zip(*(numbers(made["bid"], c) for c in ("auction", "ts")), strict=True)
    ]
    assert rows == sum(0 <= wait <= 200_000 for wait in waits) > 0


def test_parameters_are_written_as_text() -> None:
    options = "source='lab:zipf', stream='s3', streams='3', skew='0, 1, 2', rows='900', SEED='5', time='ts'"
    (job,) = read_script(f"CREATE STREAM s WITH ({options}); SELECT key FROM s")
    found = pa.Table.from_batches(PulledExecution(job.plan).batches())
    assert found["key"].to_pylist() == zipf(rows=900, seed=5, streams=3, skew=(0.0, 1.0, 2.0))["s3"]["key"].to_pylist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("source='lab:nexmrk', stream='bid'", "there is no workload 'nexmrk'\nhint: did you mean lab:nexmark?"),
        (
            "source='lab:nexmark'",
            "lab:nexmark says not which stream it wants\nhint: stream may be 'person', 'auction' or 'bid'",
        ),
        ("source='lab:nexmark', stream='bids'", "lab:nexmark has no stream 'bids'"),
        ("source='lab:nexmark', stream='bid', row='5'", "lab:nexmark has no parameter 'row'\nhint: did you mean rows?"),
        ("source='lab:nexmark', stream='bid', rows='many'", "lab:nexmark cannot take rows = 'many'"),
        ("source='lab:nexmark', stream='bid', bidders_shifted='maybe'", "cannot take bidders_shifted = 'maybe'"),
        ("source='lob:nexmark', stream='bid'", "there is no source 'lob:nexmark'"),
    ],
)
def test_a_source_that_is_asked_for_wrongly_says_how(options: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        read_script(f"CREATE STREAM s WITH ({options}, time='ts'); SELECT * FROM s")
    assert message in str(caught.value)


def test_a_declared_column_that_a_workload_lacks_is_told() -> None:
    with pytest.raises(
        SourceError, match="'bid' is declared with a column 'prize', but lab:nexmark has none"
    ) as caught:
        read_script(script(" (prize BIGINT, ts TIMESTAMP)"))
    assert "its columns are auction, bidder, price, channel, url, extra, ts" in str(caught.value)


def test_the_workloads_are_listed_with_their_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("lab", "workloads") == 0
    told = [line.split()[0] for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert told == [f"lab:{name}" for name in WORKLOADS]
    assert call("lab", "workloads", "zipf") == 0
    assert "  s2 (key BIGINT, ts TIMESTAMP)\n" in capsys.readouterr().out
