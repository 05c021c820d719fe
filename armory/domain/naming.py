"""Exposed names: `server__tool`, `server+uri`, `ui://server/rest`, `skill://server/rest`,
`server:task`.

Owns: the codec between an upstream's names and what clients see, and glob patterns over these.
Never imports anything but the standard library.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

MAX_NAME = 50
_CUT = MAX_NAME - 7
"""Characters that are kept of a name that is too long, before its digest."""
SERVER_KEY = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
_FIXED = re.compile(r"[^*?\[]*")
_WORD = re.compile(r"[a-z0-9]+")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
    | {"\u0131": "i"}
)
"""Small letters that Unicode does not decompose into a plain letter and a mark."""
_PREFIXED = ("ui://", "skill://")
"""Schemes that mean something to MCP hosts: exposed URIs keep them."""
LOG_IN = "log_in"
"""The gateway's own tool that stands in for those of an upstream where the caller has to log in."""


def is_server_key(key: str) -> bool:
    """Whether `key` may name an upstream: lower-case kebab-case, so that `__` always splits."""
    return SERVER_KEY.fullmatch(key) is not None


def slug(text: str) -> str:
    """The nearest valid server key: `My Server_2` -> `my-server-2`, `Größe` -> `grosse`."""
    words = _WORD.findall(text.lower() if text.isascii() else _bare(text))
    key = "-".join(words)
    if not key:
        return "server"
    return key if key[0].isalpha() else f"s{key}"


def _bare(text: str) -> str:
    """The text in lower case, without accents."""
    letters = text.lower().translate(_LETTERS)
    apart = (unicodedata.normalize("NFKD", c) if c.isalpha() else c for c in letters)
    return "".join(c for part in apart for c in part if not unicodedata.combining(c))


def _digest(server: str, original: str) -> str:
    return hashlib.sha256(f"{server}\0{original}".encode("utf-8", "surrogatepass")).hexdigest()[:6]


def _with_digest(server: str, original: str, plain: str) -> str:
    return f"{plain[:_CUT]}_{_digest(server, original)}"


def expose_names(
    server: str, originals: Iterable[str], renamed: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Exposed name of every tool (or prompt) of one server, by original name.

    Unsafe characters become `_`; longer than 50 characters, or shared after that by several
    originals, ends in `_` and six hexadecimal digits of SHA-256(server, original). An original
    that needed no change keeps its plain name even if a changed one collides with it, and before
    both goes the only one that was renamed so: names depend on the set alone, never on its order.

    Args:
        server: whose they are.
        originals: what it calls them.
        renamed: by original name, what it is to be called instead.
    """
    given, plain = renamed or {}, dict[str, str]()
    for original in originals:  # one by one: of 100,000 at once all threads would wait for 16 ms
        if original not in plain:
            plain[original] = f"{server}__{_UNSAFE.sub('_', given.get(original, original))}"
    others = any(name != f"{server}__{original}" for original, name in plain.items())
    shared = dict[str, int]()
    for name in plain.values() if others else ():
        shared[name] = shared.get(name, 0) + 1
    chosen = Counter(plain[original] for original in given if original in plain)
    for original, name in plain.items():  # in place: no second table of 100,000 names grows
        if chosen[name]:
            keeps = original in given and chosen[name] == 1
        else:
            keeps = name == f"{server}__{original}" or shared[name] == 1
        fits = keeps and len(name) <= MAX_NAME
        if not fits:
            plain[original] = _with_digest(server, original, name)
    return plain


def split_name(exposed: str) -> tuple[str, str] | None:
    """(server, rest) of an exposed tool or prompt name; None when it has not that form."""
    server, _, rest = exposed.partition("__")
    return (server, rest) if rest and is_server_key(server) else None


def beginnings(server: str) -> tuple[str, ...]:
    """The possible prefixes of a server's exposed names and URIs."""
    uris = (expose_uri(server, scheme) for scheme in ("", *_PREFIXED))
    return (f"{server}__"[:_CUT], *uris)


def expose_uri(server: str, uri: str) -> str:
    """Exposed form of a resource URI or URI template."""
    for scheme in _PREFIXED:
        if uri.startswith(scheme):
            return f"{scheme}{server}/{uri[len(scheme) :]}"
    return f"{server}+{uri}"


def split_uri(exposed: str) -> tuple[str, str] | None:
    """(server, original URI) of an exposed URI; None when it has not that form."""
    for scheme in _PREFIXED:
        if exposed.startswith(scheme):
            server, separator, rest = exposed[len(scheme) :].partition("/")
            return (server, scheme + rest) if separator and is_server_key(server) else None
    server, _, uri = exposed.partition("+")
    return (server, uri) if uri and is_server_key(server) else None


def expose_task(server: str, task_id: str) -> str:
    """Exposed form of a task id."""
    return f"{server}:{task_id}"


def split_task(exposed: str) -> tuple[str, str] | None:
    """(server, original task id); None when it has not that form."""
    server, _, task_id = exposed.partition(":")
    return (server, task_id) if task_id and is_server_key(server) else None


def fixed(pattern: str) -> str:
    """The part of a pattern that stands for itself, up to its first wildcard."""
    found = _FIXED.match(pattern)
    return found[0] if found is not None else ""


class Patterns:
    """Whether one of several patterns matches, as `fnmatchcase` has it.

    One by one, fifteen thousand tools and a hundred names that are allowed take 0.7 s.

    Args:
        patterns: glob patterns.
    """

    __slots__ = ("_every", "_lengths", "_names", "_patterns")

    def __init__(self, patterns: Iterable[str]) -> None:
        self._names: set[str] = set()
        self._patterns: dict[str, list[str]] = {}
        for pattern in dict.fromkeys(patterns):
            if (begun := fixed(pattern)) == pattern:
                self._names.add(pattern)
            else:
                self._patterns.setdefault(begun, []).append(pattern)
        self._lengths = sorted(set(map(len, self._patterns)))
        self._every = "*" in self._patterns.get("", ())

    def match(self, name: str) -> bool:
        """Whether one of them matches a name."""
        if self._every or name in self._names:
            return True
        for length in self._lengths:
            for pattern in self._patterns.get(name[:length], ()):
                if fnmatchcase(name, pattern):
                    return True
        return False
