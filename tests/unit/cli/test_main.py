"""The table of subcommands: each entry names what is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from armory.cli.main import COMMANDS, INTERRUPTED, cli, error_json, main, refused_by_the_system

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_is_where_the_table_says(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)
    assert isinstance(found, click.Command)
    assert found.help


def leaves(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    return [leaf for inner in command.commands.values() for leaf in leaves(inner)]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_subcommand_answers_in_json(name: str) -> None:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None
    if name == "schema":  # which is JSON
        return
    lacking = [
        leaf.name
        for leaf in leaves(found)
        if not any("--json" in parameter.opts for parameter in leaf.params)
    ]
    assert lacking == []


@pytest.mark.parametrize(
    ("name", "otherwise"),
    [
        *((name, "upstreams are opened here") for name in ("tools", "search", "call")),
        *((name, "on this machine") for name in ("status", "console", "logs", "reload")),
        ("audit", "what the configuration names is read"),
    ],
)
def test_help_says_who_is_asked_without_a_url(name: str, otherwise: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    (url,) = [found for found in command.params if found.name == "url"]
    assert isinstance(url, click.Option)
    assert otherwise in (url.help or "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tools", "--url", "http://x", "--config", "a.yaml"), "--config"),
        (("search", "x", "--config", "a.yaml", "--url", "http://x"), "--config"),
        (("tools", "--token", "t"), "--token"),
        (("audit", "--token", "t"), "--token"),
        (("audit", "--url", "http://x", "--config", "a.yaml"), "--config"),
        (("usage", "--user", "ann", "forget", "--all"), "--user stands before 'forget'"),
        (("audit", "--json", "verify"), "--json stands before 'verify'"),
        (("audit", "--file", "a.jsonl", "verify"), "--file stands before 'verify'"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(click.UsageError, match=said):
        cli.main(args=list(arguments), standalone_mode=False)


def test_a_folder_that_cannot_be_used_is_told_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.write_text("a file")
    monkeypatch.setenv("ARMORY_HOME", str(home))
    with pytest.raises(OSError) as refused:  # noqa: PT011 - whichever kind the system says
        (home / "pins.json").read_text()
    failure = error_json(refused.value)
    assert failure["exit_code"] == 2
    assert f"{home / 'pins.json'} cannot be used: Not a directory" in failure["message"]
    assert "$ARMORY_HOME" in failure["message"]

    monkeypatch.setenv("ARMORY_HOME", str(home / "below" / "armory"))
    with pytest.raises(OSError) as parent:  # noqa: PT011
        (home / "below").mkdir()
    assert "$ARMORY_HOME" in error_json(parent.value)["message"]

    with pytest.raises(FileNotFoundError) as absent:
        (tmp_path / "absent").read_text()
    assert "$ARMORY_HOME" not in str(refused_by_the_system(absent.value))


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "http://127.0.0.1", "[::1]", ""])
def test_an_address_with_a_port_is_refused_with_its_option(host: str) -> None:
    with pytest.raises(click.BadParameter, match="expected an address or a name alone") as refused:
        cli.main(args=["serve", "--host", host], standalone_mode=False)
    assert "'--host'" in refused.value.format_message()
    assert repr(host) in refused.value.format_message()


@pytest.mark.parametrize("command", ["serve", "status", "version"])
def test_windows_is_told_where_armory_runs(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("armory.cli.main.sys.platform", "win32")
    with pytest.raises(SystemExit) as ended:
        main([command])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: Armory runs on Linux and macOS; on Windows run it in WSL")


def test_hardly_anything_is_imported_before_an_interrupt_ends_it_quietly() -> None:
    program = "import sys; import armory.cli.entry; print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-S", "-c", program],  # what Python's `site` imports is not ours
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    assert {"typing", "enum", "importlib", "re"} & set(ran.stdout.split()) == set()


def test_python_runs_it_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "armory", "frobnicate"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 2
    assert "Usage: armory " in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (b"add", b"\xff"),
        (b"tools", b"--url", b"http://\xff/mcp"),
        (b"call", b"a__b", b'{"text": "\xff"}'),
        (b"call", b"a__b", b"-"),
    ],
)
def test_what_is_no_text_is_named(arguments: tuple[bytes, ...], tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable.encode(), b"-m", b"armory", *arguments],
        input=b'{"text": "\xff"}',
        capture_output=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ARMORY_HOME": str(tmp_path)},
    )
    assert ran.returncode == 2
    assert b"is not UTF-8 text" in ran.stderr


BEFORE_IT_RUNS = """
import gc, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
gc.set_threshold = lambda *_: os.kill(os.getpid(), signal.SIGINT)
sys.argv[1:] = ["version"]
from armory.cli.entry import main
main()
"""


def test_an_interrupt_before_a_command_runs_shows_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", BEFORE_IT_RUNS],
        capture_output=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert (ended.returncode, ended.stderr) == (INTERRUPTED, b"")


AT_IMPORT = """
import importlib, importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == at:
            os.kill(os.getpid(), signal.SIGINT)

at, script, ignored = sys.argv[1:]
sys.meta_path.insert(0, Interrupting())
module, function = script.split(":")
signal.signal(signal.SIGINT, signal.SIG_IGN if ignored == "True" else signal.default_int_handler)
sys.argv[1:] = ["version"]
getattr(importlib.import_module(module), function)()
"""


@pytest.mark.parametrize(
    ("imported", "ignored", "code"),
    [
        ("click", False, -signal.SIGINT),
        ("armory.cli.gateway.version", False, INTERRUPTED),
        ("click", True, 0),
        ("armory.cli.gateway.version", True, 0),
    ],
)
def test_an_interrupt_while_it_is_imported_shows_no_traceback(
    imported: str, ignored: bool, code: int
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    script = project["scripts"]["armory"]
    ended = subprocess.run(
        [sys.executable, "-c", AT_IMPORT, imported, script, str(ignored)],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr.strip()) == (code, b"")
