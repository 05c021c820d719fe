"""Checks of each upstream: found, starts, how fast, which protocol, login, certificate.

Owns: those checks, one after the other until one says why it cannot work. Calls no tool.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from armory.authorities import refused
from armory.domain.catalog import ServerLists
from armory.errors import ArmoryError, LoginNeeded, UpstreamTimeout
from armory.http1.connecting import addresses_of, connected, reason
from armory.http1.proxied import PROXY
from armory.observability.redaction import redacted
from armory.runtime.doctor.findings import Finding, failed, ok, warning
from armory.upstreams.oauth.client import NoToken
from armory.upstreams.oauth.grants import AuthorizationCode
from armory.upstreams.pool import Pool
from armory.upstreams.session.lists.pages import BadList
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_failures import LoginRequired
from armory.upstreams.transports.programs import Unusable, program_of

_CONNECT_S = 10.0
_SLOW_S = 30.0
_EXPIRES_S = 14 * 86_400
_AT_ONCE = 4


async def upstreams(
    specs: Sequence[UpstreamSpec],
    within_s: float,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Check all upstreams, a few at a time.

    Args:
        specs: the upstreams.
        within_s: so long one may take to start and list its tools.
        on_progress: called with how many have been examined, and of how many; first with 0.
    """
    turns = asyncio.Semaphore(_AT_ONCE)
    done = 0

    async def one(spec: UpstreamSpec) -> Finding:
        nonlocal done
        async with turns:
            finding = await upstream(spec, within_s)
        done += 1
        if on_progress is not None:
            on_progress(done, len(specs))
        return finding

    if on_progress is not None:
        on_progress(0, len(specs))
    return list(await asyncio.gather(*map(one, specs)))


async def upstream(spec: UpstreamSpec, within_s: float) -> Finding:
    """Check one upstream; the first failure is the finding."""
    if spec.is_stdio:
        early = _process(spec)
    elif spec.skills is not None:
        early = _folder(spec, spec.skills)
    else:
        early = await _address(spec, _place(spec))
    if early is not None and early.state == "failed":
        return early
    return await _answers(spec, within_s, early)


def _process(spec: UpstreamSpec) -> Finding | None:
    check, command = f"upstream {spec.key}", spec.command or ""
    if spec.cwd is not None and not Path(spec.cwd).is_dir():
        return failed(
            check, f"its folder {spec.cwd} is not there", f"correct upstreams.{spec.key}.cwd"
        )
    try:
        program_of(command, spec.env.get("PATH"), spec.cwd)
    except Unusable as error:
        return failed(check, error.why, f"{error.fix}: upstreams.{spec.key}.command")
    return None


def _folder(spec: UpstreamSpec, path: str) -> Finding | None:
    if Path(path).is_dir():
        return None
    check, fix = f"upstream {spec.key}", f"correct upstreams.{spec.key}.skills"
    return failed(check, f"its folder {path} is not there", fix)


def _place(spec: UpstreamSpec) -> str:
    """The URL that is requested first."""
    return getattr(spec, _place_key(spec)) or ""


def _place_key(spec: UpstreamSpec) -> str:
    """The configuration key of that URL."""
    if spec.openapi is None:
        return "url"
    return "openapi" if spec.base_url is None else "base_url"


async def _address(spec: UpstreamSpec, url: str) -> Finding | None:
    """Check name, port and certificate of an upstream that is reached without a proxy."""
    check, key = f"upstream {spec.key}", f"upstreams.{spec.key}"
    setting = f"{key}.{_place_key(spec)}"
    parts = urlsplit(url)
    host = parts.hostname or ""
    if spec.proxy is not None or "://" not in url:
        return None
    try:
        context = _context(spec, parts)
    except FileNotFoundError:
        return failed(check, f"{spec.ca_file} is not there", f"correct {key}.tls.ca_file")
    except (ssl.SSLError, OSError) as error:
        fix = f"give PEM certificates as {key}.tls.ca_file"
        return failed(check, f"{spec.ca_file} holds no certificate: {error}", fix)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, writer = await asyncio.open_connection(
                sock=await connected(await addresses_of(host, port)),
                ssl=context,
                server_hostname=host if context else None,
            )
    except socket.gaierror:
        fix = f"correct the host in {setting}, or this machine's DNS"
        return failed(check, f"the name {host!r} cannot be resolved", fix)
    except ssl.SSLCertVerificationError as error:
        why = refused(error)
        return failed(check, f"its certificate is refused: {why}", _tls_fix(why, key, setting))
    except ssl.SSLError as error:
        fix = f"https is spoken to it; is {setting} perhaps http://?"
        return failed(check, f"it speaks no TLS: {error.reason or error}", fix)
    except TimeoutError:
        fix = (
            "a firewall drops what is sent there, or the port is wrong; a proxy: upstreams.*.proxy"
        )
        return failed(check, f"{host}:{port} does not answer within {_CONNECT_S:g} s", fix)
    except OSError as error:
        fix = f"start the server, or correct {setting}"
        return failed(check, f"{host}:{port} cannot be reached: {reason(error)}", fix)
    certificate = writer.get_extra_info("peercert") or {}
    writer.close()
    return _expiry(check, str(certificate.get("notAfter", "")))


