"""The tools of a scripted upstream: honest ones, asking ones, and every fault.

Owns: what each tool does. Never imports a transport.
"""

from __future__ import annotations

import asyncio
import os

from armory.tasks import spawn
from armory.testing.upstreams.exchange import (
    Json,
    Request,
    RpcFailure,
    ScriptState,
    Stop,
    Tool,
    definition,
    notification,
    text,
)


async def _echo(_script: ScriptState, request: Request) -> Json:
    """Everything back, in every kind of block, with fields that nobody knows."""
    return {
        "content": [
            {"type": "text", "text": str(request.arguments.get("text", "")), "x": 1},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "unheard-of", "payload": [1, 2.50, None]},
        ],
        "structuredContent": {"arguments": request.arguments, "meta": request.meta},
        "isError": False,
        "x-unknown": 12345678901234567890123,
    }


async def _who(_script: ScriptState, request: Request) -> Json:
    """Which process, session and environment serve this."""
    return text(
        "who",
        structuredContent={
            "pid": os.getpid(),
            "session": request.wire.session,
            "env": dict(os.environ),
            "capabilities": dict(request.wire.capabilities),
        },
    )


async def _fail(_script: ScriptState, _request: Request) -> Json:
    return text("it went wrong", isError=True)


async def _error(_script: ScriptState, _request: Request) -> Json:
    raise RpcFailure(-32050, "own error", {"detail": [1]})


async def _wait(script: ScriptState, _request: Request) -> Json:
    await script.release.wait()
    return text("released")


async def _hang(_script: ScriptState, _request: Request) -> Json:
    await asyncio.Event().wait()
    raise Stop


async def _progress(_script: ScriptState, request: Request) -> Json:
    token = request.meta.get("progressToken")
    if token is not None:
        for step in range(3):
            params = {"progressToken": token, "progress": step, "total": 3}
            await request.wire.send(notification("notifications/progress", params))
    return text("done")


async def _log(_script: ScriptState, request: Request) -> Json:
    for level in ("debug", "info", "error"):
        params = {"level": level, "data": f"at {level}"}
        await request.wire.send(notification("notifications/message", params))
    return text("logged")


async def _elicit(_script: ScriptState, request: Request) -> Json:
    params = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
    return text("asked", structuredContent=await request.wire.ask("elicitation/create", params))


async def _sample(_script: ScriptState, request: Request) -> Json:
    params: Json = {"messages": [], "maxTokens": 5, **request.arguments}
    return text("asked", structuredContent=await request.wire.ask("sampling/createMessage", params))


async def _roots(_script: ScriptState, request: Request) -> Json:
    return text("asked", structuredContent=await request.wire.ask("roots/list", {}))


async def _roots_later(script: ScriptState, request: Request) -> Json:
    """Ask, and answer before the client does."""

    async def ask() -> None:
        answer = await request.wire.ask("roots/list", {})
        script.roots = answer.get("result", answer)

    asking = script.asking = spawn(ask(), "roots/list")
    await asyncio.wait((asking,), timeout=0.05)
    return text("asking")


async def _input(_script: ScriptState, request: Request) -> Json:
    """Multi round trip: ask once, then answer."""
    if "inputResponses" in request.params:
        return text("thanks", structuredContent={"got": request.params["inputResponses"]})
    return {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": {"message": "?"}}},
        "requestState": "opaque",
    }


async def _crash(_script: ScriptState, request: Request) -> Json:
    await request.wire.crash()
    raise Stop


async def _garbage(_script: ScriptState, request: Request) -> Json:
    await request.wire.send_bytes(b"this is { not json")
    return text("after garbage")


async def _only_garbage(_script: ScriptState, request: Request) -> Json:
    await request.wire.send_bytes(b'{"jsonrpc":"2.0","id":')
    raise Stop


async def _half(_script: ScriptState, request: Request) -> Json:
    """Begin to stream, then go away."""
    await request.wire.send(notification("notifications/message", {"level": "info", "data": 1}))
    await request.wire.crash()
    raise Stop


async def _twice(_script: ScriptState, request: Request) -> Json:
    answer: Json = {"jsonrpc": "2.0", "id": request.id, "result": text("first")}
    await request.wire.send(answer)
    await request.wire.send(answer)
    raise Stop


