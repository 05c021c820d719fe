"""The key that seals people's logins: made once, kept, and named where its file holds none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from armory.config import Loaded, load_text
from armory.errors import ConfigError
from armory.runtime.blocks.encryption import KEY_FILE, seals
from armory.runtime.doctor.machine import key
from armory.runtime.doctor.sealed import sealed
from armory.security.sealing import Seal
from armory.storage.cache import MemoryCache
from armory.storage.changes import ChangeFeed
from armory.storage.database import Database
from armory.storage.grants import StoredGrants
from armory.storage.logins import StoredLogin


def loaded(home: Path, *keys: str) -> Loaded:
    given = json.dumps({"upstreams": {}, "security": {"encryption_key": keys}})
    return load_text(given, environ={"ARMORY_HOME": str(home)})


def test_a_key_is_made_once_for_its_user_alone(tmp_path: Path) -> None:
    sealed = seals(loaded(tmp_path)).seal(b"a login", "whose")
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    assert seals(loaded(tmp_path)).open(sealed, "whose") == b"a login"


@pytest.mark.parametrize("content", [b"", b"\n", b"half-a-key"])
def test_a_file_that_holds_no_whole_key_is_named_and_left_alone(
    tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / KEY_FILE
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        seals(loaded(tmp_path))
    assert str(file) in str(refused.value)
    assert "damaged" in str(refused.value)
    assert file.read_bytes() == content


def test_a_key_in_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    sealed = seals(loaded(tmp_path)).seal(b"a login", "whose")
    (tmp_path / f"{KEY_FILE}.{os.getpid()}").mkdir()  # no file of this process can be made
    assert seals(loaded(tmp_path)).open(sealed, "whose") == b"a login"


def test_a_key_that_others_can_read_is_taken_from_them(tmp_path: Path) -> None:
    seals(loaded(tmp_path))
    (tmp_path / KEY_FILE).chmod(0o644)
    seals(loaded(tmp_path))
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_the_doctor_looks_at_the_file_and_makes_none(tmp_path: Path) -> None:
    assert list(key(loaded(tmp_path))) == []
    assert not (tmp_path / KEY_FILE).exists()
    seals(loaded(tmp_path))
    (found,) = key(loaded(tmp_path))
    assert found.state == "ok"
    (tmp_path / KEY_FILE).write_text("half-a-key")
    (found,) = key(loaded(tmp_path))
    assert (found.state, "damaged" in found.detail) == ("failed", True)
    assert "encryption_key" in found.fix


@pytest.mark.anyio
async def test_the_doctor_says_which_keys_are_still_needed(tmp_path: Path) -> None:
    old, new = "a-secret-of-some-length", "another-secret-of-some-length"
    assert await sealed(loaded(tmp_path, new)) == []
    config = loaded(tmp_path, old).config
    database = Database(config.storage.url)
    await database.open()
    feed = ChangeFeed(database, MemoryCache())
    await StoredLogin(database, feed, Seal([old]), "user:ann", "docs").save(b"a login")
    await StoredLogin(database, feed, Seal([new]), "user:bob", "docs").save(b"a login")
    grants = StoredGrants(database, feed, Seal([new]))
    await grants.begin("an-id", 600)
    await grants.take("an-id", 0, b"a grant", 600)
    await database.close()
    (told,) = await sealed(loaded(tmp_path, new, old))
    assert (told.state, "1 of 3 logins need an older key" in told.detail) == ("ok", True)
    (told,) = await sealed(loaded(tmp_path, new))
    assert (told.state, told.detail) == ("warning", "no key opens 1 of 3 logins")
    (told,) = await sealed(loaded(tmp_path, old, new))
    assert "2 of 3" in told.detail
