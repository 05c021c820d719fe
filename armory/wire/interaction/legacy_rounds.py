"""Answers a modern upstream's `input_required` by asking a legacy client during its call.

Owns: the rounds of one such call: each asks the client and sends the upstream its answers. Never
imports a transport.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping

from msgspec import Raw

from armory.gateway.context import RequestContext
from armory.protocol import codes, jsonrpc
from armory.protocol.link import Answer, ClientChannel, ClientGone, Params, Reply
from armory.protocol.rawjson import EMPTY_OBJECT, members_or_none, pack, text_of
from armory.tasks import start
from armory.wire.eras.questions import asks_url, may_ask

MAX_ROUNDS = 10
MOST = 64
"""Questions of one round, as of a session whose upstream asks by itself."""
STATE = "requestState"
RESPONSES = "inputResponses"
_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 0.25
Invoke = Callable[[dict[str, Raw]], Awaitable[Reply]]


def asks_for_input(reply: Reply) -> bool:
    """Whether a reply is a modern `input_required`."""
    if reply.result is None or b'"input_required"' not in reply.outline:
        return False
    result = members_or_none(reply.result)
    return result is not None and text_of(result, "resultType") == "input_required"


async def answer_rounds(
    context: RequestContext, params: dict[str, Raw], invoke: Invoke, reply: Reply
) -> Reply:
    """Ask the client until the upstream gives a final reply.

    Args:
        context: the client's request.
        params: of the call, as the client sent them.
        invoke: sends the upstream the call with other parameters.
        reply: the first that asks for input.
    """
    pause_s = _FIRST_PAUSE_S
    for _ in range(MAX_ROUNDS):
        wanted = members_or_none(reply.result) or {}
        retry = {k: v for k, v in params.items() if k not in (STATE, RESPONSES)}
        requests = members_or_none(wanted.get("inputRequests"))
        if requests:
            answers = await _ask_all(context, requests)
            if isinstance(answers, Reply):
                return answers
            retry[RESPONSES] = pack(answers)
            pause_s = _FIRST_PAUSE_S
        else:
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
        if STATE in wanted:
            retry[STATE] = wanted[STATE]
        reply = await invoke(retry)
        if not asks_for_input(reply):
            return reply
    message = f"the upstream asked for input more than {MAX_ROUNDS} times in one call"
    return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))


async def _ask_all(context: RequestContext, requests: Mapping[str, Raw]) -> dict[str, Raw] | Reply:
    """Put all input requests to the client; a refusal ends the call."""
    if len(requests) > MOST:
        message = f"the upstream asked for {len(requests)} inputs at once; {MOST} are the most"
        return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))
    questions: list[tuple[str, str, Params]] = []
    for key, raw in requests.items():
        request = members_or_none(raw) or {}
        method = text_of(request, "method") or ""
        params = _legacy_form(method, members_or_none(request.get("params")) or {})
        client = context.client
        if not may_ask(method, params, client.capabilities, "legacy", context.version):
            message = f"the upstream asked for {method[:100]}, which this client cannot answer"
            return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))
        questions.append((key, method, params))
    try:
        answers = await _gather(context.client, questions)
    except ClientGone as gone:
        message = f"the client could not be asked: {gone}"
        return Reply(error=jsonrpc.error(codes.INTERNAL_ERROR, message))
    results: dict[str, Raw] = {}
    for (key, _, _), answer in zip(questions, answers, strict=True):
        if answer.error is not None:
            return Reply(error=answer.error, era="legacy")
        results[key] = answer.result if answer.result is not None else EMPTY_OBJECT
    return results


async def _gather(client: ClientChannel, questions: list[tuple[str, str, Params]]) -> list[Answer]:
    tasks = [start(client.ask(method, params), method) for _, method, params in questions]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _legacy_form(method: str, params: Params) -> Params:
    """A modern upstream's question in legacy form."""
    if method == "elicitation/create" and asks_url(params):
        params.setdefault("elicitationId", pack(secrets.token_urlsafe(12)))
    return params
