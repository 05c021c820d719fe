"""The frame and the security headers that all HTML pages for people share.

Owns: how pages look. Everything foreign is escaped by whoever writes a page's body.
"""

from __future__ import annotations

from html import escape

from aiohttp import web

_STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:4rem auto;padding:0 1rem;"
    "overflow-wrap:anywhere;background:Canvas;color:CanvasText}h1{font-size:1.4rem}"
    "input{font:inherit;width:100%;box-sizing:border-box;padding:.4rem;"
    "margin:.3rem 0 1rem}button{font:inherit;padding:.4rem 1rem;margin:0 .5rem .5rem 0}"
    "code{background:#8883;padding:0 .2rem}.bad{color:#a00;color:light-dark(#a00,#ff9d95)}"
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
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style>"
        f"<main><h1>{escape(title)}</h1>{body}</main></html>"
    )
    return web.Response(text=text, status=status, content_type="text/html", headers=_HEADERS)


def message_page(title: str, text: str, status: int = 200) -> web.Response:
    """A page with one message."""
    return page(title, f"<p>{escape(text)}</p>", status)
