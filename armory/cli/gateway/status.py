"""`armory status`: what runs, what is down and why.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from armory.cli.gateway.running import Gateway, gateways
from armory.cli.options import json_option, running_options
from armory.cli.output import counted, out, print_json, say_error, say_notice
from armory.cli.plain import plain
from armory.errors import ArmoryError, AuthenticationFailed

_NAMED = 5
_STATES = {"ready": "green", "connecting": "yellow", "login_required": "yellow", "down": "red"}


@click.command()
@running_options
@json_option
def status(url: str | None, token: str | None, as_json: bool) -> None:
    """What runs, what is down, and why.

    Asks the gateways that run on this machine, or the one at --url, which shows details to tokens
    with the scope `admin`. Exits with 1 if a gateway is not ready, or refuses the token. In a pipe,
    each upstream is one line of tab-separated fields: gateway, name, state, tools and reason;
    whatever else is not ready is a line without a name.
    """
    found = [(gateway, gateway.get("/readyz", also=(503,))) for gateway in gateways(url, token)]
    if as_json:
        shown = [
            {"url": gateway.url, "pid": gateway.pid or None, **body} for gateway, body in found
        ]
        print_json({"gateways": shown})
    else:
        for gateway, body in found:
            if out().is_terminal:
                show(gateway, body)
            else:
                _list(gateway, body)
    refused = [_refuses(gateway, body) for gateway, body in found if "upstreams" not in body]
    if any(refused) or any(body.get("status") != "ready" for _, body in found):
        sys.exit(1)


def _refuses(gateway: Gateway, body: dict[str, Any]) -> bool:
    """Say why there are no details; whether it is because the token is none of the gateway's."""
    why = "what is not ready is told to tokens with the scope `admin`: --token"
    if gateway.token and body.get("status") == "ready":  # one that starts answers nothing else yet
        try:
            me = gateway.get("/v1/me")
        except AuthenticationFailed as error:
            say_error(error.message)
            return True
        except ArmoryError:  # the port of the metrics has health alone
            pass
        else:
            has = ", ".join(me.get("scopes", [])) or "none"
            why = f"details are for tokens with the scope `admin`; this one has {has}"
    say_notice(f"{gateway.url}: {why}")
    return False


def _reason(upstream: dict[str, Any]) -> str:
    reason = upstream.get("error") or upstream.get("awaited") or _left_out(upstream)
    return " ".join(str(reason).split())


def _left_out(upstream: dict[str, Any]) -> str:
    named = [f"{one['entry']}: {one['reason']}" for one in upstream.get("left_out", ())]
    more = upstream.get("dropped", 0) - len(named[:_NAMED])
    rest = f"; and {more:,} more" if more else ""
    return f"left out: {'; '.join(named[:_NAMED])}{rest}" if named else ""


def session_words(upstream: dict[str, Any]) -> str:
    """Whose its sessions are, in the words of docs/sessions.md; "" where nobody has one."""
    if not upstream.get("sessions") or "own_sessions" not in upstream:
        return ""
    if upstream.get("state", "ready") != "ready":
        return ""  # its one session is the one that could not be opened
    if upstream.get("stateless"):
        return "keeps nothing between requests: nothing to share"
    parts: list[str] = []
    if shared := upstream["shared_sessions"]:
        of = upstream["principals"]
        whose = f"clients of {counted(of, 'principal')}" if of else "all principals"
        parts.append(f"{shared} shared by {whose}")
    if own := upstream["own_sessions"]:
        parts.append(f"{counted(own, 'client')} with {'its' if own == 1 else 'their'} own")
    if len(parts) == 0 or upstream["sessions"] > upstream["shared_sessions"] + own:
        parts.insert(0, "the gateway's own")
    most = upstream["max_sessions"]
    return f"{upstream['sessions']} of {most} sessions: {', '.join(parts)}"


def _list(gateway: Gateway, body: dict[str, Any]) -> None:
    upstreams: dict[str, dict[str, Any]] = body.get("upstreams", {})
    rows = [
        (name, upstream["state"], str(upstream["tools"]), _reason(upstream))
        for name, upstream in upstreams.items()
    ]
    status = body.get("status", "")
    rows += [("", status, "", " ".join(text.split())) for text in _own(body)]
    for row in rows or [("", status, "", "")]:
        sys.stdout.write(plain("\t".join((gateway.url, *row))) + "\n")


def _own(body: dict[str, Any]) -> list[str]:
    """What is not ready, or works less well, of the gateway itself."""
    return [text for text in body.get("not_ready", []) if not text.startswith("upstream ")]


def _state(upstream: dict[str, Any]) -> Text:
    state = str(upstream["state"])
    line = Text().append(f"{state.replace('_', ' '):14}", style=_STATES.get(state, ""))
    line.append(counted(upstream["tools"], "tool", width=5) if state == "ready" else "")
    return line.append(
        f", {counted(skills, 'skill')}" if (skills := upstream.get("skills")) else ""
    )


def show(gateway: Gateway, body: dict[str, Any]) -> None:
    """Print what a gateway says of itself, for people."""
    console = out()
    upstreams: dict[str, dict[str, Any]] = body.get("upstreams", {})
    ready = sum(upstream["state"] == "ready" for upstream in upstreams.values())
    where = f"{gateway.url} (process {gateway.pid})" if gateway.pid else gateway.url
    line = f"{where}: {body.get('status', 'unknown')}"
    if "upstreams" in body:
        line += f", {ready} of {counted(len(upstreams), 'upstream')}"
        line += f", {counted(body.get('tools', 0), 'tool')}"
    console.print(Text(line), soft_wrap=True)
    states = {name: _state(upstream) for name, upstream in upstreams.items()}
    room = console.width - 4 - max(map(len, states.values()), default=0)
    width = max(1, min(room, max(map(len, upstreams), default=0)))
    for name, upstream in upstreams.items():
        fits = len(name) <= width
        if not fits:
            console.print(Text(f"  {name}"), soft_wrap=True)
        row = Text(f"  {name if fits else '':{width}}  ").append_text(states[name])
        console.print(row, soft_wrap=True)
        if told := session_words(upstream):
            console.print(Padding(Text(told, style="dim"), (0, 0, 0, 4)))
        if reason := _reason(upstream):
            console.print(Padding(Text(reason), (0, 0, 0, 4)))
    for text in _own(body):
        console.print(Padding(Text(text), (0, 0, 0, 2)))
