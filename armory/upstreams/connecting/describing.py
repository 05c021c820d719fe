"""Fetching the OpenAPI description of an upstream, and parsing it beside the event loop.

Owns: `Description`. Never opens a link.
"""

from __future__ import annotations

from asyncio import to_thread
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from armory.errors import UpstreamUnavailable
from armory.http1.reading import BodyTooLarge, read_body
from armory.openapi.document import MAX_BYTES, BadDescription, Document, read_document
from armory.openapi.operations import read_operations
from armory.protocol.versions import MODERN_VERSIONS
from armory.threads import in_turn_if
from armory.upstreams.local.openapi import Api, listed
from armory.upstreams.session.context import Identity
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.http_client import UpstreamClient

_ACCEPT = {"Accept": "application/json, application/yaml, */*;q=0.5"}
_ABOUT_CHARS = 1_000
_SOON_BYTES = 64 * 1024
"""A description up to this size is read within 60 ms, even as YAML; the longest takes seconds."""


class Description:
    """The OpenAPI description of one upstream, kept until it is fetched again.

    Args:
        spec: the upstream; a description on the API's own host is asked for with its headers.
    """

    def __init__(self, spec: UpstreamSpec) -> None:
        self._spec = spec
        self._api: Api | None = None

    @property
    def client_spec(self) -> UpstreamSpec:
        """The settings of the upstream's HTTP client, with the API's base URL once it is known."""
        spec = self._spec
        if spec.openapi is None:
            return spec
        return _asking(spec, spec.base_url or (self._api.base if self._api is not None else ""))

    async def read(self, *, fresh: bool) -> Api:
        """The API that the description describes.

        Args:
            fresh: whether to read it again.

        Raises:
            UpstreamUnavailable: it cannot be fetched, is no description, or says that the API has
                moved.
        """
        known = self._api
        if known is not None and not fresh:
            return known
        api = await _described(self._spec)
        if known is not None and known.base != api.base:
            raise UpstreamUnavailable(
                f"upstream {self._spec.key!r}: its description says by now that the API is at "
                f"{api.base}; restart the upstream, or give base_url",
                upstream=self._spec.key,
                told=f"upstream {self._spec.key!r}: its description has changed",
            )
        self._api = api
        return api


async def _described(spec: UpstreamSpec) -> Api:
    place = spec.openapi or ""
    remote = urlsplit(place).scheme in ("http", "https")
    try:
        data = await (_fetched(spec, place) if remote else to_thread(_read, place))
        work = partial(_api, spec, data, place if remote else "")
        return await (in_turn_if(True, work) if len(data) > _SOON_BYTES else to_thread(work))
    except (BadDescription, OSError) as problem:
        reason = problem.strerror or problem if isinstance(problem, OSError) else problem
        raise UpstreamUnavailable(
            f"upstream {spec.key!r}: its description {_shown(place)} cannot be used: {reason}",
            upstream=spec.key,
            told=f"upstream {spec.key!r}: its description cannot be used",
        ) from None


def _asking(spec: UpstreamSpec, base: str) -> UpstreamSpec:
    return replace(spec, openapi=None, base_url=None, include=(), exclude=(), url=base)


async def _fetched(spec: UpstreamSpec, url: str) -> bytes:
    base = spec.base_url
    same = base is not None and urlsplit(base)[:2] == urlsplit(url)[:2]
    asking = _asking(spec if same else replace(spec, auth=None, headers={}), url)
    client = UpstreamClient(replace(asking, auth=None))
    try:
        headers = {**_ACCEPT, **asking.headers}
        response = await client.send(
            "GET", headers, None, spec.connect_timeout_s, what="the description"
        )
        if response.status in (401, 403):
            raise await client.failure(response)
        if response.status != 200:
            response.close()
            raise BadDescription(f"HTTP {response.status} is all that its server answers")
        return bytes(await read_body(response, min(MAX_BYTES, spec.message_bytes)))
    except BodyTooLarge as error:
        raise BadDescription(str(error)) from None
    except TimeoutError:  # in mid body: an OSError that says nothing
        raise BadDescription(f"it did not end within {spec.connect_timeout_s:g} s") from None
    finally:
        await client.close()


def _read(place: str) -> bytes:
    with Path(place).open("rb") as file:
        return file.read(MAX_BYTES + 1)


def _api(spec: UpstreamSpec, data: bytes, origin: str) -> Api:
    document = read_document(data, origin)
    base = document.base_url(spec.base_url)
    operations = read_operations(document, spec.include, spec.exclude, spec.base_url)
    if not operations.by_name:
        name, why = operations.left_out[0] if operations.left_out else ("", "")
        because = f"; {name}: {why}" if name else ""
        raise BadDescription(f"it has no operation that can be called{because}")
    return Api(operations, listed(operations), base, _identity(spec.key, document))


def _identity(key: str, document: Document) -> Identity:
    given: Any = document.content.get("info")
    info = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    name = info.get("title")
    about = info.get("summary") or info.get("description")
    return Identity(
        "modern",
        MODERN_VERSIONS[-1],
        {"tools": {}},
        {
            "name": name if isinstance(name, str) and name else key,
            "version": str(info.get("version", ""))[:100],
        },
        about.strip()[:_ABOUT_CHARS] if isinstance(about, str) else "",
    )


def _shown(place: str) -> str:
    parts = urlsplit(place)
    return f"{parts.scheme}://{parts.hostname}{parts.path}" if parts.hostname else place
