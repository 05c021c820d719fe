"""An OpenAPI description: reading its text, following references inside it, its servers.

Owns: what counts as a description, and the bounds on reading one. References that leave the
document are never followed. Does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote, urljoin, urlsplit

import msgspec
import yaml

from armory.protocol.nesting import deeper_than

MAX_BYTES = 16 * 1024 * 1024
MAX_YAML_BYTES = 4 * 1024 * 1024
"""YAML is read a hundred times slower than JSON."""
MAX_LEVELS = 200
MAX_NODES = 600_000
MAX_HOPS = 16
Object = Mapping[str, Any]
_TOO_DEEP = f"it is nested deeper than {MAX_LEVELS} levels"
_VERSION = re.compile(r"3\.\d+(\.\d+)?")
_VARIABLE = re.compile(r"\{([^{}]*)\}")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BadDescription(Exception):
    """It is no description that can be used, or a part of it is none; says why."""


class Document:
    """A description whose version is known.

    Args:
        content: the whole of it.
        origin: the URL that it came from; "" for a file.

    Raises:
        BadDescription: it is none of OpenAPI 3.
    """

    def __init__(self, content: Object, origin: str = "") -> None:
        version = content.get("openapi")
        if "swagger" in content:
            raise BadDescription(
                f"it is Swagger {str(content['swagger'])[:20]}; only OpenAPI 3.x is read, so "
                "convert it (editor.swagger.io and swagger2openapi do)"
            )
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            shown = repr(version)[:40]
            raise BadDescription(
                f"its member 'openapi' is {shown}; expected a version such as 3.1.0"
            )
        if not isinstance(content.get("paths", {}), dict):
            raise BadDescription("its member 'paths' is no object")
        self.content = content
        self.origin = origin
        self.before_31 = version.startswith("3.0")

    def follow(self, node: Any) -> Any:
        """What a node is, its references followed as far as they go.

        Raises:
            BadDescription: a reference leaves the document, leads nowhere or in a circle.
        """
        for _ in range(MAX_HOPS):
            if not isinstance(node, dict):
                return node
            reference = cast("dict[str, Any]", node).get("$ref")
            if not isinstance(reference, str):
                return cast("dict[str, Any]", node)
            node = self._at(reference)
        raise BadDescription("its references lead in a circle")

    def object_at(self, node: Any, what: str) -> Object:
        """The same where it has to be an object.

        Raises:
            BadDescription: as `follow`, or it is none.
        """
        found = self.follow(node)
        if not isinstance(found, dict):
            raise BadDescription(f"{what} is no object")
        return cast("dict[str, Any]", found)

    def _at(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise BadDescription(f"it refers to another document, {reference[:200]}")
        node: Any = self.content
        for part in reference[1:].split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = cast("dict[str, Any]", node).get(key)
            elif isinstance(node, list) and key.isdigit() and len(key) < 7:
                items = cast("list[Any]", node)
                node = items[int(key)] if int(key) < len(items) else None
            else:
                node = None
            if node is None:
                raise BadDescription(f"it refers to {reference[:200]}, which is not there")
        return node

    def base_url(self, configured: str | None) -> str:
        """Where the API is, without a slash at the end of its path.

        Args:
            configured: what the configuration says; it wins.

        Raises:
            BadDescription: the description names no place that can be believed.
        """
        if configured is not None:
            return configured
        servers = self.content.get("servers")
        first: Any = cast("list[Any]", servers)[0] if isinstance(servers, list) and servers else {}
        text = _filled(cast("Object", first)) if isinstance(first, dict) else ""
        url = urljoin(self.origin, text or "/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise BadDescription(f"it does not say where the API is ({text!r}); give base_url")
        if self.origin and urlsplit(self.origin)[:2] != parts[:2]:
            raise BadDescription(
                f"it comes from {urlsplit(self.origin).netloc} and says that the API is at "
                f"{url[:200]}; give base_url if that is so"
            )
        return url


def _filled(server: Object) -> str:
    url, variables = server.get("url"), server.get("variables")
    known = cast("dict[str, Any]", variables) if isinstance(variables, dict) else {}

    def default(found: re.Match[str]) -> str:
        variable = known.get(found[1])
        value = (
            cast("dict[str, Any]", variable).get("default") if isinstance(variable, dict) else ""
        )
        return str(value)

    return _VARIABLE.sub(default, url) if isinstance(url, str) else ""


def read_document(data: bytes, origin: str = "") -> Document:
    """The description that some text is, JSON or YAML. Takes long where it is large.

    Args:
        data: the text.
        origin: the URL that it came from; "" for a file.

    Raises:
        BadDescription: it is none.
    """
    if len(data) > MAX_BYTES:
        raise BadDescription(f"it has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    content = _parsed(data)
    if not isinstance(content, dict):
        raise BadDescription("it is neither a JSON object nor a YAML mapping")
    return Document(cast("dict[str, Any]", content), origin)


def _parsed(data: bytes) -> Any:
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        if deeper_than(bytes(text), MAX_LEVELS):
            raise BadDescription(_TOO_DEEP)
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # a YAML mapping may begin like that
    if len(data) > MAX_YAML_BYTES:
        raise BadDescription(
            f"it is YAML of {len(data):,} bytes; at most {MAX_YAML_BYTES:,} are read: give JSON"
        )
    try:
        _check_levels(text)
        loaded = yaml.load(text, _Loader)
        return _plain(loaded, [0])
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise BadDescription(f"it is neither JSON nor YAML: {said}") from None


def _check_levels(text: bytes) -> None:
    """Refuse what is nested too deeply: libyaml would end the process, as it puts it together."""
    level = 0
    for event in yaml.parse(text, _Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            level += 1
            if level > MAX_LEVELS:
                raise BadDescription(_TOO_DEEP)
        elif isinstance(event, yaml.CollectionEndEvent):
            level -= 1


def _plain(node: Any, seen: list[int]) -> Any:
    """YAML as JSON has it: keys are text, dates too; aliases that multiply are refused."""
    seen[0] += 1
    if seen[0] > MAX_NODES:
        raise BadDescription("its YAML aliases multiply without end")
    if isinstance(node, dict):
        items = cast("dict[Any, Any]", node).items()
        return {_key(key): _plain(child, seen) for key, child in items}
    if isinstance(node, list):
        return [_plain(child, seen) for child in cast("list[Any]", node)]
    return node if node is None or isinstance(node, str | int | float | bool) else str(node)


def _key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
