"""`armory audit` and `armory audit verify`: what they say of what they leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from armory.audit.record import Chain, Entry
from armory.cli.main import main


def entry(number: int) -> Entry:
    return Entry(1_790_000_000.5 + number, "ada", "token:ada", "/mcp", "tools/call", "ok")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (0, "the 0 records before it"),
        (1, "the 1 records before it"),
        (3, "the 3 records before it"),
    ],
)
def test_the_good_records_before_a_bad_one_are_counted(
    wrong: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = Chain()
    lines = [chain.add(entry(number)) for number in range(5)]
    lines[wrong] = b"{}"
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(SystemExit) as ended:
        main(("audit", "verify", "--file", str(file)))
    assert ended.value.code == 1
    shown = capsys.readouterr().out
    assert f"not whole at record {wrong + 1}" in shown
    assert said in shown


@pytest.mark.parametrize(("limit", "told"), [(2, True), (4, False)])
def test_earlier_records_that_are_not_shown_are_told(
    limit: int, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = Chain()
    file = tmp_path / "audit.jsonl"
    file.write_bytes(b"".join(chain.add(entry(number)) + b"\n" for number in range(3)))
    with pytest.raises(SystemExit) as ended:
        main(("audit", "--file", str(file), "--limit", str(limit)))
    assert ended.value.code == 0
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == min(limit, 3)
    assert ("these are the last 2, there may be earlier ones" in shown.err) == told


@pytest.mark.parametrize("command", [("audit",), ("audit", "verify")])
def test_a_file_that_is_named_and_not_there_is_not_blamed_on_the_configuration(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main((*command, "--file", str(tmp_path / "nope.jsonl")))
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "nope.jsonl cannot be read" in " ".join(told.split())
    assert "observability" not in told
