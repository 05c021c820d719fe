"""The HTML of the pages on which people connect accounts.

Owns: how they look. Never decides anything; everything foreign is escaped.
"""

from __future__ import annotations

from html import escape

from aiohttp import web

from armory.web.pages import page


def who_are_you(server: str, issuer: str | None, wrong: str) -> web.Response:
    """The page for a browser that has not identified anyone."""
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
    """The page for a person who is known."""
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
