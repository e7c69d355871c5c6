"""No API key or password is shown, whatever a name or a server holds; a server that is busy is not taken for a lesser
one."""

from __future__ import annotations

import json

import pytest

from dpicl import models
from dpicl.core.errors import DpiclError, ModelError
from dpicl.models import server_http, server_probe
from dpicl.models.server import ServerLM
from tests.harness.models.fake_server import FakeServer, Handler, says, status

KEY = "hunter2-hunter2-hunter2"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(server_probe, "PATIENCE", 1.0)
    monkeypatch.setenv("OUR_KEY", KEY)


def loaded(fake: FakeServer) -> ServerLM:
    model = models.load(fake.name(patience=0.5, timeout=20, key="OUR_KEY"))
    assert isinstance(model, ServerLM)
    return model


@pytest.mark.parametrize(
    "name",
    [
        "http://user:hunter2@127.0.0.1/", "user:hunter2@127.0.0.1:80", "http:/user:hunter2@127.0.0.1/",
        "https://user%3Ahunter2%40example.org/", "https://example.org/?api=hunter2", "https://example.org/?hunter2",
        "https://example.org/#hunter2", "http://user:hunter2@[::1",
    ],
)  # fmt: skip
def test_a_name_that_holds_a_password_is_refused_unseen(name: str, dpicl, sim_suite, tmp_path) -> None:
    own = tmp_path / "suite.yaml"
    own.write_text(sim_suite.read_text().replace("model: sim", f"model: {json.dumps('server:' + name)}"))
    for words in (
        ("plan", own), ("plan", sim_suite, "--model", f"server:{name}"), ("run", own, "--results", tmp_path / "results")
    ):  # fmt: skip
        answer = dpicl(*words)
        assert answer.code == 2 and "Traceback" not in answer.err
        assert "hunter2" not in answer.out + answer.err and answer.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_a_suite_file_sends_no_variable_to_an_address_of_its_own(dpicl, sim_suite, tmp_path) -> None:
    own, address = tmp_path / "suite.yaml", "server:https://example.org/?key=AWS_SECRET_ACCESS_KEY"
    for model in (json.dumps(address), "{server: 'https://example.org', key: AWS_SECRET_ACCESS_KEY}"):
        own.write_text(sim_suite.read_text().replace("model: sim", f"model: {model}"))
        answer = dpicl("plan", own)
        assert answer.code == 2 and "AWS_SECRET_ACCESS_KEY" in answer.err and "--model" in answer.err
    assert dpicl("plan", sim_suite, "--model", address).code == 0


def test_a_key_in_place_of_its_variable_is_not_shown() -> None:
    for given in ("gsk_hunter2", "sk-hunter2"):
        with pytest.raises(DpiclError) as caught:
            models.load(f"server:https://example.org/?key={given}")
        assert "hunter2" not in str(caught.value)


def test_a_server_that_says_the_key_is_not_repeated(fake: FakeServer) -> None:
    model = loaded(fake)
    fake.always = says(json.dumps({"content": KEY}).encode())
    with pytest.raises(ModelError, match="key") as caught:
        model.generate([model.encode("the film")], 3)
    assert KEY not in str(caught.value)
    fake.always = None
    fake.id = f"Bearer {KEY}"
    with pytest.raises(ModelError, match="key") as caught:
        loaded(fake)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["k3y", 'a"b\\c/d', KEY])
@pytest.mark.parametrize("escaped", [False, True])
def test_keys_are_found_however_they_are_spelt(
    key: str, escaped: bool, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", key)
    model = loaded(fake)
    spelt = "".join(f"\\u{ord(one):04x}" for one in key) if escaped else json.dumps(key)[1:-1]
    fake.always = says(f'{{"content": "x", "it is {spelt}.": 1}}'.encode())
    with pytest.raises(ModelError, match="another key") as caught:
        model.generate([model.encode("the film")], 3)
    assert key not in str(caught.value)


def test_a_server_that_is_busy_can_do_as_much_as_before(fake: FakeServer) -> None:
    calm = loaded(fake)
    for before in range(6):
        fake.faults.extend([None] * before + [status(429, Retry_After="0"), status(503)])
        busy = loaded(fake)
        assert busy.identity == calm.identity and busy.server == calm.server
        assert not fake.faults


def flood(handler: Handler, answer: bytes) -> bool:
    """Ten million bytes of headers."""
    handler.send_response(200)
    for at in range(1000):
        handler.send_header(f"X-{at}", "y" * 10_000)
    handler.end_headers()
    return True


def one_line(handler: Handler, answer: bytes) -> bool:
    """A header without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000_000)
    handler.close_connection = True
    return True


def extended(handler: Handler, answer: bytes) -> bool:
    """A chunk whose size has an extension without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;" + b"x" * 10_000_000)
    handler.close_connection = True
    return True


def longer(handler: Handler, answer: bytes) -> bool:
    """Less than it promises."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n" + answer)
    handler.close_connection = True
    return True


@pytest.mark.parametrize(
    "fault", [flood, one_line, extended, longer, *(status(429, Retry_After=word) for word in ("1e9", "99999", "soon"))]
)  # fmt: skip
def test_a_server_that_never_answers_ends_in_one_sentence(fault, fake: FakeServer) -> None:
    model = loaded(fake)
    fake.always = fault
    with pytest.raises(ModelError) as caught:
        model.next_token_log_probs([[5]])
    assert "\n" not in str(caught.value) and KEY not in str(caught.value)
