"""A folder of skills, as an upstream that serves them (SEP-2640).

Owns: `SkillsLink`, which answers the protocol itself. Never imports a link of another transport.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from msgspec import Raw

from armory.errors import UpstreamTimeout
from armory.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from armory.protocol.link import Call, ClientChannel, Params, Reply, Sent
from armory.protocol.methods import DIRECTORY_READ, SKILLS_EXTENSION
from armory.protocol.rawjson import encode, text_of
from armory.protocol.versions import MODERN_VERSIONS
from armory.upstreams.session.base import BaseLink
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.skill_folder.folder import Found, SkillFolder
from armory.upstreams.skill_folder.tree import BadFolder

SKILLS = "skills/list"
_CACHE = {"ttlMs": 0, "cacheScope": "private"}
_T = TypeVar("_T")


class SkillsLink(BaseLink):
    """A folder. There is no session: the link dies with the folder alone.

    Args:
        context: as every link's.
        folder: whose skills it serves.
    """

    stateless = True

    def __init__(self, context: LinkContext, folder: SkillFolder) -> None:
        super().__init__(context)
        self._folder = folder
        self._closing = False
        self.adopt(
            Identity(
                "modern",
                MODERN_VERSIONS[-1],
                {"resources": {}, "extensions": {SKILLS_EXTENSION: {DIRECTORY_READ: True}}},
                {"name": context.spec.key, "version": ""},
            )
        )

    @classmethod
    async def opened(cls, context: LinkContext, folder: SkillFolder) -> SkillsLink:
        """A link to a folder that is there.

        Raises:
            UpstreamUnavailable: it is not, or holds too much.
            UpstreamTimeout: it could not be gone through in time.
        """
        link = cls(context, folder)
        await link._within(context.spec.connect_timeout_s, folder.found())
        return link

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the folder went."""
        return self._closing

    async def request(self, call: Call) -> Reply:
        """As `BaseLink.request`: lists and reads skills, and knows nothing else."""
        if self._closing:
            raise self.unavailable("the session is closed")
        if call.hop is not None:
            call.hop = self.hop()
            if call.sent is not None:
                call.sent = Sent(0)
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        if call.method == "resources/read":
            return await self._read(text_of(call.params, "uri") or "", timeout_s)
        if call.method == "resources/templates/list":
            return _reply({"resourceTemplates": [], **_CACHE})
        if call.method == "server/discover":
            return _reply({})
        answer = _ANSWERS.get(call.method)
        if answer is None:
            return _error(METHOD_NOT_FOUND, f"Method not found: {call.method}")
        found = await self._within(timeout_s, self._folder.found())
        if call.method == SKILLS:
            self.left_out = {SKILLS: tuple(found.left_out)}
        uri = text_of(call.params, "uri") or ""
        result = answer(found, uri)
        return _unknown(uri) if result is None else _reply(result)

    async def notify(self, method: str, params: Params) -> None:
        """A folder hears no notifications."""

    async def roots_changed(self, client: ClientChannel) -> None:
        """A folder has no use for roots."""

    async def close(self) -> None:
        """Nothing is open."""
        self._closing = True

    async def _read(self, uri: str, timeout_s: float) -> Reply:
        read = await self._within(timeout_s, self._folder.read(uri))
        if read is None:
            return _unknown(uri)
        data, mime_type = read
        content: dict[str, Any] = {"uri": uri, "mimeType": mime_type}
        try:
            content["text"] = data.decode()
        except UnicodeDecodeError:
            content["blob"] = base64.b64encode(data).decode()
        return _reply({"contents": [content], **_CACHE})

    async def _within(self, timeout_s: float, looking: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(timeout_s):
                return await looking
        except BadFolder as problem:
            reason = f"its folder {self.spec.skills} cannot be served: {problem}"
            if not self._closing:
                self._closing = True
                self.lost(reason)
            raise self.unavailable(reason) from None
        except TimeoutError:
            raise UpstreamTimeout(
                f"upstream {self.server!r}: its folder was not read within {timeout_s:g} s",
                upstream=self.server,
            ) from None


def _listed(found: Found, _uri: str) -> dict[str, Any]:
    return {"skills": list(found.skills.values()), **_CACHE}


def _got(found: Found, uri: str) -> dict[str, Any] | None:
    entry = found.skills.get(uri)
    return None if entry is None else {"skill": entry, **_CACHE}


def _children(found: Found, uri: str) -> dict[str, Any] | None:
    children = found.folders.get(uri)
    return None if children is None else {"resources": children}


def _resources(found: Found, _uri: str) -> dict[str, Any]:
    """What clients without the extension see: each SKILL.md."""
    listed = [
        {
            "uri": uri,
            "name": entry["frontmatter"]["name"],
            "description": entry["frontmatter"]["description"],
            "mimeType": "text/markdown",
        }
        for uri, entry in found.skills.items()
    ]
    return {"resources": listed, **_CACHE}


_ANSWERS = {
    SKILLS: _listed,
    "skills/get": _got,
    "resources/directory/read": _children,
    "resources/list": _resources,
}


def _reply(result: Mapping[str, Any]) -> Reply:
    return Reply(result=Raw(encode({"resultType": "complete", **result})), era="modern")


def _error(code: int, message: str) -> Reply:
    return Reply(error=Raw(encode({"code": code, "message": message})), era="modern")


def _unknown(uri: str) -> Reply:
    return _error(INVALID_PARAMS, f"No skill has {uri[:200]}")
