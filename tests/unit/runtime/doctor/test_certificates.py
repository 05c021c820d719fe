"""What `armory doctor` says of the certificate of an upstream, reached directly or by a proxy."""

from __future__ import annotations

import datetime
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.tunnel import tunnelling
from tests.unit.runtime.doctor.test_broken import Config, found, upstream

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def secure(folder: Path, names: list[str], days: int) -> AsyncGenerator[tuple[str, Path]]:
    """A server with a certificate of its own making: (URL, its certificate)."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=30))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(n) for n in names]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem, private = folder / "cert.pem", folder / "key.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem, private)
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://localhost:{runner.addresses[0][1]}/mcp", pem
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("names", "days", "trusted", "cause", "fix"),
    [
        (["localhost"], 300, False, "self-signed", "tls.ca_file"),
        (["localhost"], -1, True, "expired", "renew the certificate"),
        (["elsewhere.example"], 300, True, "ostname", "name in the certificate"),
    ],
)
@pytest.mark.parametrize("proxied", [False, True])
async def test_a_bad_certificate_is_explained(
    names: list[str],
    days: int,
    trusted: bool,
    cause: str,
    fix: str,
    proxied: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with secure(tmp_path, names, days) as (url, pem), tunnelling() as proxy:
        block: Config = {"url": url, **({"tls": {"ca_file": str(pem)}} if trusted else {})}
        block |= {"proxy": proxy} if proxied else {}
        findings = await found(tmp_path, upstream(**block), monkeypatch)
    (finding,) = [one for one in findings if one.check == "upstream it"]
    assert finding.state == "failed"
    assert cause in finding.detail
    assert fix in finding.fix


async def test_a_python_that_knows_no_authorities_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a slim image, or python.org's on a Mac: every certificate is refused."""
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none" / "there.pem"))
    async with secure(tmp_path, ["localhost"], 300) as (url, _):
        findings = await found(tmp_path, upstream(url=url), monkeypatch)
    (finding,) = [one for one in findings if one.check == "upstream it"]
    assert "ca-certificates" in finding.fix
    assert "Install Certificates.command" in finding.fix
