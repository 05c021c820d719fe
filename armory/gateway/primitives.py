"""Prompts, resources, completions and tasks: find the one upstream and forward.

Owns: the straight lines of every forwarded method but tools/call. Never imports a transport.
"""

from __future__ import annotations

from msgspec import Raw

from armory.gateway.calls.forwarding import Forwarder, unknown_resource
from armory.gateway.context import RequestContext
from armory.gateway.results.completions import values_seen
from armory.gateway.tasks.ownership import TaskOwnership
from armory.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from armory.protocol.errors import RpcError, method_not_found
from armory.protocol.jsonrpc import code_of
from armory.protocol.link import Reply
from armory.protocol.rawjson import members_or_none, need_text, pack, text_of
from armory.protocol.spelling import refuse_other_case

_NO_VALUES = Raw(b'{"completion":{"values":[]}}')


class Primitives:
    """Forwards requests about one prompt, resource or task.

    Args:
        forwarder: sends requests to them.
        tasks: whose tasks are.
    """

    def __init__(self, forwarder: Forwarder, tasks: TaskOwnership) -> None:
        self._forwarder = forwarder
        self._tasks = tasks

    async def get_prompt(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `prompts/get`.

        Raises:
            UnknownTool: no such prompt for this caller.
            UpstreamUnavailable: its upstream cannot answer.
        """
        name = need_text(params, "name")
        record = context.view.prompt(context, name)
        if record is None:
            raise await self._forwarder.missing(context, "prompt", name)
        original = record.original_name
        sent = {**params, "name": pack(original)}
        return await self._forwarder.send(
            context, record.server, "prompts/get", sent, original, safe_to_retry=True
        )

    async def read_resource(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `resources/read`.

        Raises:
            RpcError: no such resource for this caller, or its upstream has none at all.
            UpstreamUnavailable: its upstream cannot answer.
        """
        given = need_text(params, "uri")
        server, uri = await self._forwarder.located(context, given)
        sent = {**params, "uri": pack(uri)}
        reply = await self._forwarder.send(
            context, server, "resources/read", sent, uri, safe_to_retry=True
        )
        if _does_not_know(context, reply):
            raise unknown_resource(context, given)
        return reply

    async def complete(self, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `completion/complete`: the reference names the prompt or template. References of
        an unknown kind are forwarded at an upstream's own endpoint.

        Raises:
            RpcError: no reference that means anything here.
            UnknownTool: no such prompt for this caller.
            UpstreamUnavailable: its upstream cannot answer.
        """
        ref = members_or_none(params.get("ref"))
        if ref is None:
            raise RpcError(
                INVALID_PARAMS,
                "params.ref is missing or not an object",
                {"parameter": "params.ref"},
            )
        for part in ("ref", "argument", "context"):
            refuse_other_case(members_or_none(params.get(part)) or {}, f"params.{part}")
        kind = text_of(ref, "type")
        if kind == "ref/prompt":
            name = need_text(ref, "name", "params.ref")
            record = context.view.prompt(context, name)
            if record is None:
                raise await self._forwarder.missing(context, "prompt", name)
            server = record.server
            ref["name"] = pack(record.original_name)
        elif kind == "ref/resource":
            server, uri = await self._forwarder.located(
                context, need_text(ref, "uri", "params.ref")
            )
            sent = {**_told_once(params), "ref": pack({**ref, "uri": pack(uri)})}
            reply = await self._forwarder.send(
                context, server, "completion/complete", sent, safe_to_retry=True
            )
            return await values_seen(context, server, uri, params, _completed(context, reply))
        elif context.endpoint.transparent and context.view.servers.sees_whole(context):
            return await self.pass_on("completion/complete", context, params)
        else:
            raise RpcError(
                INVALID_PARAMS,
                f"params.ref.type is {kind!r}; expected ref/prompt or ref/resource",
                {"parameter": "params.ref.type"},
            )
        sent = {**params, "ref": pack(ref)}
        reply = await self._forwarder.send(
            context, server, "completion/complete", sent, safe_to_retry=True
        )
        return _completed(context, reply)

    async def task(self, method: str, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Answer `tasks/get`, `tasks/update`, `tasks/result` or `tasks/cancel`.

        Raises:
            RpcError: no such task for this caller.
            UpstreamUnavailable: its upstream cannot answer.
        """
        server, original = await self._tasks.resolved(context, params)
        sent = {**params, "taskId": pack(original)}
        return await self._forwarder.send(context, server, method, sent, original)

    async def unknown(self, method: str, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Forward a method that the gateway does not know, as `pass_on`. Since its effects are
        unknown, only for callers from whom policy hides nothing of the server. From answers to
        `tasks/list`, other callers' tasks are removed.

        Raises:
            RpcError: it does (-32601); as of `pass_on`.
            UpstreamUnavailable: the upstream cannot answer.
        """
        if method != "tasks/list" and not context.view.servers.sees_whole(context):
            raise method_not_found(method)
        return await self.pass_on(method, context, params)

    async def pass_on(self, method: str, context: RequestContext, params: dict[str, Raw]) -> Reply:
        """Forward a method that only an upstream can answer, on the transparent endpoint only. The
        caller of this function filters the answer.

        Raises:
            RpcError: this is not the transparent endpoint, or its server is not for this caller
                (-32601); no such task for this caller.
            UpstreamUnavailable: the upstream cannot answer.
        """
        endpoint, view = context.endpoint, context.view
        if not endpoint.transparent or not view.servers.may_use(
            context.principal, endpoint, endpoint.name
        ):
            raise method_not_found(method)
        about_tasks = method.startswith("tasks/")
        of_one = about_tasks and "taskId" in params
        if of_one:
            await self._tasks.resolved(context, params)
        reply = await self._forwarder.send(context, endpoint.name, method, params)
        return await self._tasks.own_only(context, reply) if about_tasks and not of_one else reply


def _does_not_know(context: RequestContext, reply: Reply) -> bool:
    """Whether an upstream does not know a method that the gateway advertises for other
    upstreams.
    """
    return (
        reply.error is not None
        and not context.endpoint.transparent
        and code_of(reply.error) == METHOD_NOT_FOUND
    )


def _told_once(params: dict[str, Raw]) -> dict[str, Raw]:
    """The parameters of a completion without names that come twice: values are judged by the last
    of them, and some servers read the first.
    """
    passed = dict(params)
    for part in ("argument", "context"):
        opened = members_or_none(params.get(part))
        if opened is None:
            continue
        given = members_or_none(opened.get("arguments"))
        passed[part] = pack(opened if given is None else {**opened, "arguments": pack(given)})
    return passed


def _completed(context: RequestContext, reply: Reply) -> Reply:
    """An answer to `completion/complete`; of an upstream without completions: no values. From an
    unknown-method error a client would conclude that nothing can be completed.
    """
    return Reply(_NO_VALUES, era="legacy") if _does_not_know(context, reply) else reply