def _context(spec: UpstreamSpec, parts: SplitResult) -> ssl.SSLContext | None:
    if parts.scheme != "https":
        return None
    context = ssl.create_default_context()
    if spec.ca_file is not None:
        context.load_verify_locations(spec.ca_file)
    if not spec.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _tls_fix(why: str, key: str, place: str) -> str:
    said = why.lower()
    if "expired" in said or "not yet valid" in said:
        return "renew the certificate at the server; is this machine's clock right?"
    if "hostname" in said or "ip address" in said:
        return f"use the name in the certificate in {place}"
    fix = f"give the authority that signed it as {key}.tls.ca_file"
    if _trusts_nobody():
        return (
            "this Python knows no authorities: install them (Debian: ca-certificates; with Python "
            "of python.org on a Mac: run its 'Install Certificates.command'), or name their file "
            f"in $SSL_CERT_FILE; of an authority of your own: {fix}"
        )
    return f"{fix}; for whatever is reached, add it to the file of $SSL_CERT_FILE"


def _trusts_nobody() -> bool:
    found = ssl.get_default_verify_paths()  # without what is not there
    return not found.cafile and not (found.capath and os.listdir(found.capath))


def _expiry(check: str, until: str) -> Finding | None:
    if not until:
        return None
    left_s = ssl.cert_time_to_seconds(until) - time.time()
    if left_s > _EXPIRES_S:
        return None
    return warning(check, f"its certificate ends on {until}", "renew it at the server")


async def _answers(spec: UpstreamSpec, within_s: float, early: Finding | None) -> Finding:
    """Connect as the gateway does, and list."""
    check, began = f"upstream {spec.key}", time.perf_counter()
    pool = Pool([spec])
    try:
        async with asyncio.timeout(within_s):
            found = pool.upstream(spec.key)
            link = await found.own_link()
            connected_s = time.perf_counter() - began
            lists = await found.lists.over(link)
    except TimeoutError:
        starting = pool.upstream(spec.key).connector.starting
        message = starting.status_text if starting is not None else "it does not answer"
        fix = f"`armory logs {spec.key}` shows what it writes; --timeout S waits longer"
        return failed(check, f"after {within_s:g} s: {redacted(message)}", fix)
    except LoginNeeded:
        if early is not None:
            return early
        return ok(check, "callers use accounts of their own; the gateway itself has none there")
    except ArmoryError as error:
        return _refused(spec, error)
    finally:
        await pool.close()
    speaks = f"{link.era}, revision {link.protocol_version}"
    if spec.skills is not None:
        return _skills(check, lists)
    detail = f"{_counted(lists.tools, 'tool')}, {speaks}, connected in {connected_s:.1f} s"
    if early is not None:
        return warning(check, f"{early.detail}; {detail}", early.fix)
    if not lists.tools:
        return warning(
            check, detail, "it lists no tool: does it need a login, a scope or an argument?"
        )
    if connected_s > _SLOW_S:
        return warning(check, detail, "install it beforehand, so that a restart need not")
    return ok(check, detail)


def _skills(check: str, lists: ServerLists) -> Finding:
    served = _counted(lists.skills, "skill")
    if lists.dropped:
        first = lists.dropped[0]
        detail = f"{served}; {lists.dropped_count} left out, {first.entry}: {first.reason}"
        return warning(check, detail, "correct it; `armory status` names each")
    if not lists.skills:
        return warning(check, served, "put folders with a SKILL.md there")
    return ok(check, served)


def _counted(some: Sized, noun: str) -> str:
    return f"{len(some)} {noun}{'' if len(some) == 1 else 's'}"


def _login(spec: UpstreamSpec) -> str:
    """How to give a credential to an upstream that refused the request."""
    key, command = f"upstreams.{spec.key}", f"`armory login {spec.key}`"
    if isinstance(spec.auth, AuthorizationCode):
        return command
    if spec.auth is not None:
        return f"correct {key}.auth"
    return (
        f"give {key}.headers a token that it accepts; or, where a person has to log in, set "
        f"{key}.auth: {{type: authorization_code}} and run {command}"
    )


def _by_hand(message: str) -> str:
    if "; it said: " in message:
        return "run its command by hand; what it wrote last stands in the cause"
    return (
        "run its command by hand: is it a server for standard input and output, and are all its "
        "arguments there?"
    )


def _refused(spec: UpstreamSpec, error: ArmoryError) -> Finding:
    check, key = f"upstream {spec.key}", f"upstreams.{spec.key}"
    message = error.message.removeprefix(f"upstream {spec.key!r}").lstrip(": ")
    if isinstance(error, LoginRequired):
        message = f"wants a login: it answered {error.answered}"
    if isinstance(error, LoginRequired | NoToken):
        fix = _login(spec)
    elif isinstance(error, UpstreamTimeout):
        fix = f"it hangs; raise {key}.connect_timeout_s if it is only slow"
    elif why := refused(error.__cause__):
        fix = _tls_fix(why, key, f"{key}.{_place_key(spec)}")
    elif PROXY in message:
        fix = (
            f"correct {key}.proxy (with user and password where it wants them), or have it let "
            "this host through"
        )
    elif isinstance(error, BadList) and spec.openapi is None:
        fix = "it runs and answers so itself: is a key of its own wrong, or is it out of date?"
    elif spec.is_stdio:
        fix = _by_hand(message)
    elif spec.openapi is not None:
        fix = f"{key}.openapi is to be an OpenAPI 3 description, {key}.base_url where its API is"
    else:
        fix = f"is {key}.url the MCP endpoint (often it ends in /mcp or /sse)?"
    return failed(check, message, fix)
