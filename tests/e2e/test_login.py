"""`armory login`, a browser that is not one, and a gateway that takes the login over."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from yarl import URL

from armory.testing.clients.raw import messages, modern_body, modern_headers
from armory.testing.identity import IdentityProvider
from armory.testing.upstreams.accounts import AccountsServer
from armory.testing.upstreams.oauth import World
from armory.testing.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


async def logging_in(
    file: Path, environ: dict[str, str], stdin: Any = subprocess.DEVNULL
) -> tuple[asyncio.subprocess.Process, str]:
    """`armory login kept`, and the URL that it names."""
    login = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "armory.cli.main", "login", "kept", "--no-browser",
        "--config", str(file), env=environ, stdin=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    assert login.stderr is not None
    async with asyncio.timeout(60):
        while not (line := await login.stderr.readline()).startswith(b"http"):
            assert line
    return login, line.decode().strip()


async def test_a_person_logs_in_and_the_gateway_goes_on(
    serve: Callable[..., Any], armory: Callable[..., Any], environ: dict[str, str], tmp_path: Path
) -> None:
    async with World() as world:
        world.takes_people()
        upstream = {"url": f"{world.url}/mcp", "auth": {"type": "authorization_code"}}
        config = {"upstreams": {"kept": upstream}}
        served = await asyncio.to_thread(serve, config)
        await asyncio.to_thread(served.wait_for, "armory login kept")
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        login, url = await logging_in(file, environ)
        back = world.sent_back(url)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/callback", world.asked["redirect_uri"])
        query = urllib.parse.urlencode(back)
        page = f"{world.asked['redirect_uri']}?{query}"
        said = await asyncio.to_thread(lambda: urllib.request.urlopen(page, timeout=10).read())
        assert b"Logged in" in said
        out, _ = await asyncio.wait_for(login.communicate(), 60)
        assert (login.returncode, out.decode()) == (0, f"Logged in at {world.issuer}.\n")
        await until(lambda: bool(world.tokens) and world.tokens[-1] is not None, 60)
        assert world.tokens[-1] == "token-1"
        kept = Path(environ["ARMORY_HOME"]) / "logins.json"
        assert "token-1" in kept.read_text()
        assert not any("token-1" in line for line in served.log)
        done = await asyncio.to_thread(armory, "logout", "kept", "--config", str(file))
        assert done.returncode == 0
        assert "token-1" not in kept.read_text()


async def test_the_address_is_pasted_where_the_browser_cannot_come_back(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """As in a container: its 127.0.0.1 is not that of the browser."""
    async with World() as world:
        world.takes_people()
        upstream = {"url": f"{world.url}/mcp", "auth": {"type": "authorization_code"}}
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump({"upstreams": {"kept": upstream}}))
        ours, terminal = pty.openpty()
        try:
            login, url = await logging_in(file, environ, terminal)
            back = world.sent_back(url)
            ended = f"{world.asked['redirect_uri']}?{urllib.parse.urlencode(back)}"
            os.write(ours, b"\nhttp://127.0.0.1/callback?code=x&state=another\n")
            os.write(ours, ended.encode() + b"\n")
            out, said = await asyncio.wait_for(login.communicate(), 60)
        finally:
            os.close(ours)
            os.close(terminal)
        assert (login.returncode, out.decode()) == (0, f"Logged in at {world.issuer}.\n")
        assert said.decode().count("not where this login ends") == 1


async def test_the_operator_logs_one_person_in_and_out_again(
    serve: Callable[..., Any], armory: Callable[..., Any], environ: dict[str, str], tmp_path: Path
) -> None:
    async with (
        IdentityProvider() as provider,
        AccountsServer(provider.verified, provider.issuer) as accounts,
        aiohttp.ClientSession() as http,
    ):
        auth = {"type": "authorization_code", "per": "principal", "client_id": "armory"}
        auth["client_secret"] = "armory-secret"
        tokens = {name: {"token": f"the-token-of-{name}", "user": name} for name in ("ann", "bob")}
        config = {
            "upstreams": {"docs": {"url": accounts.url, "auth": auth}},
            "security": {"tokens": tokens, "allow_anonymous": False},
        }
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump(config))
        served = await asyncio.to_thread(serve, file)

        async def tools(name: str) -> list[str]:
            body = modern_body(1, "tools/list", {})
            headers = {**modern_headers(body), "Authorization": f"Bearer the-token-of-{name}"}
            async with http.post(served.url, json=body, headers=headers) as response:
                found = (await messages(response))[-1]
            return [tool["name"] for tool in found["result"]["tools"]]

        async def becomes(name: str, wanted: str) -> None:
            async with asyncio.timeout(60):
                while wanted not in await tools(name):  # noqa: ASYNC110 # another process
                    await asyncio.sleep(0.1)

        await becomes("ann", "docs__log_in")
        login = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "armory.cli.main", "login", "docs", "--as", "ann",
            "--no-browser", "--config", str(file), env=environ, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        assert login.stderr is not None
        async with asyncio.timeout(60):
            while not (line := await login.stderr.readline()).startswith(b"http"):
                assert line
        async with http.get(line.decode().strip()) as page:  # over the provider, and back
            assert "Logged in" in await page.text()
        out, _ = await asyncio.wait_for(login.communicate(), 60)
        assert (login.returncode, out.decode()) == (0, f"Logged in at {provider.issuer}.\n")
        await becomes("ann", "docs__only_ann")
        assert await tools("bob") == ["docs__log_in"]
        assert not (Path(environ["ARMORY_HOME"]) / "logins.json").exists()
        assert (Path(environ["ARMORY_HOME"]) / "key").stat().st_mode & 0o777 == 0o600
        done = await asyncio.to_thread(
            armory, "logout", "docs", "--as", "ann", "--config", str(file)
        )
        assert (done.returncode, done.stdout) == (0, "Logged ann out of docs.\n")
        await becomes("ann", "docs__log_in")
        assert provider.refresh_tokens == []
        secrets = [form[name] for form in provider.forms for name in ("code", "code_verifier")]
        assert not [line for line in served.log if any(secret in line for secret in secrets)]


async def test_the_page_says_what_became_of_the_login(
    environ: dict[str, str], tmp_path: Path
) -> None:
    """And what is of another login ends this one neither well nor badly."""
    async with World() as world, aiohttp.ClientSession() as http:
        world.takes_people()
        upstream = {"url": f"{world.url}/mcp", "auth": {"type": "authorization_code"}}
        file = tmp_path / "armory.yaml"
        file.write_text(yaml.safe_dump({"upstreams": {"kept": upstream}}))
        login, url = await logging_in(file, environ)
        back = world.sent_back(url)
        place = world.asked["redirect_uri"]
        for other in ({}, {**back, "state": "another"}, {"error": "access_denied"}):
            async with http.get(place, params=other) as page:
                assert (page.status, "another login" in await page.text()) == (400, True)
        reader, writer = await asyncio.open_connection("127.0.0.1", URL(place).port)
        writer.write(b"?\r\n\r\n")
        assert b"404" in await asyncio.wait_for(reader.read(), 10)
        writer.close()
        denied = {"state": back["state"], "iss": back["iss"], "error": "access_denied"}
        async with http.get(place, params=denied) as page:
            said = await page.text()
        assert "did not work" in said
        assert "access_denied" in said
        out, err = await asyncio.wait_for(login.communicate(), 60)
        assert (login.returncode, out) == (3, b"")
        assert b"access_denied" in err
        assert b"Traceback" not in err


async def test_an_upstream_of_peoples_own_accounts_is_not_down(serve: Callable[..., Any]) -> None:
    async with (
        IdentityProvider() as provider,
        AccountsServer(provider.verified, provider.issuer) as accounts,
        aiohttp.ClientSession() as http,
    ):
        auth = {"type": "authorization_code", "per": "principal"}
        config = {
            "server": {"readiness": "all"},
            "upstreams": {"docs": {"url": accounts.url, "auth": auth}},
        }
        served = await asyncio.to_thread(lambda: serve(config).ready())
        status, told = await asyncio.to_thread(served.readiness)
        assert (status, told["not_ready"]) == (200, [])
        assert told["upstreams"]["docs"]["state"] == "login_required"
        async with http.get(f"{served.base}/metrics") as answer:
            assert 'armory_upstream_up{server="docs"} 1.0' in await answer.text()


def test_who_need_not_log_in_is_told_so(armory: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "armory.yaml"
    file.write_text(yaml.safe_dump({"upstreams": {"open": {"url": "http://127.0.0.1:1/mcp"}}}))
    for name, says in (("nobody", "there is no such upstream"), ("open", "authorization_code")):
        done = armory("login", name, "--config", str(file))
        assert done.returncode == 2
        assert says in done.stderr