async def _big(_script: ScriptState, request: Request) -> Json:
    return text("x" * int(request.arguments.get("bytes", 1_000_000)))


async def _stranger(_script: ScriptState, request: Request) -> Json:
    await request.wire.send({"jsonrpc": "2.0", "id": 987654, "result": {}})
    return text("own answer")


async def _report(script: ScriptState, _request: Request) -> Json:
    """What has come so far: the methods, notifications, texts, what was cancelled or subscribed."""
    return text(
        "report",
        structuredContent={
            "methods": [message.get("method") for message in script.received],
            "said": [
                [message["method"], message.get("params")]
                for message in script.received
                if message.get("method", "").startswith(("resources/", "notifications/"))
            ],
            "texts": [
                message["params"]["arguments"]["text"]
                for message in script.received
                if "text" in (message.get("params") or {}).get("arguments", {})
            ],
            "cancelled": list(script.cancelled),
            "reasons": [
                message["params"].get("reason")
                for message in script.received
                if message.get("method") == "notifications/cancelled"
            ],
            "progress": [
                message["params"]
                for message in script.received
                if message.get("method") == "notifications/progress"
            ],
            "subscribed": sorted(script.subscribed),
            "started": script.started.is_set(),
            "roots": script.roots,
        },
    )


async def _free(script: ScriptState, _request: Request) -> Json:
    """Let the tool `wait` answer."""
    script.release.set()
    return text("freed")


async def _grow(script: ScriptState, request: Request) -> Json:
    """One more tool, and an announcement."""
    script.tools.append(definition(f"grown{len(script.tools)}"))
    await _news(request, "notifications/tools/list_changed", {})
    return text("grown")


async def _touch(_script: ScriptState, request: Request) -> Json:
    """Say that a resource has changed."""
    uri = request.arguments.get("uri", "mem://one")
    method = request.arguments.get("method", "notifications/resources/updated")
    await _news(request, method, {"uri": uri})
    return text("touched")


async def _news(request: Request, method: str, params: Json) -> None:
    """Say it to all, or `here`: where the answer goes."""
    if request.arguments.get("here"):
        await request.wire.send(notification(method, params))
    else:
        await request.wire.announce(method, params)


async def _end_listening(script: ScriptState, request: Request) -> Json:
    """End what listens as a cancellation is described, which is told alone."""
    last = next(m for m in reversed(script.received) if m["method"] == "subscriptions/listen")
    await request.wire.announce("notifications/cancelled", {"requestId": last["id"]})
    return text("ended")


async def _loose(_script: ScriptState, request: Request) -> Json:
    """Answer as the specification does not say, but SDKs take it; or, with `error`, with what they
    drop.
    """
    if "error" in request.arguments:
        failed = {"jsonrpc": "2.0", "id": request.id, "error": request.arguments["error"]}
        await request.wire.send(failed)
        raise Stop
    forms: dict[str, type] = {"text": str, "float": float}
    form = forms.get(request.arguments["form"], int)
    token = request.meta.get("progressToken")
    if token is not None:
        params = {"progressToken": form(token), "progress": 1}
        await request.wire.send(notification("notifications/progress", params))
    answer: Json = {"jsonrpc": "2.0", "id": form(request.id), "result": text("loose")}
    if form is int:
        answer["error"] = None
    await request.wire.send(answer)
    raise Stop


TOOLS: dict[str, Tool] = {
    "echo": _echo,
    "who": _who,
    "fail": _fail,
    "error": _error,
    "wait": _wait,
    "hang": _hang,
    "progress": _progress,
    "log": _log,
    "elicit": _elicit,
    "sample": _sample,
    "roots": _roots,
    "roots_later": _roots_later,
    "input": _input,
    "crash": _crash,
    "garbage": _garbage,
    "only_garbage": _only_garbage,
    "half": _half,
    "twice": _twice,
    "big": _big,
    "stranger": _stranger,
    "report": _report,
    "free": _free,
    "grow": _grow,
    "touch": _touch,
    "end_listening": _end_listening,
    "loose": _loose,
}
