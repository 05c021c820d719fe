"""The program of a stdio server: found, or told why not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from armory.errors import UpstreamUnavailable
from armory.testing.clients.recording import RecordingObserver
from armory.upstreams.session.context import LinkContext
from armory.upstreams.spec import UpstreamSpec
from armory.upstreams.transports.programs import Unusable, program_of, refused
from armory.upstreams.transports.stdio import StdioLink


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "text").write_text("")
    return tmp_path


def test_a_program_is_found_by_name_and_by_path(folder: Path) -> None:
    assert program_of("run.sh", str(folder), None) == str(folder / "run.sh")
    for command in ("./run.sh", f"../{folder.name}/run.sh", str(folder / "run.sh")):
        assert program_of(command, "", str(folder)) == command


@pytest.mark.parametrize(
    ("command", "why", "fix"),
    [
        ("npx", "command 'npx' was not found on the PATH", "install it or give its full path"),
        ("python -m x", "command 'python -m x' was not", "belongs into 'args'"),
        ("run.sh", "command 'run.sh' was not found on the PATH", "write './run.sh' for the file"),
        ("./none", "command './none' does not exist", "correct it"),
        ("/bin/env python", "command '/bin/env python' does not exist", "belongs into 'args'"),
        ("./", "command './' is a folder", "a program in it"),
        ("./text", "command './text' is not executable", "chmod +x"),
        ("text", "command 'text' was not found on the PATH", "write './text' for the file"),
    ],
)
def test_what_is_no_program_is_told_with_the_fix(
    folder: Path, command: str, why: str, fix: str
) -> None:
    with pytest.raises(Unusable) as caught:
        program_of(command, "/nowhere", str(folder))
    assert caught.value.why.startswith(why)
    assert fix in caught.value.fix
    assert str(caught.value) == f"{caught.value.why}; {caught.value.fix}"


def test_what_the_system_alone_can_say_stays(folder: Path) -> None:
    error = OSError(errno.E2BIG, "Argument list too long")
    assert refused(error, "./run.sh") is error


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mode", "text", "message"),
    [
        (0o644, "#!/bin/sh\n", "is not executable; make it so"),
        (0o755, "print(1)\n", "is no program, and does not begin with a line as #!"),
        (0o755, "#!/no/such/python\n", "the interpreter that its first line names"),
    ],
)
async def test_a_script_that_cannot_start_says_why(
    tmp_path: Path, mode: int, text: str, message: str
) -> None:
    file = tmp_path / "run.py"
    file.write_text(text)
    file.chmod(mode)
    link = StdioLink(LinkContext(UpstreamSpec("up", command=str(file)), {}, RecordingObserver()))
    with pytest.raises(UpstreamUnavailable, match=f"run.py' .*{message}.*'command'.*'args'"):
        await link.open()
    await link.close()
