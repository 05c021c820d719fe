"""An identity provider whose keys a test chooses, and the check of its tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from armory.errors import BackendError
from armory.security.jwt import JwtScheme
from armory.security.settings import JwtSettings

ISSUER, AUDIENCE = "https://id.example", "armory"


class Provider:
    """An identity provider: keys that rotate, and a document that can be away."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.fetched = 0
        self.away = False
        self.says: dict[str, Any] = {}

    def add(self, kid: str, kind: str = "RSA") -> None:
        if kind == "RSA":
            self.keys[kid] = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        else:
            self.keys[kid] = ec.generate_private_key(ec.SECP256R1())

    def sign(self, kid: str, claims: Mapping[str, Any], algorithm: str = "RS256") -> str:
        return jwt.encode(dict(claims), self.keys[kid], algorithm, headers={"kid": kid})

    async def fetch(self, url: str) -> bytes:
        self.fetched += 1
        if self.away:
            raise BackendError("away")
        found: list[dict[str, Any]] = []
        for kid, key in self.keys.items():
            algorithm = jwt.get_algorithm_by_name(
                "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
            )
            public: Any = algorithm.to_jwk(key.public_key(), as_dict=True)
            found.append({**public, "kid": kid, "use": "sig", **self.says})
        return json.dumps({"keys": found}).encode()


def claims(**other: Any) -> dict[str, Any]:
    now = int(time.time())
    base = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": now + 600, "iat": now}
    return {**base, **other}


def scheme(provider: Provider, leeway_s: float = 30.0, **more: Any) -> JwtScheme:
    url = "https://id.example/jwks"
    settings = JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=url, **more)
    return JwtScheme(settings, fetch=provider.fetch, leeway_s=leeway_s)


def provider_with_keys() -> Provider:
    """A provider with an RSA key `one` and an elliptic-curve key `two`."""
    found = Provider()
    found.add("one")
    found.add("two", "EC")
    return found
