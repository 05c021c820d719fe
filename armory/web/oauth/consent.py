"""The consent page, and the cookie that remembers which clients a person has allowed.

Owns: how it looks, and the cookie of who was let in. Everything foreign is escaped.
"""

from __future__ import annotations

import hashlib
from html import escape

import msgspec
from aiohttp import web

from armory.authserver.clients import Client
from armory.authserver.redirects import shown
from armory.authserver.requests import Request
from armory.web.cookies import SealedCookies
from armory.web.pages import page

_REMEMBERED = "armory_allowed"
_REMEMBERED_S = 30 * 86_400
_MOST = 24


class _Allowed(msgspec.Struct, frozen=True):
    keys: tuple[str, ...] = ()


def _key(asked: Request) -> str:
    """What is remembered: this client with this redirect URI, for this endpoint."""
    text = "\0".join((asked.client, asked.redirect_uri, asked.resource))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def is_remembered(cookies: SealedCookies, request: web.Request, asked: Request) -> bool:
    """Whether the person in this browser has allowed the client before."""
    allowed = cookies.read(request, _REMEMBERED, _Allowed)
    return allowed is not None and _key(asked) in allowed.keys


def remember(
    cookies: SealedCookies, request: web.Request, response: web.Response, asked: Request
) -> None:
    """Record in the browser's cookie that the client was allowed."""
    before = cookies.read(request, _REMEMBERED, _Allowed) or _Allowed()
    keys = dict.fromkeys((*before.keys, _key(asked)))
    allowed = _Allowed(tuple(keys)[-_MOST:])
    cookies.write(request, response, _REMEMBERED, allowed, _REMEMBERED_S)


def consent_page(client: Client, asked: Request, issuer: str, sealed: str) -> web.Response:
    """The consent page.

    Args:
        client: who asks.
        asked: what for.
        issuer: where the person logs in next.
        sealed: the request, for the form.
    """
    if client.host:
        vouched = f"It is described at <b>{escape(client.host)}</b>."
    elif client.registered_itself:
        vouched = "It registered itself; nobody has checked its name."
    else:
        vouched = "Whoever runs this gateway registered it."
    body = (
        f"<p><b>{escape(client.name)}</b> wants to use this gateway as you.</p><p>{vouched}</p>"
        f"<p>After you log in at {escape(issuer)}, you are sent to "
        f"<b>{escape(shown(asked.redirect_uri))}</b>: <code>{escape(asked.redirect_uri)}</code></p>"
        f"<p>It may then use <code>{escape(asked.resource)}</code>, with everything that you may "
        "use there.</p><p>Go on only if you have just begun this in a program that you trust.</p>"
        f'<form method="post" action="consent"><input type="hidden" name="request" '
        f'value="{escape(sealed)}"><button name="action" value="allow">Allow</button>'
        '<button name="action" value="deny">Deny</button></form>'
    )
    return page("Let a client in?", body)
