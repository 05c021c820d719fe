"""PostgreSQL behind a pooler that gives each transaction whichever connection is free."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir

import pytest
from sqlalchemy import text

from armory.accounts.query_log import QueryRecord
from armory.accounts.service import Accounts
from armory.accounts.settings import AccountSettings
from armory.storage.cache import MemoryCache
from armory.storage.database import Database
from armory.testing.servers import PostgresServer, lasting_port

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
WITHIN = "?prepared_statement_cache_size=0"


@pytest.fixture
def pooler(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """URL of a new database behind pgbouncer in transaction mode."""
    binary = shutil.which("pgbouncer")
    if binary is None:
        pytest.skip("pgbouncer is not installed")
    name = postgres_server.create_database().rpartition("/")[2]
    port, file = lasting_port(), tmp_path / "pgbouncer.ini"
    (tmp_path / "users").write_text('"armory" ""\n')
    file.write_text(
        f"[databases]\n* = host={postgres_server.host} port={postgres_server.port}\n"
        f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        f"auth_type = trust\nauth_file = {tmp_path / 'users'}\npool_mode = transaction\n"
        "default_pool_size = 3\n"
    )
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    if os.getuid() == 0:
        temporary = Path(gettempdir())
        for each in (tmp_path, *tmp_path.parents):
            if temporary in each.parents:
                each.chmod(0o755)
    command = [*(as_user if os.getuid() == 0 else []), binary, str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("process up" in line for line in process.stderr)
        try:
            yield f"postgresql://armory@127.0.0.1:{port}/{name}"
        finally:
            process.terminate()


async def test_accounts_work_behind_a_pooler(pooler: str) -> None:
    settings = AccountSettings(enabled=True, plans={"free": 1_000})
    replicas = [Accounts(Database(f"{pooler}{WITHIN}"), MemoryCache(), settings) for _ in range(3)]

    async def work(accounts: Accounts, who: str) -> None:
        for _ in range(10):
            _, key = await accounts.keys.create(who)
            assert (await accounts.keys.identify(key)) is not None
            await accounts.plans.spend(who)
            accounts.usage.called(who, "mail__send", ok=True, latency_ms=1.0)
            accounts.query_log.add(QueryRecord("q", who, "v1", "mail", ("a",), 1, 0.5, 1.0))
            await accounts.flush()
            await accounts.usage.refresh()

    async with asyncio.timeout(120):
        await asyncio.gather(*(accounts.open() for accounts in replicas))
        try:
            each = (work(one, f"u{place}") for one in replicas for place in range(4))
            await asyncio.gather(*each)
            found = await replicas[0].query_log.recent(user="u0")
            assert len(found) == 30
            assert found[0].returned == ("a",)
        finally:
            for accounts in replicas:
                await accounts.close()


async def test_nothing_that_is_prepared_outlasts_a_transaction(
    postgres_server: PostgresServer,
) -> None:
    database = Database(f"{postgres_server.create_database()}{WITHIN}")
    await database.open()
    try:
        async with database.read() as connection:
            found = await connection.execute(text("SELECT name FROM pg_prepared_statements"))
            assert found.all() == []
    finally:
        await database.close()
