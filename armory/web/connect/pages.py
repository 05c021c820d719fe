"""The pages' HTML, and the headers that keep them from being framed, cached or leaked.

Owns: how they look. Never decides anything; everything foreign is escaped.
"""

from __future__ import annotations

from html import escape

from aiohttp import web

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem;"
    "color:#222}h1{font-size:1.4rem}input{font:inherit;width:100%;box-sizing:border-box;"
    "padding:.4rem;margin:.3rem 0 1rem}button{font:inherit;padding:.4rem 1rem;"
    "margin:0 .5rem .5rem 0}"
    "code{background:#eee;padding:0 .2rem}.bad{color:#a00}"
)
_HEADERS = {
    "Cache-Control": "no-store",
    # a form's answer sends the browser on to the authorization server, wherever that is
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def page(title: str, body: str, status: int = 200) -> web.Response:
    """A page; `body` is HTML."""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1>{body}</html>"
    )
    return web.Response(text=text, status=status, content_type="text/html", headers=_HEADERS)


def said(title: str, text: str, status: int = 200) -> web.Response:
    """A page that says one thing."""
    return page(title, f"<p>{escape(text)}</p>", status)


def who_are_you(server: str, issuer: str | None, wrong: str = "") -> web.Response:
    """The page of a browser that is nobody yet."""
    body = f"<p>Before you connect your account at <b>{escape(server)}</b>: who are you here?</p>"
    if wrong:
        body += f'<p class="bad">{escape(wrong)}</p>'
    if issuer is not None:
        body += _form(f"Log in at {issuer}", "sign-in")
        body += "<p>Or, if your MCP client connects with a token or key of yours:</p>"
    body += (
        '<form method="post"><label>The token or API key that your MCP client connects with'
        '<input type="password" name="credential" autocomplete="off" required></label>'
        '<button name="action" value="identify">Continue</button></form>'
    )
    return page("Connect an account", body, 403 if wrong else 200)


def connect(server: str, name: str, *, connected: bool) -> web.Response:
    """The page of somebody who is known."""
    body = f"<p>You are <b>{escape(name)}</b>.</p>"
    if connected:
        body += f"<p>Your account at <b>{escape(server)}</b> is connected.</p>"
        body += _form("Connect another one", "connect") + _form("Disconnect", "disconnect")
    else:
        body += f"<p>Let this gateway use your account at <b>{escape(server)}</b> for you?</p>"
        body += _form("Connect", "connect")
    body += _form("I am somebody else", "leave")
    return page("Connect an account", body)


def _form(label: str, action: str) -> str:
    button = f'<button name="action" value="{action}">{escape(label)}</button>'
    return f'<form method="post">{button}</form>'
