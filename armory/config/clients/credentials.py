"""Converts credentials and TLS settings of other MCP clients.

Owns: turning their logins, keys and certificate checks into `auth`, `headers` and `tls`. Never
imports a room above `domain`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from armory.config.clients.placing import put

_LOGINS = ("auth", "oauth")
_LOGIN_KEYS = {
    "clientid": "client_id",
    "clientsecret": "client_secret",
    "scopes": "scopes",
    "scope": "scopes",
}
_SCHEMES = {"bearer": "Bearer", "basic": "Basic"}


def take_login(block: dict[str, Any], name: str, value: Any) -> bool:
    """Take a member that is a person's login; False: it is none."""
    if name not in _LOGINS:
        return False
    if not isinstance(value, dict) or value.get("enabled") is False:
        return value in (False, None) or isinstance(value, dict)
    if name == "auth" and "type" in value:
        block["auth"] = value
        return True
    found: dict[str, Any] = {"type": "authorization_code"}
    for key, inner in value.items():
        known = _login_key(key)
        if known is not None:
            found[known] = _listed(inner) if known == "scopes" else inner
    block["auth"] = found
    return True


def unknown_in_logins(entry: Mapping[Any, Any]) -> Iterator[str]:
    """What such a login says beyond what is taken."""
    for name in _LOGINS:
        login = entry.get(name)
        if isinstance(login, dict) and login.get("enabled") is not False and "type" not in login:
            yield from (
                f"{name}.{key}"
                for key, value in login.items()
                if value is not None and key != "enabled" and _login_key(key) is None
            )


def _login_key(name: Any) -> str | None:
    return _LOGIN_KEYS.get(str(name).lower().replace("_", ""))


def take_scopes(block: dict[str, Any], name: str, value: Any) -> bool:
    """Likewise Codex's scopes, which stand beside a login or are all that is said of it. Take them
    last: a server that is started, and one that gets a token, has no login.
    """
    given = {str(header).lower() for header in block.get("headers") or ()}
    login = block.get("auth", {})
    fits = "url" in block and "authorization" not in given and isinstance(login, dict)
    if name != "scopes" or not fits:
        return False
    if value:
        block["auth"] = {"type": "authorization_code", **login, "scopes": _listed(value)}
    return True


def _listed(scopes: Any) -> Any:
    return scopes.split() if isinstance(scopes, str) else scopes


def take_credential(block: dict[str, Any], name: str, value: Any) -> bool:
    """Take over an entry that is a secret, or names a variable with one; returns whether it was."""
    if name == "bearer_token_env_var":
        put(block, "headers", {"Authorization": f"Bearer ${{{value}}}"})
    elif name == "env_http_headers" and isinstance(value, dict):
        put(block, "headers", {header: f"${{{variable}}}" for header, variable in value.items()})
    elif name == "env_keys" and isinstance(value, list):  # what Goose keeps in a keyring
        put(block, "env", {str(variable): f"${{{variable}}}" for variable in value})
    elif name == "apiKey" and isinstance(value, str):  # Continue's
        put(block, "headers", {"Authorization": f"Bearer {value}"})
    elif name == "apiKey" and isinstance(value, dict) and (header := _header_of(value)):
        put(block, "headers", header)
    else:
        return False
    return True


def _header_of(key: Mapping[str, Any]) -> dict[str, str]:
    """The header that LibreChat sends an operator's key in; none where it has each user's own."""
    text, header = key.get("key"), key.get("custom_header")
    if not isinstance(text, str):
        return {}
    if key.get("authorization_type") == "custom":
        return {header: text} if isinstance(header, str) else {}
    scheme = _SCHEMES.get(str(key.get("authorization_type")), "Bearer")
    return {"Authorization": f"{scheme} {text}"}


def take_trust(block: dict[str, Any], name: str, value: Any) -> bool:
    """Likewise one that says how the server's certificate is checked (Continue)."""
    if name == "verifySsl" and isinstance(value, bool):
        if not value:
            put(block, "tls.verify", value)
        return True
    if name == "caBundlePath":
        files = value if isinstance(value, list) else [value]
        if len(files) == 1:  # there is no key for several
            put(block, "tls.ca_file", files[0])
            return True
    return False
