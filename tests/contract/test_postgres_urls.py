"""URLs of PostgreSQL as its other clients, and those who host it, write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from armory.errors import BackendError
from armory.storage.database import Database
from armory.testing.servers import PostgresServer, lasting_port

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def named(url: str) -> str:
    """What a connection says of itself."""
    database = Database(url)
    try:
        async with database.read() as connection:
            return (await connection.execute(text("SHOW application_name"))).scalar_one()
    finally:
        await database.close()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ("sslmode=disable", ""),
        ("sslmode=prefer&application_name=armory", "armory"),
        ("ssl=prefer", ""),
        ("connect_timeout=5&sslmode=prefer", ""),
        ("connect_timeout=0", ""),
    ],
)
async def test_parameters_of_a_url_hold(
    postgres_server: PostgresServer, parameters: str, name: str
) -> None:
    assert await named(f"{postgres_server.url()}?{parameters}") == name


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ("sslmode=require", "rejected SSL upgrade"),
        ("sslmode=odd", "`sslmode` parameter must be one of"),
        ("sslmode=verify-full&sslrootcert=/nowhere.pem", "No such file"),
        ("channel_binding=require", 'parameter "channel_binding"'),
        ("connect_timeout=soon", 'parameter "connect_timeout"'),
    ],
)
async def test_what_cannot_hold_is_told(
    postgres_server: PostgresServer, parameters: str, said: str
) -> None:
    with pytest.raises(BackendError, match=f"{said}.*see `storage.url`"):
        await named(f"{postgres_server.url()}?{parameters}")


async def test_what_a_user_may_not_do_is_told(postgres_server: PostgresServer) -> None:
    """Since PostgreSQL 15 only the owner of a database may create tables in it."""
    url = postgres_server.create_database()
    name = url.rpartition("/")[2]
    owners = Database(url)
    async with owners.write() as connection:
        for statement in (
            f"CREATE ROLE {name}_user LOGIN",
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        ):
            await connection.execute(text(statement))
    await owners.close()
    users = Database(url.replace("//armory@", f"//{name}_user@"))
    try:
        with pytest.raises(BackendError, match=r"permission denied for schema public.*`storage"):
            await users.open()
    finally:
        await users.close()


async def test_a_socket_is_named_as_a_parameter(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    with pytest.raises(BackendError, match=r"see `storage\.url`"):
        await named(f"postgresql://armory@/postgres?host={tmp_path}&sslmode=prefer")


async def test_of_several_servers_the_one_that_takes_writes_is_used(
    postgres_server: PostgresServer,
) -> None:
    asked = f"{postgres_server.host}:{postgres_server.port}"
    servers = f"host={postgres_server.host}:{lasting_port()}&host={asked}"
    url = f"postgresql://armory@/postgres?{servers}"
    assert await named(f"{url}&target_session_attrs=read-write&application_name=found") == "found"
    with pytest.raises(BackendError, match=rf"the database .*,{asked}/postgres failed"):
        await named(f"{url}&target_session_attrs=read-only")
