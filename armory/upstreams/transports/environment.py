"""The environment variables that a stdio server inherits from the gateway.

Owns: the variables that are passed on, and the credentials that are not. Never imports a transport.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

HOST = (
    "PATH",
    "HOME",
    "LANG",
    "LC_*",
    "TMPDIR",
    "TEMP",
    "TMP",
    "TZ",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "SYSTEMROOT",
    "SYSTEMDRIVE",
    "APPDATA",
    "LOCALAPPDATA",
    "USERPROFILE",
    "PATHEXT",
    "ARMORY_SERVED",
)
"""Where things are, and whose process it is."""

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY", "NO_PROXY")
"""How the network is reached; a password in one of them is the proxy's, and needed."""

NETWORK = (
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "NODE_USE_ENV_PROXY",
    "NPM_CONFIG_*",
    "UV_*",
    "PIP_*",
)
"""Whose certificates are trusted, and where launchers such as npx and uvx find packages."""

_NPM = ("npx", "npm")
_NPM_SAYS = "npm_config_loglevel"

_CREDENTIAL = re.compile(
    r"(?:^|[_:./-])_?(?:auth|authtoken|token|password|passwd|username|secret|credentials?|key)"
    r"(?:_|$)",
    re.IGNORECASE,
)
_ANYWHERE = tuple(name.upper() for name in (*HOST, *PROXIES))
_UNLESS_SECRET = tuple(name.upper() for name in NETWORK)


def inherited(environ: Mapping[str, str], also: Iterable[str] = ()) -> dict[str, str]:
    """The variables that are passed on.

    Args:
        environ: what there is.
        also: further names or glob patterns; upper and lower case are alike. What they name is
            passed on, whatever it is; of the rest credentials are kept back.
    """
    wanted = tuple(pattern.upper() for pattern in also)
    return {name: value for name, value in environ.items() if _passes(name, value, wanted)}


def told_by_launcher(launcher: str | None, given: Iterable[str]) -> dict[str, str]:
    """Variables that make a launcher report its progress.

    By default npm says nothing about the packages that it fetches and the scripts that it runs,
    even when one fails.

    Args:
        launcher: of the server; None: none.
        given: the variables that are set; whoever has chosen keeps what they chose.
    """
    chosen = any(name.lower() == _NPM_SAYS for name in given)
    return {} if chosen or launcher not in _NPM else {_NPM_SAYS: "info"}


def _passes(name: str, value: str, wanted: tuple[str, ...]) -> bool:
    upper = name.upper()
    if _any(upper, _ANYWHERE) or _any(upper, wanted):
        return True
    return _any(upper, _UNLESS_SECRET) and not (_CREDENTIAL.search(name) or _has_password(value))


def _any(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _has_password(value: str) -> bool:
    for word in value.split():  # pip and uv take several addresses in one variable
        try:
            if "://" in word and "@" in urlsplit(word).netloc:
                return True
        except ValueError:
            return True
    return False
