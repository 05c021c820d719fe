"""A folder of skills, as an upstream that serves them (SEP-2640).

Owns: `SkillsLink`, which answers the protocol itself. Never imports the other local links.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable
from typing import Any, TypeVar

from armory.errors import UpstreamTimeout
from armory.protocol.capabilities import DIRECTORY_READ, SKILLS_EXTENSION
from armory.protocol.codes import INVALID_PARAMS, METHOD_NOT_FOUND
from armory.protocol.link import Call, Reply
from armory.protocol.rawjson import text_of
from armory.protocol.versions import MODERN_VERSIONS
from armory.upstreams.local.link import LocalLink, error_reply, result_reply
from armory.upstreams.session.context import Identity, LinkContext
from armory.upstreams.skill_folder.folder import FolderContents, SkillFolder
from armory.upstreams.skill_folder.tree import BadFolder

SKILLS = "skills/list"
_CACHE = {"ttlMs": 0, "cacheScope": "private"}
_T = TypeVar("_T")


class SkillsLink(LocalLink):
    """A folder. There is no session: the link is dead only when the folder is gone.

    Args:
        context: as every link's.
        folder: whose skills it serves.
    """

    def __init__(self, context: LinkContext, folder: SkillFolder) -> None:
        identity = Identity(
            "modern",
            MODERN_VERSIONS[-1],
            {"resources": {}, "extensions": {SKILLS_EXTENSION: {DIRECTORY_READ: True}}},
            {"name": context.spec.key, "version": ""},
        )
        super().__init__(context, identity)
        self._folder = folder

    @classmethod
    async def opened(cls, context: LinkContext, folder: SkillFolder) -> SkillsLink:
        """A link to a folder that is there.

        Raises:
            UpstreamUnavailable: it is not, or holds too much.
            UpstreamTimeout: it could not be gone through in time.
        """
        link = cls(context, folder)
        await link._within(context.spec.connect_timeout_s, folder.contents())
        return link

    async def request(self, call: Call) -> Reply:
        """As `BaseLink.request`; lists and reads skills, refuses other methods."""
        if self._closing:
            raise self.unavailable("the session is closed")
        self.note_sent(call)
        timeout_s = self.spec.call_timeout_s if call.timeout_s is None else call.timeout_s
        if call.method == "resources/read":
            return await self._read(text_of(call.params, "uri") or "", timeout_s)
        if call.method == "resources/templates/list":
            return result_reply({"resourceTemplates": [], **_CACHE})
        if call.method == "server/discover":
            return result_reply({})
        answer = _ANSWERS.get(call.method)
        if answer is None:
            return error_reply(METHOD_NOT_FOUND, f"Method not found: {call.method}")
        found = await self._within(timeout_s, self._folder.contents())
        if call.method == SKILLS:
            self.left_out = {SKILLS: tuple(found.left_out)}
        uri = text_of(call.params, "uri") or ""
        result = answer(found, uri)
        return _unknown(uri) if result is None else result_reply(result)

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
        return result_reply({"contents": [content], **_CACHE})

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


def _listed(found: FolderContents, _uri: str) -> dict[str, Any]:
    return {"skills": list(found.skills.values()), **_CACHE}


def _got(found: FolderContents, uri: str) -> dict[str, Any] | None:
    entry = found.skills.get(uri)
    return None if entry is None else {"skill": entry, **_CACHE}


def _children(found: FolderContents, uri: str) -> dict[str, Any] | None:
    children = found.folders.get(uri)
    return None if children is None else {"resources": children}


def _resources(found: FolderContents, _uri: str) -> dict[str, Any]:
    """What clients without the skills extension see: each SKILL.md as a resource."""
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


def _unknown(uri: str) -> Reply:
    return error_reply(INVALID_PARAMS, f"No skill has {uri[:200]}")
