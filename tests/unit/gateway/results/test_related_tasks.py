"""The task that a request or an answer of a client belongs to has the server's own id upstream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from msgspec import Raw

from armory.domain.principal import Principal
from armory.gateway.endpoint import ALL, Endpoint
from armory.gateway.results.channels import exposed_channel
from armory.gateway.results.uri_rewriting import original_task
from armory.protocol.link import RESOURCE_META, Answer, Owner, Params, Reply
from armory.protocol.meta import RELATED_TASK
from armory.protocol.rawjson import pack
from armory.testing.front import plain, raws

if TYPE_CHECKING:
    from tests.unit.gateway.conftest import Bench

pytestmark = pytest.mark.anyio
DIRECT = Endpoint("server", "up")


def related(task: Any) -> dict[str, Any]:
    return {"_meta": {"v/x": 1.5, RELATED_TASK: {"taskId": task, "y": 1}}, "z": 2}


@pytest.mark.parametrize("sent", [related("s:"), related("other:1"), related("1"), related(5), {}])
def test_what_names_no_task_of_the_server_stays(sent: dict[str, Any]) -> None:
    params = raws(sent)
    assert original_task(params, "s") is params


PLACES = [(ALL, "up__tool1", "up+file:///a", "up:1"), (DIRECT, "tool1", "file:///a", "1")]


@pytest.mark.parametrize(("endpoint", "name", "uri", "task"), PLACES)
@pytest.mark.parametrize("who", ["ann", "bob"])
async def test_a_request_names_its_task_if_it_is_the_callers(
    bench: Bench, endpoint: Endpoint, name: str, uri: str, task: str, who: str
) -> None:
    """A server may ask whoever made the task what it would ask the caller."""
    ann, gateway = bench.context(principal=Principal("ann")), bench.gateway
    made = Reply(pack({"task": {"taskId": "1", "status": "working"}}), era="legacy")
    await gateway.tasks.note_made(ann, "up", made)
    context = bench.context(principal=Principal(who), endpoint=endpoint)
    await gateway.tool_calls.call(context, raws({"name": name, **related(task)}))
    await gateway.primitives.read_resource(context, raws({"uri": uri, **related(task)}))
    sent = [plain(call.params) for _, _, call in bench.pool.calls[-2:]]
    told = related("1")["_meta"] if who == "ann" else {"v/x": 1.5}
    assert [each["_meta"] for each in sent] == [told] * 2


@pytest.mark.parametrize(("endpoint", "name", "uri", "task"), PLACES)
@pytest.mark.parametrize("who", ["ann", "bob"])
async def test_what_a_session_says_names_its_task_if_it_is_the_callers(
    bench: Bench, endpoint: Endpoint, name: str, uri: str, task: str, who: str
) -> None:
    del name
    heard: list[Any] = []

    async def noting(
        server: str, owner: Owner, uris: frozenset[str], again: str | None = None
    ) -> None:
        del server, owner, uris, again
        meta = RESOURCE_META.get()
        heard.append(None if meta is None else msgspec.json.decode(meta[1]))

    bench.pool.set_subscriptions = noting
    ann, gateway = bench.context("legacy", principal=Principal("ann")), bench.gateway
    made = Reply(pack({"task": {"taskId": "1", "status": "working"}}), era="legacy")
    await gateway.tasks.note_made(ann, "up", made)
    context = bench.context("legacy", endpoint, principal=Principal(who))
    params = raws({"uri": uri, **related(task)})
    await gateway.session_methods.subscribe(context, params)
    await gateway.session_methods.unsubscribe(context, params)
    told = related("1")["_meta"] if who == "ann" else {"v/x": 1.5}
    assert heard == [told] * 2
    await gateway.client_news.pass_on(context, "notifications/vendor", params)
    said = [plain(params)["_meta"] for *_, params in bench.pool.notified]
    assert said == ([told] if endpoint is DIRECT else [])


ESCAPED = Raw(rb'{"io.modelcontextprotocol\/related-task":{"taskId":"up:1"}}')
"""As PHP writes it."""


def test_an_answer_names_its_task_however_the_key_is_written() -> None:
    told = original_task({"_meta": ESCAPED}, "up")
    assert plain(told) == {"_meta": {RELATED_TASK: {"taskId": "1"}}}


async def test_a_task_is_told_by_its_key_however_that_is_written(bench: Bench) -> None:
    context = bench.context("legacy", DIRECT)
    await bench.gateway.client_news.pass_on(context, "notifications/vendor", {"_meta": ESCAPED})
    ((*_, params),) = bench.pool.notified
    assert plain(params) == {"_meta": {}}


@pytest.mark.parametrize("task", ["1", "other:1", "up:2", 5])
async def test_a_request_names_no_task_that_is_not_there(bench: Bench, task: Any) -> None:
    params = raws({"name": "up__tool1", **related(task)})
    await bench.gateway.tool_calls.call(bench.context(), params)
    assert plain(bench.pool.calls[-1][2].params)["_meta"] == {"v/x": 1.5}


async def test_an_answer_names_its_task(bench: Bench) -> None:
    """As the client was asked, in its own form."""

    async def ask(method: str, params: Params) -> Answer:
        asked = plain(params)
        assert method == "elicitation/create"
        assert asked == related("up:1")
        return Answer(result=msgspec.Raw(msgspec.json.encode({"action": "decline", **asked})))

    bench.client.ask = ask
    channel = exposed_channel(bench.context(), "up")
    answer = await channel.ask("elicitation/create", raws(related("1")))
    assert answer.result is not None
    assert msgspec.json.decode(answer.result) == {"action": "decline", **related("1")}
