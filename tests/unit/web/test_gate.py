"""Host, Origin, CORS, defects: what surrounds every route."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.agent.findings import Event
from armory.domain.catalog import EMPTY
from armory.errors import BackendError
from armory.security.authentication import Authenticator
from armory.security.policy import Policy
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.testing.service import QUICK_END
from armory.testing.serving import listen
from armory.web.app import make_app
from armory.web.binding import bind
from armory.web.rest.api import register_rest
from armory.web.rest.services import RestServices
from armory.wire.http.host_checks import HostChecks

pytestmark = pytest.mark.anyio
Answer = tuple[int, Any, Any]


class Broken:
    """An engine that fails as it is told."""

    def __init__(self) -> None:
        self.error: Exception = BackendError("the vector store is away")

    tools: tuple[Any, ...] = ()

    async def rank(self, query: Any, visible: Any = None) -> Any:
        raise self.error

    async def embedding(self, text: str) -> Any:
        raise self.error


class Failing:
    """An agent that fails once it has said something."""

    error: Exception = BackendError("the model is away")

    async def run(self, question: str, **_: Any) -> Any:
        raise self.error

    async def stream(self, question: str, **_: Any) -> AsyncIterator[Event]:
        yield Event("thought", "hm", 0, 1.0)
        raise self.error


@pytest.fixture
def engine() -> Broken:
    return Broken()


@pytest.fixture
async def url(tmp_path: Path, engine: Broken) -> AsyncIterator[str]:
    accounts = Accounts(
        Database(f"sqlite:///{tmp_path / 'armory.db'}"), MemoryCache(), AccountSettings()
    )
    await accounts.open()
    policy = Policy()
    services = RestServices(
        engine=engine,
        agent=Failing(),  # pyright: ignore[reportArgumentType]
        accounts=accounts,
        authenticator=Authenticator(allow_anonymous=True),
        catalog=lambda: EMPTY,
        policy=lambda: policy,
        gate=HostChecks("127.0.0.1", allowed_origins=["https://app.example"]),
        base_path="/under",
        body_bytes=1 << 20,
        json_depth=64,
        api_keys=False,
    )
    app = make_app(body_bytes=1 << 20)
    register_rest(app, replace(services))
    listening = await listen(app, bind("127.0.0.1", 0), settings=QUICK_END)
    yield listening.url + "/under"
    await listening.close()
    await accounts.close()


async def ask(method: str, url: str, **headers: str) -> Answer:
    async with aiohttp.ClientSession() as session, session.request(
        method, url, headers=headers
    ) as answer:  # fmt: skip
        is_json = "json" in answer.headers.get("Content-Type", "")
        return answer.status, await answer.json() if is_json else None, answer.headers


async def test_a_foreign_host_is_turned_away(url: str) -> None:
    status, body, _ = await ask("GET", f"{url}/v1/catalog", Host="evil.example")
    assert (status, body["code"]) == (403, "access_denied")
    assert (await ask("PATCH", f"{url}/v1/catalog", Host="evil.example"))[0] == 403


async def test_browsers_of_allowed_origins_are_served_and_others_not(url: str) -> None:
    status, _, headers = await ask("GET", f"{url}/v1/catalog", Origin="https://app.example")
    assert status == 200
    assert headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert headers["Vary"] == "Origin"
    status, _, headers = await ask("GET", f"{url}/v1/catalog", Origin="https://evil.example")
    assert status == 403
    assert "Access-Control-Allow-Origin" not in headers
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "X-A"}
    path = f"{url}/v1/retrieve_tools"
    status, _, headers = await ask("OPTIONS", path, Origin="https://app.example", **asked)
    assert status == 204
    assert headers["Access-Control-Allow-Methods"] == "GET, HEAD, POST"
    assert headers["Access-Control-Allow-Headers"] == "X-A"
    assert (await ask("OPTIONS", path, Origin="https://evil.example", **asked))[0] == 403


@pytest.mark.parametrize(
    ("error", "code"),
    [(BackendError("the model is away"), "backend"), (RuntimeError("insides"), "internal")],
)
async def test_a_stream_that_fails_says_so_to_any_page_that_may_ask(
    url: str, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str
) -> None:
    monkeypatch.setattr(Failing, "error", error)
    headers = {"Accept": "text/event-stream", "Origin": "https://app.example"}
    body = {"query": "x", "mode": "agent"}
    async with aiohttp.ClientSession() as session, session.post(
        f"{url}/v1/retrieve_tools", json=body, headers=headers
    ) as answer:  # fmt: skip
        text = await answer.text()
    assert answer.headers["Access-Control-Allow-Origin"] == "https://app.example"
    events = [part.split("\n") for part in text.strip().split("\n\n")]
    assert [event[0] for event in events] == ["event: thought", "event: error"]
    assert json.loads(events[1][1].removeprefix("data: "))["code"] == code
    assert "insides" not in text


async def test_a_store_that_is_away_is_503_and_a_defect_shows_nothing(
    url: str, engine: Broken
) -> None:
    status, body, headers = await ask("GET", f"{url}/retrieve_tools?query=x")
    assert (status, body["code"]) == (503, "backend")
    assert headers["Retry-After"] == "1"
    engine.error = RuntimeError("secret insides")
    status, body, headers = await ask("GET", f"{url}/retrieve_tools?query=x")
    assert (status, body["code"]) == (500, "internal")
    assert "secret" not in str(body)
    assert body["request_id"] == headers["X-Request-ID"]


async def test_what_belongs_to_accounts_is_not_there_without_them(url: str) -> None:
    for path in ("/v1/packs", "/v1/installations", "/v1/quota"):
        status, body, _ = await ask("GET", url + path)
        assert status in {403, 404}
        assert body["code"] in {"accounts_disabled", "access_denied"}
    assert (await ask("GET", f"{url}/v1/keys"))[0] == 404
    document = (await ask("GET", f"{url}/openapi.json"))[1]
    assert "/under/retrieve_tools" in document["paths"]
    assert "/under/v1/keys" not in document["paths"]


async def test_a_path_without_a_route_says_where_things_are(url: str) -> None:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/nowhere") as answer:
        text = await answer.text()
    assert answer.status == 404
    assert answer.content_type == "text/plain"
    assert "'/under/nowhere'" in text
    assert "/docs" in text
