"""Registers all REST routes on the application.

Owns: putting the parts together. Never answers anything but its own description.
"""

from __future__ import annotations

from functools import partial

import msgspec
from aiohttp import web

from armory.web.rest import logins, status
from armory.web.rest.accounts import keys, packs, usage
from armory.web.rest.indexing import IndexHandlers
from armory.web.rest.live import (
    audit,
    changes,
    configuration,
    labels,
    login,
    me,
    operating,
    search,
    tools,
)
from armory.web.rest.openapi import describe, page
from armory.web.rest.problems import Problem, problem_response
from armory.web.rest.requests import refuse_method, request_id_of, serve
from armory.web.rest.retrieve import RetrieveHandlers
from armory.web.rest.routes import Answer, Reply, RestCall, Route
from armory.web.rest.searching import Searching
from armory.web.rest.services import RestServices


class Document(Answer):
    """An OpenAPI 3.1 document."""

    openapi: str


def all_routes(services: RestServices) -> list[Route]:
    """All routes except those that show the API description."""
    retrieve = RetrieveHandlers(Searching(services), services.limits, services.agent)
    found = [*retrieve.routes(), *IndexHandlers().routes(), *packs.routes()]
    found += [*usage.routes(), *status.routes()]
    found += logins.routes()  # a reload may bring the first upstream with accounts
    if services.api_keys or services.accounts.enabled:
        found += keys.routes()
    live = services.live
    if live is not None:
        found += [me.route(live), *tools.routes(live), search.route(live)]
        found += [*labels.routes(live), *changes.routes(live), *operating.routes(live)]
        found += [*configuration.routes(live), *login.routes(live), audit.route(live)]
    return found


def register_rest(app: web.Application, services: RestServices) -> None:
    """Add the REST routes, `/openapi.json` and `/docs`."""
    routes = all_routes(services)
    describing = Route(
        "GET", "/openapi.json", _nothing, "This description", Document, access="public", tag="api"
    )
    document = describe([*routes, describing], services.info, services.base_path)
    encoded = msgspec.json.encode(document)
    html = page(document).encode()

    async def show_document(call: RestCall) -> Reply:
        return Reply(encoded)

    async def show_page(call: RestCall) -> Reply:
        policy = "default-src 'none'; style-src 'unsafe-inline'"
        headers = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}
        return Reply(html, headers=headers)

    public = [
        Route("GET", "/openapi.json", show_document, "", Document, access="public"),
        Route("GET", "/docs", show_page, "", None, access="public"),
    ]
    allowed: dict[str, list[str]] = {}
    for route in [*routes, *public]:
        path = services.base_path + route.path
        methods = ["GET", "HEAD"] if route.method == "GET" else [route.method]
        for method in methods:
            app.router.add_route(method, path, partial(serve, services, route))
        allowed.setdefault(path, []).extend(methods)
    for path, methods in allowed.items():
        refuse = partial(_refuse, services, ", ".join(sorted(methods)))
        app.router.add_route("*", path, refuse)
    for version in ("v1", "v2"):  # after all that exist: the router takes the first that fits
        unknown = f"{services.base_path}/{version}/{{rest:.*}}"
        app.router.add_route("*", unknown, _nowhere)


async def _refuse(services: RestServices, allowed: str, request: web.Request) -> web.Response:
    return refuse_method(services, allowed, request)


async def _nowhere(request: web.Request) -> web.Response:
    message = f"there is nothing at {request.path[:200]!r}; the API is described at /docs"
    return problem_response(Problem(404, "unknown", message), request_id_of(request))


async def _nothing(call: RestCall) -> Reply:
    return Reply(None, 204)
