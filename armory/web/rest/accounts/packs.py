"""Packs and installations over REST.

Owns: the routes, and what is the caller's own. Never decides what is visible.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from armory.accounts.packs import DESCRIPTION_CHARS, Kind, Pack, Packs
from armory.errors import AccessDenied, InvalidRequest
from armory.web.rest.known import CallerCatalog, check_known
from armory.web.rest.problems import Problem, not_found
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape, Text
from armory.web.rest.shapes import PACK, Installations, Installed, LongPage, Name, Page, Paged

_ENTRIES = 1_000
_WORDS = re.compile(r"[a-z0-9]+")
_KINDS: tuple[Kind, ...] = ("pack", "server", "tool")
_TAG = "packs"
_CONTENTS = ("servers", "tools")
_TRACK = "Record that the user has installed a pack, a server or a tool"


class PackContents(Shape):
    """What a pack holds."""

    title: Name
    description: Annotated[Text, Field(max_length=DESCRIPTION_CHARS)] = ""
    servers: Annotated[list[Name], Field(max_length=_ENTRIES)] = Field(default=[])
    tools: Annotated[list[Name], Field(max_length=_ENTRIES)] = Field(
        default=[], description="Exposed names."
    )


class NewPack(PackContents):
    """A pack to make."""

    id: Annotated[str, Field(pattern=PACK)] | None = Field(
        default=None, description="Administrators choose it for shared packs; others get one."
    )
    shared: bool = Field(
        default=False,
        description="For everybody; administrators only. Left out where the credential belongs to "
        "no user, it is true.",
    )


class PackAnswer(Answer):
    """One pack."""

    id: str
    owner: str | None = Field(description="User whose pack it is; null: shared with everybody.")
    title: str
    description: str
    servers: list[str]
    tools: list[str]


class PackList(Paged):
    """Several packs."""

    packs: list[PackAnswer]


class InstallationChange(Shape):
    """Whether an installation counts."""

    is_active: bool


def routes() -> list[Route]:
    """The routes of packs and installations."""
    one = {"pack_id": "Id of the pack."}
    installed = {"kind": "pack, server or tool.", "value": "Its id, key or exposed name."}

    def route(method: str, path: str, *rest: object, **more: object) -> Route:
        return Route(method, path, *rest, tag=_TAG, access="user", accounts=True, **more)  # pyright: ignore

    item = "/v1/installations/{kind}/{value}"
    return [
        route("GET", "/v1/packs", list_packs, "Own and shared packs", PackList,
              params=LongPage),
        route("POST", "/v1/packs", create_pack, "Make a pack", PackAnswer, body=NewPack,
              status=201, problems=(409,)),
        route("GET", "/v1/packs/{pack_id}", get_pack, "One pack", PackAnswer, path_params=one),
        route("PUT", "/v1/packs/{pack_id}", replace_pack, "Give a pack other contents",
              PackAnswer, body=PackContents, path_params=one),
        route("DELETE", "/v1/packs/{pack_id}", delete_pack, "Delete a pack", None, status=204,
              path_params=one),
        route("GET", "/v1/installations", list_installations, "What the user has installed",
              Installations),
        route("PUT", item, set_active, "Enable or disable an installation", Installations,
              body=InstallationChange, path_params=installed),
        route("DELETE", item, uninstall, "Uninstall", None, status=204, path_params=installed),
        Route("POST", "/v2/track_installation", track_installation, _TRACK, Installations,
              body=Installed, access="user", accounts=True, problems=(422,)),
    ]  # fmt: skip


def _packs(call: RestCall) -> Packs:
    return call.services.accounts.packs


def _user_meant(call: RestCall) -> str | None:
    """The user whose packs are meant; None: the caller is an administrator and sees all."""
    return None if call.admin else call.user


async def list_packs(call: RestCall) -> Reply:
    """`GET /v1/packs`."""
    given: Page = call.params
    found = await _packs(call).list(
        user=_user_meant(call), after=given.after, limit=given.limit + 1
    )
    part, after = given.part(found)
    known = CallerCatalog(call)
    return Reply({"packs": [_shown(call, pack, known) for pack in part], "next": after})


async def create_pack(call: RestCall) -> Reply:
    """`POST /v1/packs`."""
    given: NewPack = call.body
    if (given.shared or given.id is not None) and not call.admin:
        raise AccessDenied("shared packs and chosen ids are for the scope `admin`")
    if call.principal.user is None and not given.shared and "shared" in given.model_fields_set:
        raise Problem(
            422,
            "invalid_request",
            "shared: the credential belongs to no user whose own pack it could be; say true",
            parameter="shared",
        )
    check_known(call, given.servers, given.tools, parameters=_CONTENTS)
    owner = None if given.shared or call.principal.user is None else call.user
    made = await _packs(call).create(
        Pack(
            given.id or _made_id(given.title),
            owner,
            given.title,
            given.description,
            tuple(given.servers),
            tuple(given.tools),
        ),
        make_user=call.makes_user,
    )
    return Reply(made, 201)


async def get_pack(call: RestCall) -> Reply:
    """`GET /v1/packs/{pack_id}`."""
    found = await _packs(call).get(call.path["pack_id"], user=_user_meant(call))
    if found is None:
        raise not_found("pack")
    return Reply(_shown(call, found, CallerCatalog(call)))


async def replace_pack(call: RestCall) -> Reply:
    """`PUT /v1/packs/{pack_id}`."""
    given: PackContents = call.body
    before = await _own(call)
    new = set(given.servers) - set(before.servers), set(given.tools) - set(before.tools)
    check_known(call, *new, parameters=_CONTENTS)
    changed = Pack(
        before.id,
        before.owner,
        given.title,
        given.description,
        tuple(given.servers),
        tuple(given.tools),
    )
    found = await _packs(call).replace(changed, user=_user_meant(call))
    if found is None:
        raise not_found("pack")
    return Reply(found)


async def delete_pack(call: RestCall) -> Reply:
    """`DELETE /v1/packs/{pack_id}`."""
    pack = await _own(call)
    if not await _packs(call).delete(pack.id, user=_user_meant(call)):
        raise not_found("pack")
    return Reply(None, 204)


async def track_installation(call: RestCall) -> Reply:
    """`POST /v2/track_installation`."""
    given: Installed = call.body
    items: list[tuple[Kind, str]] = []
    if given.pack_id is not None:
        items.append(("pack", given.pack_id))
    if given.server is not None:
        items.append(("server", given.server))
    if given.tool_name is not None:
        items.append(("tool", given.tool_name))
    if not items:
        raise InvalidRequest(
            "give at least one of tool_name, server and pack_id", parameter="tool_name"
        )
    servers = [value for kind, value in items if kind == "server"]
    tools = [value for kind, value in items if kind == "tool"]
    check_known(call, servers, tools, parameters=("server", "tool_name"))
    found = await _packs(call).install(call.user, items, make_user=call.makes_user)
    return Reply({"installations": found})


async def list_installations(call: RestCall) -> Reply:
    """`GET /v1/installations`."""
    return Reply({"installations": await _packs(call).installed(call.user)})


async def set_active(call: RestCall) -> Reply:
    """`PUT /v1/installations/{kind}/{value}`."""
    kind, value, active = _kind(call), call.path["value"], call.body.is_active
    if not await _packs(call).set_active(call.user, kind, value, active=active):
        raise not_found("installation")
    return Reply({"installations": await _packs(call).installed(call.user)})


async def uninstall(call: RestCall) -> Reply:
    """`DELETE /v1/installations/{kind}/{value}`."""
    if not await _packs(call).uninstall(call.user, _kind(call), call.path["value"]):
        raise not_found("installation")
    return Reply(None, 204)


async def _own(call: RestCall) -> Pack:
    """The pack in the path, if the caller may change it."""
    found = await _packs(call).get(call.path["pack_id"], user=_user_meant(call))
    if found is None:
        raise not_found("pack")
    if found.owner is None and not call.admin:
        raise AccessDenied("shared packs are changed by the scope `admin`")
    return found


def _shown(call: RestCall, pack: Pack, known: CallerCatalog) -> Pack:
    """A pack without the servers and tools that the caller may not know of."""
    if call.admin or pack.owner is not None:
        return pack
    servers, tools = filter(known.has_server, pack.servers), filter(known.has_tool, pack.tools)
    return replace(pack, servers=tuple(servers), tools=tuple(tools))


def _kind(call: RestCall) -> Literal["pack", "server", "tool"]:
    for kind in _KINDS:
        if call.path["kind"] == kind:
            return kind
    raise Problem(422, "invalid_request", "kind: expected pack, server or tool", parameter="kind")


def _made_id(title: str) -> str:
    """A readable id that cannot be guessed, so that nobody finds others' packs."""
    words = "-".join(_WORDS.findall(title.lower()))[:40].strip("-")
    return f"{words or 'pack'}-{secrets.token_hex(8)}"
