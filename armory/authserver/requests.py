"""The authorization request of a client (OAuth 2.1, 4.1.1).

Owns: its parameters, and which of its errors go back to the client. Pure but for the lookup of the
client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from yarl import URL

from armory.authserver import redirects
from armory.authserver.clients import Client
from armory.authserver.errors import OAuthError, UnusableClient
from armory.oauth.metadata import resource_id

_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_MAX_STATE, _MAX_RESOURCE = 1_000, 500


class Request(msgspec.Struct, frozen=True):
    """A valid authorization request.

    Attributes:
        client: digest of the client's id.
        redirect_uri: where the person is sent back to.
        state: of the client; None: it gave none.
        challenge: S256 code challenge.
        resource: the endpoint that the token is to be for.
    """

    client: str
    redirect_uri: str
    state: str | None
    challenge: str
    resource: str

    def back(self, issuer: str, **answer: str) -> str:
        """The URL that sends the person back to the client."""
        return returning(self.redirect_uri, self.state, issuer, **answer)


class Returned(Exception):
    """An error that is reported to the client through the browser.

    Args:
        url: that the browser is sent to.
        redirect_uri: of the client, without the error.
        error: the same for whoever is not sent there.
    """

    def __init__(self, url: str, redirect_uri: str, error: OAuthError) -> None:
        super().__init__(url)
        self.url = url
        self.redirect_uri = redirect_uri
        self.error = error


def returning(uri: str, state: str | None, issuer: str, **answer: str) -> str:
    """A redirect URI with the parameters of an answer (RFC 6749, 4.1.2; RFC 9207)."""
    if state is not None:
        answer["state"] = state
    return str(URL(uri, encoded=True).update_query({**answer, "iss": issuer}))


def redirect_uri_of(query: Mapping[str, str], client: Client) -> str:
    """The redirect URI of a request.

    Raises:
        UnusableClient: the client did not register that, so nobody is sent there.
    """
    uri = query.get("redirect_uri", "")
    if not uri and len(client.redirects) == 1:
        uri = client.redirects[0]
    if redirects.problem(uri) or not redirects.is_registered(uri, client.redirects):
        raise UnusableClient(f"this client has not registered the redirect_uri {uri[:200]!r}")
    return uri


def read(
    query: Mapping[str, str],
    client: Client,
    issuer: str,
    is_resource: Callable[[str], bool],
    default_resource: str,
) -> Request:
    """Parse and validate an authorization request of a client.

    Args:
        query: parameters, each once.
        client: who asks.
        issuer: the gateway.
        is_resource: whether a URL is one of the gateway's endpoints.
        default_resource: what clients want that do not say.

    Raises:
        UnusableClient: the client is not usable; the browser is not redirected to it.
        Returned: the request is invalid; the browser is redirected to the client with the error.
    """
    uri = redirect_uri_of(query, client)
    state = query.get("state")

    def wrong(code: str, description: str) -> Returned:
        kept = state if state is not None and len(state) <= _MAX_STATE else None
        answer = {"error": code, "error_description": description}
        return Returned(returning(uri, kept, issuer, **answer), uri, OAuthError(code, description))

    if query.get("response_type") != "code":
        raise wrong("unsupported_response_type", "response_type must be code")
    if query.get("code_challenge_method") != "S256":
        raise wrong("invalid_request", "code_challenge_method must be S256")
    challenge = query.get("code_challenge", "")
    if _CHALLENGE.fullmatch(challenge) is None:
        raise wrong("invalid_request", "code_challenge must be 43 characters of base64url")
    if state is not None and len(state) > _MAX_STATE:
        raise wrong("invalid_request", f"state has at most {_MAX_STATE} characters")
    if query.get("prompt") == "none":
        raise wrong("interaction_required", "somebody has to look")
    resource = resource_id(query.get("resource") or default_resource)
    if len(resource) > _MAX_RESOURCE or not is_resource(resource):
        raise wrong("invalid_target", "resource must be the URL of an endpoint of this gateway")
    return Request(client.digest, uri, state, challenge, resource)


def each_once(pairs: Mapping[str, str], count: Callable[[str], int]) -> dict[str, str]:
    """The parameters, none of which may be repeated.

    Raises:
        OAuthError: a parameter is repeated.
    """
    for name in pairs:
        if count(name) > 1:
            raise OAuthError("invalid_request", f"{name[:40]!r} is given more than once")
    return dict(pairs)
