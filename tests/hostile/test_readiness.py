"""What an upstream that fails says of itself, and who is told.

Bounded: `/readyz`, `/healthz` and `/metrics` tell nobody without the scope `admin` what an upstream
wrote to standard error or answered, its URL, its command or its folder; the log holds no key of a
URL.
"""

from __future__ import annotations

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from armory.testing.processes import GatewayProcess
from armory.testing.servers import free_port
from tests.threaded import Answering, served

TOKENS = {name: f"{name}-{'t' * 40}" for name in ("caller", "barred", "admin")}
KEY = "key-of-the-url-4711"
SAID = "said-on-standard-error"
BODY = "body-of-the-error"
PLACE = "a-private-place"
FAILED_S = 60.0
PATHS = ("/readyz", "/healthz", "/metrics")
ANYBODY = {
    "nobody": {},
    "a wrong token": {"Authorization": "Bearer wrong"},
    "an empty token": {"Authorization": "Bearer "},
    "a caller": {"Authorization": f"Bearer {TOKENS['caller']}"},
    "who says to be inside": {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1"},
}


class Failing(Answering):
    """Answers with an error that tells much."""

    def do_POST(self) -> None:
        self.say(BODY.encode(), status=500)

    do_GET = do_POST


@pytest.fixture(scope="module")
def failing() -> Iterator[str]:
    """The URL of an HTTP server that fails."""
    with served(Failing) as url:
        yield url


@pytest.fixture(scope="module")
def gateway(
    failing: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[GatewayProcess, tuple[str, ...]]]:
    """A gateway whose upstreams have failed; its main address and that of its metrics."""
    folder = tmp_path_factory.mktemp("readiness")
    script = folder / PLACE / "server.py"
    script.parent.mkdir()
    script.write_text(f"import sys; print({SAID!r}, file=sys.stderr); sys.exit(3)")
    port = free_port()
    config = {
        "server": {"metrics": {"port": port}},
        "security": {
            "tokens": {
                "caller": {"token": TOKENS["caller"]},
                "barred": {"token": TOKENS["barred"], "scopes": ["barred"]},
                "admin": {"token": TOKENS["admin"], "scopes": ["admin"]},
            },
            "policies": [{"allow": ["*"]}, {"who": ["barred"], "deny": ["*"]}],
        },
        "upstreams": {
            "pipe": {"command": sys.executable, "args": [str(script)]},
            "web": {"url": f"{failing}/{PLACE}?api_key={KEY}"},
        },
    }
    running = GatewayProcess(config, folder, wait=False)
    try:
        _failed(running.url)
        yield running, (running.url, f"http://127.0.0.1:{port}")
    finally:
        running.close()


def _fetch(url: str, headers: dict[str, str]) -> str:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=30
        ) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.read().decode()


def _details(base: str) -> dict[str, object]:
    return json.loads(_fetch(f"{base}/readyz", {"Authorization": f"Bearer {TOKENS['admin']}"}))


def _failed(base: str) -> str:
    """What an administrator is told once both have failed; they are started again now and then."""
    until = time.monotonic() + FAILED_S
    while any(text not in (said := json.dumps(_details(base))) for text in (SAID, BODY)):
        assert time.monotonic() < until, said
        time.sleep(0.05)
    return said


def test_an_administrator_is_told_why(gateway: tuple[GatewayProcess, tuple[str, ...]]) -> None:
    _, urls = gateway
    for base in urls:
        said = _failed(base)
        assert KEY not in said, "not even the administrator needs the key"


@pytest.mark.parametrize("who", ANYBODY)
@pytest.mark.parametrize("path", PATHS)
def test_nobody_else_is_told_what_upstreams_said_or_where_they_are(
    gateway: tuple[GatewayProcess, tuple[str, ...]], who: str, path: str
) -> None:
    _, urls = gateway
    for base in urls:
        body = _fetch(base + path, ANYBODY[who])
        shown = [text for text in (KEY, SAID, BODY, PLACE, sys.executable) if text in body]
        assert not shown, f"{base}{path} shows {who}: {shown}"
        if path == "/readyz":
            assert set(json.loads(body)) == {"status"}


def _status_of(url: str, who: str) -> tuple[int, str | None, str]:
    asked = urllib.request.Request(
        url,
        data=b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
        headers={"Authorization": f"Bearer {TOKENS[who]}", "Content-Type": "application/json"},
    )
    try:
        urllib.request.urlopen(asked, timeout=30).close()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers["Retry-After"], refused.read().decode()
    return 200, None, ""


@pytest.mark.parametrize("server", ["pipe", "web"])
def test_an_endpoint_that_was_never_ready_is_awaited_by_those_who_may_know_of_it(
    gateway: tuple[GatewayProcess, tuple[str, ...]], server: str
) -> None:
    running, _ = gateway
    status, again, body = _status_of(f"{running.url}/mcp/{server}", "caller")
    assert (status, again) == (503, "5")
    told = json.loads(body)
    assert (told["id"], told["error"]["code"]) == (1, 1001)
    assert told["error"]["data"] == {"code": "upstream_unavailable", "upstream": server}
    assert f"upstream '{server}' is not ready yet" in told["error"]["message"]
    assert not [text for text in (KEY, SAID, BODY, PLACE, sys.executable) if text in body]
    unknown = _status_of(f"{running.url}/mcp/none", "caller")
    barred = _status_of(f"{running.url}/mcp/{server}", "barred")
    assert unknown[0] == barred[0] == 404
    assert barred[2] == unknown[2].replace("/none", f"/{server}")


def test_the_log_holds_no_key_of_a_url(gateway: tuple[GatewayProcess, tuple[str, ...]]) -> None:
    running, _ = gateway
    log = running.errors()
    assert "upstream_down" in log
    assert KEY not in log


def test_metrics_are_not_for_pages_of_names_bound_anew(
    gateway: tuple[GatewayProcess, tuple[str, ...]],
) -> None:
    url = gateway[1][1]
    told = _fetch(f"{url}/metrics", {"Host": "evil.example"})
    assert told == "this Host is not in server.allowed_hosts\n"
    assert "armory_" in _fetch(f"{url}/metrics", {"Host": "localhost:1"})
    assert "ok" in _fetch(f"{url}/healthz", {"Host": "evil.example"})
