"""What is built where a toolchain is: what is missing is said, what does not build is an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.protocol.conformance import built as finding
from tests.protocol.conformance.prepare import Command, Toolchain, build


def toolchain(
    fetch: str = "true", make: str = "true", *, needs: str = "sh", told: str = "v9.1"
) -> Toolchain:
    def commands(out: Path) -> tuple[list[Command], list[Command]]:
        return [Command(["sh", "-c", fetch], out)], [Command(["sh", "-c", make], out)]

    return Toolchain("Any", (needs,), ["echo", told], (2, 10), commands)


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (toolchain(needs="no-such-program"), "no Any toolchain"),
        (toolchain(told="v2.9.9"), "the Any toolchain is older than 2.10"),
        (toolchain(told="who knows"), "the Any toolchain is older than 2.10"),
        (
            toolchain(r"echo so; printf '\033[0mError: no route\n' >&2; exit 3"),
            "Any: sh cannot fetch: Error: no route",
        ),
        (toolchain("exit 3"), "Any: sh cannot fetch: exit status 3"),
        (toolchain(make="echo > program"), ""),
    ],
)
def test_what_is_missing_is_said(tmp_path: Path, made: Toolchain, why: str) -> None:
    assert build(made, tmp_path) == why
    assert (tmp_path / "program").exists() is not bool(why)


def test_what_does_not_build_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        build(toolchain(make="exit 1"), tmp_path)


def test_a_test_is_skipped_with_the_reason_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARMORY_TEST_SDKS", str(tmp_path))
    (tmp_path / "go").mkdir()
    with pytest.raises(AssertionError, match="anew"):
        finding.built("go", "client")
    (tmp_path / "go" / "missing").write_text("no Go toolchain", encoding="utf-8")
    with pytest.raises(pytest.skip.Exception, match=r"^no Go toolchain \(toolchain\)$"):
        finding.built("go", "client")
    (tmp_path / "go" / "missing").unlink()
    (tmp_path / "go" / "client").touch()
    assert finding.built("go", "client") == tmp_path / "go" / "client"
