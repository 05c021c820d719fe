"""An OpenAPI description: parsing its text, and finding its servers.

Owns: which documents are accepted, how much of one is read, and the base URL of the API. Does no
I/O.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import msgspec
import yaml

from armory.openapi.keywords import pattern_steps
from armory.openapi.references import BadDescription, Object, References
from armory.openapi.swagger import as_openapi, operation_as_openapi
from armory.openapi.yamltext import MAX_LEVELS, TOO_DEEP, read_yaml
from armory.protocol.scanning.nesting import deeper_than

MAX_BYTES = 16 * 1024 * 1024
MAX_VALUES = 1_000_000
"""JSON values of a description. Parsed, each takes tens of bytes, and all are parsed at once."""
MAX_YAML_BYTES = 4 * 1024 * 1024
"""YAML is read a hundred times slower than JSON."""
_PLACE_CHARS = 2_000
_VERSION = re.compile(r"3\.\d+(\.\d+)?")
_VARIABLE = re.compile(r"\{([^{}]*)\}")


class Document:
    """A description of a known version.

    Args:
        content: the whole of it.
        origin: the URL that it came from; "" for a file.

    Raises:
        BadDescription: it is none of OpenAPI 3, nor of Swagger 2.0.
    """

    def __init__(self, content: Object, origin: str = "") -> None:
        version: Any = content.get("openapi")
        self._swagger = "swagger" in content and "openapi" not in content
        if self._swagger:
            if not str(content["swagger"]).startswith("2"):
                raise BadDescription(f"it is Swagger {str(content['swagger'])[:20]}, not 2.0")
            content = as_openapi(content)
            version = content["openapi"]
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            shown = repr(version)[:40]
            raise BadDescription(
                f"its member 'openapi' is {shown}; expected a version such as 3.1.0"
            )
        if not isinstance(content.get("paths", {}), dict):
            raise BadDescription("its member 'paths' is no object")
        self.content = content
        self.references = References(content)
        self._patterns: set[str] = set()
        self.origin = origin
        self.before_31 = version.startswith("3.0")

    def follow(self, node: Any) -> Any:
        """Resolve a node's references.

        Raises:
            BadDescription: a reference leaves the document, leads nowhere or in a circle.
        """
        return self.references.followed(node)

    def object_at(self, node: Any, what: str) -> Object:
        """Like `follow`, for a node that must be an object.

        Raises:
            BadDescription: as `follow`, or it is none.
        """
        found = self.follow(node)
        if not isinstance(found, dict):
            raise BadDescription(f"{what} is no object")
        return cast("dict[str, Any]", found)

    def see(self, pattern: str) -> None:
        """Count a pattern before it is checked; each one counts once.

        Raises:
            BadDescription: there are too many.
        """
        if pattern not in self._patterns:
            self._patterns.add(pattern)
            self.references.spend(pattern_steps(pattern))

    def as_openapi(self, item: Object, operation: Object) -> tuple[Object, Object]:
        """(the relevant members of the path item, operation) in the form of OpenAPI 3.

        Raises:
            BadDescription: the operation cannot be written so.
        """
        if not self._swagger:
            return item, operation
        return operation_as_openapi(self.content, self.references, item, operation)

    @cached_property
    def place(self) -> str:
        """The base URL according to the description: its first server; without servers in a file,
        the one that most operations name.
        """
        servers = self.content.get("servers")
        if isinstance(servers, list) and servers:
            return self.place_of(servers)
        own = () if self.origin else self._own_servers()  # without servers a URL is its own API's
        named = Counter(self.place_of(servers) for servers in own)
        return named.most_common(1)[0][0] if named else self.place_of(None)

    def places(self, configured: str | None) -> set[str]:
        """The base URLs that count as this API if an operation has servers of its own.

        Args:
            configured: what the configuration says.
        """
        if configured is None:
            return {self.place}
        return {configured, self.place} if self.content.get("servers") else {configured}

    def place_of(self, servers: Any) -> str:
        """The URL of the first of some servers."""
        first: Any = cast("list[Any]", servers)[0] if isinstance(servers, list) and servers else {}
        text = _filled(cast("Object", first)) if isinstance(first, dict) else ""
        try:
            return urljoin(self.origin, text[:_PLACE_CHARS] or "/")
        except ValueError:
            raise BadDescription(f"its server {text[:200]!r} is no URL") from None

    def _own_servers(self) -> Iterator[Any]:
        for item in cast("dict[str, Any]", self.content.get("paths") or {}).values():
            if isinstance(item, dict):
                operations = cast("dict[str, Any]", item)
                for one in (operations, *operations.values()):
                    own = cast("Object", one).get("servers") if isinstance(one, dict) else None
                    if own:
                        yield own

    def base_url(self, configured: str | None) -> str:
        """The base URL of the API, without a slash at the end.

        Args:
            configured: what the configuration says; it wins.

        Raises:
            BadDescription: the description names no place that can be believed.
        """
        if configured is not None:
            return configured
        url = self.place
        try:
            parts = urlsplit(url)
        except ValueError:
            raise BadDescription(f"its server {url[:200]!r} is no URL") from None
        if parts.scheme not in ("http", "https") or not parts.netloc or _VARIABLE.search(url):
            raise BadDescription(f"it does not say where the API is ({url[:200]!r}); give base_url")
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
        node = known.get(found[1])
        variable = cast("dict[str, Any]", node) if isinstance(node, dict) else {}
        values = variable.get("enum")
        first = cast("list[Any]", values)[0] if isinstance(values, list) and values else None
        value = variable.get("default", first)
        return found[0] if value is None else _word(value)

    return _VARIABLE.sub(default, url[:_PLACE_CHARS]) if isinstance(url, str) else ""


def _word(value: Any) -> str:
    """A value as text, also of a number such as a port; "" for anything else."""
    return str(value)[:_PLACE_CHARS] if isinstance(value, str | int | float) else ""


def read_document(data: bytes, origin: str = "") -> Document:
    """Parse a description, JSON or YAML. Takes long for large ones.

    Args:
        data: the text.
        origin: the URL that it came from; "" for a file.

    Raises:
        BadDescription: the text is no OpenAPI description.
    """
    if len(data) > MAX_BYTES:
        raise BadDescription(f"it has {len(data):,} bytes; at most {MAX_BYTES:,} are read")
    if data.count(b",") > MAX_VALUES:
        raise BadDescription(f"it has more than {MAX_VALUES:,} values, the most that are read")
    content = _parsed(data)
    if not isinstance(content, dict):
        raise BadDescription("it is neither a JSON object nor a YAML mapping")
    return Document(cast("dict[str, Any]", content), origin)


def _parsed(data: bytes) -> Any:
    text = data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text.startswith(b"{"):
        if deeper_than(bytes(text), MAX_LEVELS):
            raise BadDescription(TOO_DEEP)
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # a YAML mapping may begin like that
    if len(data) > MAX_YAML_BYTES:
        raise BadDescription(
            f"it is YAML of {len(data):,} bytes; at most {MAX_YAML_BYTES:,} are read: give JSON"
        )
    try:
        return read_yaml(text)
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise BadDescription(f"it is neither JSON nor YAML: {said}") from None
