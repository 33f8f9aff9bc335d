"""A registry of schemas behind a password, a token, a certificate; and schemas of Protobuf that it knows."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow as pa
import pytest

from tests.kafka.mock_cluster import MockCluster
from tests.kafka.openings import all_bad, all_rows, source
from tests.kafka.test_formats import COLUMNS, EVENT, avro, shop_described
from watersmeet.errors import OptionError, SourceError

TOKEN, SECRET = "a-token-that-nobody-prints", "a-secret-that-nobody-prints"
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts registries, which answer whoever says `authorization`, and hand out tokens for the secret."""
    servers: list[HTTPServer] = []

    def start(
        answers: Mapping[str, object], authorization: str | None = None, tls: ssl.SSLContext | None = None
    ) -> str:
        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.headers.get("Authorization") != authorization:
                    return self._answer(401, {"error_code": 401, "message": "Unauthorized"})
                found = answers.get(self.path.partition("?")[0])
                if callable(found):
                    found = found(parse_qs(urlsplit(self.path).query))
                return self._answer(200 if found else 404, found or {"error_code": 40403, "message": "not found"})

            def do_POST(self) -> None:
                """The one who gives tokens."""
                asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
                who = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic ")).decode()
                if who != f"me:{SECRET}" or "grant_type=client_credentials" not in asked:
                    return self._answer(401, {"error": "invalid_client", "error_description": "the secret is wrong"})
                return self._answer(200, {"access_token": TOKEN, "token_type": "bearer", "expires_in": 600})

            def _answer(self, code: int, body: object) -> None:
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(body).encode())

            def log_message(self, *arguments: object) -> None:
                pass

        server = HTTPServer(("127.0.0.1", 0), Answers)
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()


KNOWN = {"/schemas/ids/7": {"schema": json.dumps(EVENT)}}


def framed(known: int, value: bytes) -> bytes:
    return b"\0" + known.to_bytes(4, "big") + value


def ids_read(mock: MockCluster, address: str, **options: str) -> list[int]:
    topic = mock.topic()
    mock.put(topic, [framed(7, avro(1))])
    options = {"format": "avro", "registry": address, "registry.max.retries": "0", **options}
    return [row["id"] for row in all_rows(source(mock.brokers, topic, COLUMNS, **options))]


def test_a_password_is_said_and_not_printed(mock: MockCluster, serve: Serve) -> None:
    address = serve(KNOWN, "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode())
    assert ids_read(mock, address, registry_auth=f"me:{SECRET}") == [1]
    assert ids_read(mock, address, **{"registry.basic.auth.user.info": f"me:{SECRET}"}) == [1]
    with pytest.raises(SourceError, match=r"schema 7 cannot be had from the registry .*401 Unauthorized") as raised:
        ids_read(mock, address, registry_auth=f"me:{SECRET}-not")
    assert SECRET not in str(raised.value)
    with pytest.raises(OptionError, match="has both registry_auth and"):
        ids_read(mock, address, registry_auth="a:b", **{"registry.basic.auth.user.info": "a:b"})


def test_a_token_is_said(mock: MockCluster, serve: Serve) -> None:
    address = serve(KNOWN, f"Bearer {TOKEN}")
    said = {
        "registry.bearer.auth.credentials.source": "STATIC_TOKEN",
        "registry.bearer.auth.token": TOKEN,
        "registry.bearer.auth.logical.cluster": "shop",
    }
    assert ids_read(mock, address, **said) == [1]


def test_a_token_is_had_by_oauth(mock: MockCluster, serve: Serve) -> None:
    address = serve(KNOWN, f"Bearer {TOKEN}")
    said = {
        "registry.bearer.auth.credentials.source": "OAUTHBEARER",
        "registry.bearer.auth.client.id": "me",
        "registry.bearer.auth.client.secret": SECRET,
        "registry.bearer.auth.scope": "schemas",
        "registry.bearer.auth.issuer.endpoint.url": f"{address}/token",
        "registry.bearer.auth.logical.cluster": "shop",
    }
    assert ids_read(mock, address, **said) == [1]
    with pytest.raises(SourceError, match="cannot be had from the registry") as raised:
        ids_read(mock, address, **{**said, "registry.bearer.auth.client.secret": "another-secret"})
    assert "another-secret" not in str(raised.value)


def certificate(folder: Path) -> Path:
    """One that signs itself, with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "registry")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = folder / "registry.pem"
    plain = serialization.NoEncryption()
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def test_a_certificate_is_checked_by_the_authority_that_is_said(
    mock: MockCluster, serve: Serve, tmp_path: Path
) -> None:
    path = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(path)
    address = serve(KNOWN, tls=tls)
    assert ids_read(mock, address, **{"registry.ssl.ca.location": str(path)}) == [1]
    with pytest.raises(SourceError, match=r"schema 7 cannot be had from the registry .*certificate"):
        ids_read(mock, address)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"registry": "http://here", "registry.colour": "red"}, "Unrecognized properties: colour"),
        ({"registry": "http://here", "registry.timeout": "soon"}, "could not convert"),
        ({"registry": "http://here", "registry.ssl.ca.location": "/nowhere/ca.pem"}, "No such file"),
        ({"schema": json.dumps(EVENT), "registry.ssl.ca.location": "ca.pem"}, "but not where it is"),
    ],
)
def test_settings_that_no_client_can_be_made_of_are_refused_at_once(
    mock: MockCluster, said: dict[str, str], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        source(mock.brokers, mock.topic(), COLUMNS, format="avro", **said)


def test_a_registry_knows_the_messages_of_protobuf(mock: MockCluster, serve: Serve, tmp_path: Path) -> None:
    from google.protobuf import descriptor_pb2

    order = shop_described(tmp_path / "shop.desc")
    (file,) = descriptor_pb2.FileDescriptorSet.FromString((tmp_path / "shop.desc").read_bytes()).file
    older = descriptor_pb2.FileDescriptorProto()
    older.CopyFrom(file)
    del older.message_type[1].field[1:]
    older.dependency.append("google/protobuf/timestamp.proto")

    def schema(one: descriptor_pb2.FileDescriptorProto) -> Callable[[Mapping[str, object]], object]:
        """As text unless the other form is asked for."""
        made = base64.b64encode(one.SerializeToString()).decode()
        return lambda query: {"schemaType": "PROTOBUF", "schema": made if query == {"format": ["serialized"]} else "…"}

    address = serve({"/schemas/ids/7": schema(file), "/schemas/ids/3": schema(older), **{"/schemas/ids/1": KNOWN}})
    topic = mock.topic()
    values = [order(id=1, notes={"a": 5}).SerializeToString(), order(id=2).SerializeToString()]
    mock.put(topic, [framed(7, b"\x02\x02" + values[0]), framed(3, b"\x02\x02" + values[1]), framed(9, b"\x00")])
    columns = pa.schema([("id", pa.int64()), ("notes", pa.map_(pa.string(), pa.int32()))])
    options = {"format": "protobuf", "registry": address, "message": "shop.Order"}
    found = all_rows(source(mock.brokers, topic, columns, None, **options))
    assert found == [{"id": 1, "notes": [("a", 5)]}, {"id": 2, "notes": None}]
    bad = all_bad(source(mock.brokers, topic, columns, None, **options))
    assert [(row["offset"], row["detail"]) for row in bad] == [(2, "the registry knows no schema 9")]
    with pytest.raises(SourceError, match="does not say its columns"):
        source(mock.brokers, topic, None, None, **options)
