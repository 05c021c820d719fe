"""What docs/operating.md tells to type is typed, word for word."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import ROOT

pytestmark = [pytest.mark.timeout(900), pytest.mark.redis, pytest.mark.postgres]
_BLOCK = re.compile(r"<!-- cluster: ([^>]+?) -->\n\n```(?:sh|yaml)\n(.*?)```", re.DOTALL)


def test_the_commands_of_the_document_do_what_it_says(
    kubeconfig: str, databases: Any, tmp_path: Path
) -> None:
    redis, postgres = databases
    blocks = dict(_BLOCK.findall((ROOT / "docs" / "operating.md").read_text(encoding="utf-8")))
    env = {
        **os.environ,
        "KUBECONFIG": kubeconfig,
        "POSTGRES_URL": postgres.create_database(),
        "REDIS_URL": redis.url,
    }
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")

    def typed(name: str, code: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", blocks.pop(name)],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=400,
        )  # fmt: skip
        said = done.stdout + done.stderr
        assert (done.returncode != 0) == bool(code), f"{name}: {said}"
        return said

    for name in [name for name in blocks if name.startswith("file ")]:
        (tmp_path / name.removeprefix("file ")).write_text(blocks.pop(name))
    exec_armory = ["kubectl", "-n", "tools", "exec", "deploy/armory", "--", "armory"]

    def armory(*arguments: str) -> str:
        return subprocess.run(
            [*exec_armory, *arguments], env=env, capture_output=True, text=True, check=True
        ).stdout

    try:
        assert "Succeeded" in typed("install")
        assert len(typed("token")) >= 32
        assert "notes__list_notes" in typed("upgrade")
        typed("fails", 1)
        said = typed("why")
        assert "no upstream is called 'nope'" in said
        assert "1/1" in said
        typed("rollback")
        armory("users", "create", "ann")
        typed("save")
        armory("users", "create", "bob")
        typed("restore")
        listed = armory("users", "list")
        assert "ann" in listed
        assert "bob" not in listed
        typed("databases")
        assert "Succeeded" in typed("scale")
        assert re.search(r"^armory +Bound", typed("remove"), re.MULTILINE)
    finally:
        subprocess.run(["helm", "uninstall", "armory", "-n", "tools"], env=env, check=False)
        subprocess.run(
            ["kubectl", "delete", "namespace", "tools", "--wait=false"], env=env, check=False
        )
    assert blocks == {}
