"""Key documents: whoever wrote them, what is wrong with one key costs that key alone.

Anybody may publish a client's document with keys in it, so nothing of a key is computed with before
it has been looked at: only how long numbers are is told here, never how long they take.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from armory.errors import BackendError
from armory.security.issuer import ALGORITHMS
from armory.security.keys import KeySet

pytestmark = pytest.mark.anyio


def number(bits: int) -> str:
    """An odd number of so many bits, as keys write it."""
    value = (1 << (bits - 1)) + 1
    return base64.urlsafe_b64encode(value.to_bytes((bits + 7) // 8)).decode().rstrip("=")


@pytest.fixture(scope="module")
def good() -> dict[str, Any]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    to_jwk: Any = jwt.get_algorithm_by_name("RS256").to_jwk
    return {**to_jwk(key.public_key(), as_dict=True), "kid": "good"}


def read(document: bytes) -> KeySet:
    async def fetch(_url: str) -> bytes:
        return document

    return KeySet("https://id.example/jwks", ALGORITHMS, fetch=fetch)


async def test_private_parts_are_not_computed_with(good: dict[str, Any]) -> None:
    """From `d` alone the primes would be looked for: with numbers of 160,000 bits, for hours."""
    keys = read(json.dumps({"keys": [{**good, "d": "Aw"}]}).encode())
    assert await keys.key("good", "RS256") is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": number(16_384)},
        {"e": number(2_000)},
        {"n": ["a"]},
        {"n": "%"},
        {"alg": ["RS256"]},
        {"alg": "none"},
        {"kty": ["RSA"]},
    ],
    ids=lambda wrong: str(wrong)[:20],
)
async def test_a_key_that_cannot_be_used_costs_itself(
    good: dict[str, Any], wrong: dict[str, Any]
) -> None:
    keys = read(json.dumps({"keys": [{**good, "kid": "bad", **wrong}, good]}).encode())
    assert await keys.key("bad", "RS256") is None
    assert await keys.key("good", "RS256") is not None


@pytest.mark.parametrize("bits", [4_096, 8_192])
async def test_keys_as_large_as_people_have_them_are_used(bits: int) -> None:
    said = {"kty": "RSA", "kid": "large", "n": number(bits) + "=", "e": "AQAB"}
    keys = read(json.dumps({"keys": [said]}).encode())
    assert await keys.key("large", "PS512") is not None


async def test_a_document_that_is_nested_without_end_is_none() -> None:
    with pytest.raises(BackendError, match="not a JWKS"):
        await read(b"[" * 60_000).key("good", "RS256")
