"""Serves a running gateway: MCP, REST, health and metrics on the bound ports.

Owns: which application gets which routes, and who may see details of health. Never makes a
part of the gateway, nor opens a port.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

from armory import ending
from armory.accounts.service import Accounts
from armory.accounts.users import DELETED, ENDED, SWITCHED_OFF
from armory.domain.principal import Principal
from armory.errors import ArmoryError
from armory.observability.activity import Activity
from armory.runtime.blocks.accounts import accounts_needed, schemes
from armory.runtime.blocks.authentication import authenticator
from armory.runtime.blocks.authorization import authorization_server, follow_grants, routes_of
from armory.runtime.blocks.people import connect_services, logs_people_in
from armory.runtime.blocks.upstreams import upstream_specs
from armory.runtime.editing.message_redaction import explained
from armory.runtime.entry.listeners import Listeners
from armory.runtime.readiness import readiness
from armory.runtime.rest import broadcast_of, rest_services
from armory.runtime.running import Runtime
from armory.runtime.settings import base_path, http_settings
from armory.security.authentication import ADMIN, Admission, Authenticator
from armory.web.app import Listening, make_app
from armory.web.console.pages import register_console
from armory.web.front import Shortcut
from armory.web.health import Health
from armory.web.rest.api import register_rest
from armory.wire.http.edge import HttpEdge
from armory.wire.http.host_checks import HostChecks


async def serve(runtime: Runtime, stack: AsyncExitStack, listeners: Listeners) -> None:
    """Serve on the open ports until `stack` unwinds.

    Raises:
        ConfigError: nobody could or everybody would be served.
    """
    config = runtime.loaded.config
    runtime.rereading.explained = explained
    known = schemes(config, runtime.accounts)
    logging_in = authorization_server(runtime.loaded, runtime.accounts)
    if logging_in is not None:
        known.append(logging_in.scheme)
    checks = authenticator(config, known, _admission(runtime), also=[listeners.operator])
    people = logs_people_in(upstream_specs(runtime.loaded))
    edge = HttpEdge(
        runtime.gateway,
        checks,
        replace(http_settings(config), pages=people),
        replicas=runtime.joined.replicas,
        observers=runtime.observers,
    )
    logs = config.observability.log_level == "debug"
    prefix = base_path(config)
    ready, most = runtime.ready, config.server.limits.body_bytes
    app = make_app(body_bytes=most, wait_ready=ready, base_path=prefix, log_requests=logs)
    edge.register(app)
    health = _make_health(runtime, checks, edge.hosts)
    health.register(app, prefix, metrics=listeners.metrics is None)
    if listeners.metrics is not None:
        await _serve_apart(health, listeners.metrics)
        stack.push_async_callback(listeners.metrics.close)
    if people:
        from armory.web.connect.handlers import Connect  # only where people log in

        concerns = partial(_concerns, runtime)
        about = runtime.loaded, runtime.pool, edge.hosts, checks, known, concerns, logging_in
        Connect(connect_services(*about)).register(app)
    if logging_in is not None:
        for part in routes_of(runtime.loaded, edge.hosts, logging_in, prefix):
            part.register(app)
        follow_grants(runtime.accounts, logging_in, edge.end_principal)
    if runtime.accounts is not None:
        broadcast = broadcast_of(runtime, runtime.accounts)
        stack.push_async_callback(broadcast.close)
        services = rest_services(runtime, edge, runtime.accounts, broadcast, logging_in)
        register_rest(app, services)
        _follow_accounts(runtime.accounts, edge, runtime.activity)
        if config.server.console:
            register_console(app, prefix)

    async def end_streams(_app: object) -> None:
        edge.end_streams()

    app.on_shutdown.append(end_streams)
    await edge.start()
    stack.push_async_callback(edge.close)
    shortcut = None if logs else Shortcut(edge.fixed_path_handlers(), runtime.first_snapshot.is_set)
    await listeners.listening.serve(app, shortcut, edge.who_asks)
    stack.callback(ending.begin)
    stack.push_async_callback(listeners.close)
    runtime.edge, runtime.listening = edge, listeners.listening
    runtime.home.note = listeners.note


def _admission(runtime: Runtime) -> Admission | None:
    """What refuses users that are switched off, also where packs narrow nothing."""
    accounts = runtime.accounts
    if accounts is None:
        return None
    return accounts.scopes if accounts_needed(runtime.loaded.config) else accounts.switched_off


def _concerns(runtime: Runtime, who: Principal, server: str) -> bool:
    """Whether policy currently lets a principal know of an upstream."""
    return runtime.gateway.view.policy.concerns(who, server, packs=False)


def _follow_accounts(accounts: Accounts, edge: HttpEdge, activity: Activity | None) -> None:
    """When a key is revoked or a user switched off on any replica, end the streams and sessions
    opened with it; when a user is deleted, delete its activity.
    """

    async def key_ended(key_id: str) -> None:
        await edge.end_principal(f"api_key:{key_id}")

    # a user may be switched on again by now, and one of that name may be somebody else
    accounts.feed.subscribe(ENDED, key_ended, replayed=False)
    accounts.feed.subscribe(SWITCHED_OFF, edge.end_user, replayed=False)
    if activity is not None:
        accounts.feed.subscribe(DELETED, activity.forget, replayed=False)


def _make_health(runtime: Runtime, checks: Authenticator, hosts: HostChecks) -> Health:
    """The health routes as configured; details need the scope `admin`."""

    async def sees_details(headers: Mapping[str, str]) -> bool:
        try:
            who = await checks.authenticate(headers)
        except ArmoryError:
            return False
        return ADMIN in who.scopes

    def misled(headers: Mapping[str, str], remote: str | None) -> bool:
        # elsewhere monitoring comes by addresses, which are in no list of names
        _, host = hosts.seen_as(remote, headers)
        return hosts.loopback and not hosts.host_allowed(host)

    config = runtime.loaded.config
    token = config.server.metrics.token
    return Health(
        partial(readiness, runtime),
        runtime.figures.metrics_text if config.observability.metrics else None,
        None if token is None else token.get_secret_value(),
        sees_details,
        misled,
    )


async def _serve_apart(health: Health, listening: Listening) -> None:
    """Serve health and metrics on a port of their own."""
    app = make_app(body_bytes=1)
    health.register(app)
    await listening.serve(app)
