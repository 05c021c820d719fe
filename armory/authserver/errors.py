"""OAuth errors of the authorization server (RFC 6749, 5.2; RFC 7591, 3.2.2).

Owns: the exceptions and their codes. Never imports a web framework.
"""

from __future__ import annotations


class OAuthError(Exception):
    """An OAuth error that is reported to the client.

    Args:
        code: as registered with IANA, e.g. `invalid_grant`.
        description: what was expected; never a secret.
        status: of the HTTP answer.
    """

    def __init__(self, code: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.status = status


class UnusableClient(OAuthError):
    """The client is unknown, or its metadata is invalid: browsers are not redirected to it."""

    def __init__(self, description: str) -> None:
        super().__init__("invalid_client", description, 401)


class InvalidGrant(OAuthError):
    """A code, token or assertion that is invalid, expired or used."""

    def __init__(self, description: str) -> None:
        super().__init__("invalid_grant", description)
