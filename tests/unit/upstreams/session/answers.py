"""A link that answers lists from memory.

Owns: `Answers`, and `fetch` for all its lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Raw

from armory.domain.catalog import ServerLists
from armory.protocol.link import Call, Reply
from armory.protocol.versions import Era
from armory.upstreams.session.lists.server_lists import fetch_lists


class Answers:
    """A link, as far as listing needs one: answers by method, one per page."""

    server = "up"
    era: Era = "legacy"
    instructions = "do"
    mirrors_params = False
    left_out: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})
    server_info: Mapping[str, Any] = {"name": "n"}

    def __init__(self, capabilities: Mapping[str, Any], **answers: list[bytes | Exception]) -> None:
        self.capabilities = capabilities
        self.answers = {
            {"tools": "tools/list", "prompts": "prompts/list", "resources": "resources/list",
             "templates": "resources/templates/list", "skills": "skills/list",
             "groups": "groups/list", "group": "groups/get"}[kind]: pages
            for kind, pages in answers.items()
        }  # fmt: skip
        self.sent: list[tuple[str, Any]] = []

    async def request(self, call: Call) -> Reply:
        self.sent.append((call.method, call.params.get("cursor")))
        pages = self.answers.get(call.method, [b'{"error":-32601}'])
        page = pages.pop(0) if len(pages) > 1 else pages[0]
        if isinstance(page, Exception):
            raise page
        if page.startswith(b'{"error"'):
            return Reply(error=Raw(b'{"code":%s,"message":"no"}' % page[9:-1]))
        return Reply(result=Raw(page))


async def fetch(link: Answers, **more: Any) -> ServerLists:
    return await fetch_lists(link, **more)  # pyright: ignore[reportArgumentType]
