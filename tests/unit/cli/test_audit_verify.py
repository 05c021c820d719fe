"""`armory audit verify`: how much of a chain that is not whole is good."""

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
