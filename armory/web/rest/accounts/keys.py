"""Keys and users over REST.

Owns: the routes, and what is the caller's own. A key's text is in one answer alone, ever.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from armory.domain.principal import Principal
from armory.errors import AccessDenied
from armory.web.rest.problems import not_found
from armory.web.rest.routes import Answer, Reply, RestCall, Route, Shape
from armory.web.rest.shapes import SCOPE, LongPage, Name, Page, Paged

_FAR_MS = 253_402_300_799_999  # the year 9999


class NewKey(Shape):
    """A key to make."""

    name: Name
    user: Name | None = Field(
        default=None, description="Whose key; administrators only, others make their own."
    )
    scopes: Annotated[list[Annotated[str, Field(pattern=SCOPE)]],
                      Field(max_length=50)] = Field(default=[])  # fmt: skip
    expires_at_ms: Annotated[int, Field(ge=0, le=_FAR_MS)] | None = Field(
        default=None, description="Milliseconds since 1970; null: never."
    )


class KeyAnswer(Answer):
    """What is known of a key."""

    id: str
    name: str
    user: str | None
    prefix: str
    scopes: list[str]
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None


class MadeKey(KeyAnswer):
    """A new key, with its text, which is shown this once."""

    key: str


class KeyList(Paged):
    """Several keys."""

    keys: list[KeyAnswer]


class NewUser(Shape):
    """A user to make."""

    id: Name
    plan: Name | None = None


class UserChange(Shape):
    """What to change of a user."""

    plan: Name | None = None
    is_active: bool | None = None


class UserAnswer(Answer):
    """One user."""

    id: str
    plan: str
    is_active: bool
    created_at_ms: int


class UserList(Paged):
    """Several users, by id."""

    users: list[UserAnswer]


def routes() -> list[Route]:
    """The routes of keys and users."""
    key, user = {"key_id": "Id of the key."}, {"user_id": "Id of the user."}

    def keys(method: str, path: str, *rest: object, **more: object) -> Route:
        return Route(method, path, *rest, tag="keys", access="user", **more)  # pyright: ignore

    def users(method: str, path: str, *rest: object, **more: object) -> Route:
        return Route(method, path, *rest, tag="users", access="admin", **more)  # pyright: ignore

    return [
        keys("GET", "/v1/keys", list_keys, "Own keys; all for administrators", KeyList,
             params=LongPage),
        keys("POST", "/v1/keys", create_key, "Make a key", MadeKey, body=NewKey, status=201),
        keys("DELETE", "/v1/keys/{key_id}", revoke_key, "Revoke a key", None, status=204,
             path_params=key),
        users("GET", "/v1/users", list_users, "Users by id", UserList, params=Page),
        users("POST", "/v1/users", create_user, "Make a user", UserAnswer, body=NewUser,
              status=201, problems=(409,)),
        users("GET", "/v1/users/{user_id}", get_user, "One user", UserAnswer, path_params=user),
        users("PATCH", "/v1/users/{user_id}", change_user, "Change plan or activity",
              UserAnswer, body=UserChange, path_params=user),
        users("DELETE", "/v1/users/{user_id}", delete_user,
              "Delete a user with keys, packs, installations and logins", None, status=204,
              path_params=user),
    ]  # fmt: skip


async def list_keys(call: RestCall) -> Reply:
    """`GET /v1/keys`."""
    given: Page = call.params
    store, user = call.services.accounts.keys, None if call.admin else call.user
    keys = await store.list(user, after=given.after, limit=given.limit + 1)
    part, after = given.part(keys)
    return Reply({"keys": [asdict(key) for key in part], "next": after})


async def create_key(call: RestCall) -> Reply:
    """`POST /v1/keys`."""
    given: NewKey = call.body
    user = given.user
    if not call.services.api_keys:
        raise AccessDenied("security.api_keys is off: no key would be accepted, so none is made")
    if call.principal.delegated:
        raise AccessDenied(
            "a key is for every endpoint and outlasts the login with which you let this program "
            "in for one; make it in the console after logging in there, or with `armory keys "
            "create`, an API key or a static token"
        )
    if not call.admin:
        if user is not None and user != call.user:
            raise AccessDenied("keys of others are made by the scope `admin`")
        if not set(given.scopes) <= call.principal.scopes:
            raise AccessDenied("a key cannot grant what its maker does not have")
        if _outlasts(call.principal, given.expires_at_ms):
            raise AccessDenied(
                "the key that you come with expires, and makes none that outlasts it; give an "
                "earlier expires_at_ms, or come with what you log in with"
            )
        user = call.user
        if call.makes_user:
            async with call.services.accounts.feed.transaction() as change:
                await call.services.accounts.users.ensure(change.connection, user)
    made, text = await call.services.accounts.keys.create(
        given.name, user=user, scopes=given.scopes, expires_at_ms=given.expires_at_ms
    )
    return Reply({**asdict(made), "key": text}, 201)


def _outlasts(maker: Principal, expires_at_ms: int | None) -> bool:
    """Whether a new key would outlive the key that creates it."""
    if maker.method != "api_key" or maker.expires_at is None:
        return False
    return expires_at_ms is None or expires_at_ms > round(maker.expires_at * 1_000)


async def revoke_key(call: RestCall) -> Reply:
    """`DELETE /v1/keys/{key_id}`."""
    whose = None if call.admin else call.user
    if not await call.services.accounts.keys.revoke(call.path["key_id"], user=whose):
        raise not_found("key")
    return Reply(None, 204)


async def list_users(call: RestCall) -> Reply:
    """`GET /v1/users`."""
    given: Page = call.params
    store = call.services.accounts.users
    found = await store.list(after=given.after, limit=given.limit + 1)
    part, after = given.part(found)
    return Reply({"users": part, "next": after})


async def create_user(call: RestCall) -> Reply:
    """`POST /v1/users`."""
    return Reply(await call.services.accounts.users.create(call.body.id, call.body.plan), 201)


async def get_user(call: RestCall) -> Reply:
    """`GET /v1/users/{user_id}`."""
    found = await call.services.accounts.users.get(call.path["user_id"])
    if found is None:
        raise not_found("user")
    return Reply(found)


async def change_user(call: RestCall) -> Reply:
    """`PATCH /v1/users/{user_id}`."""
    given: UserChange = call.body
    found = await call.services.accounts.users.change(
        call.path["user_id"], plan=given.plan, is_active=given.is_active
    )
    if found is None:
        raise not_found("user")
    return Reply(found)


async def delete_user(call: RestCall) -> Reply:
    """`DELETE /v1/users/{user_id}`."""
    if not await call.services.accounts.users.delete(call.path["user_id"]):
        raise not_found("user")
    return Reply(None, 204)
