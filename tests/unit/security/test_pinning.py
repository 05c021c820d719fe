"""Definitions that change under their name."""

from __future__ import annotations

import json
import os
import threading
from datetime import date, timedelta
from pathlib import Path

import pytest
import structlog

from armory.domain.catalog import Catalog, ServerLists
from armory.domain.catalog_builder import build_catalog
from armory.errors import ConfigError
from armory.security.pinning import GONE, REMOVED, REMOVED_DAYS, Pinning
from armory.security.settings import PinningMode


def catalog(description: str) -> Catalog:
    tools = [{"name": "a", "description": description}, {"name": "b"}]
    return build_catalog({"s": ServerLists(tools=tools)})[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "pins.json"


def test_first_sight_is_pinned_and_survives_a_restart(path: Path) -> None:
    first = catalog("one")
    assert Pinning(path, "block").admit(first) is first
    again = Pinning(path, "block")
    assert again.admit(catalog("one")).tools.keys() == first.tools.keys()
    assert list(again.admit(catalog("two")).tools) == ["s__b"]
    assert again.withheld["s__a"].name == "s__a"


def test_each_tool_is_one_line_whatever_it_says(path: Path) -> None:
    tools = [{"name": f"t{place}", "description": f"\ud800\n{place}"} for place in range(300)]
    made = build_catalog({"s": ServerLists(tools=tools)})[0]
    assert Pinning(path, "block", project='a "b"').admit(made) is made
    assert len(path.read_text().splitlines()) == 302
    assert json.loads(path.read_text())["project"] == 'a "b"'
    assert Pinning(path, "block").admit(made) is made


def test_warn_takes_the_new_definition(path: Path) -> None:
    pinning = Pinning(path, "warn")
    pinning.admit(catalog("one"))
    assert list(pinning.admit(catalog("two")).tools) == ["s__a", "s__b"]
    assert list(Pinning(path, "block").admit(catalog("two")).tools) == ["s__a", "s__b"]


def test_approval_lets_it_back(path: Path) -> None:
    pinning = Pinning(path, "block")
    pinning.admit(catalog("one"))
    changed = catalog("two")
    assert "s__a" not in pinning.admit(changed).tools
    pinning.approve(changed.tools["s__a"])
    assert pinning.admit(changed) is changed
    assert Pinning(path, "block").admit(changed) is changed


def test_many_are_approved_in_one_go(path: Path) -> None:
    def described(text: str) -> Catalog:
        tools = [{"name": f"t{number}", "description": text} for number in range(1_000)]
        return build_catalog({"s": ServerLists(tools=tools)})[0]

    pinning = Pinning(path, "block")
    pinning.admit(described("one"))
    changed = described("two")
    assert pinning.admit(changed).tools == {}
    pinning.approve(*changed.tools.values())
    assert pinning.admit(changed) is changed
    assert Pinning(path, "block").admit(changed) is changed
    before = path.stat()
    pinning.approve()  # of nothing: there is nothing to write
    assert path.stat() == before


class Slow(type(Path())):
    """Where the first one who writes waits for the second, as long as that can be."""

    def __fspath__(self) -> str:
        if threading.current_thread().name == "first" and self.suffix:  # of the file itself
            FIRST.set()
            SECOND.wait(1)
        return super().__fspath__()


FIRST, SECOND = threading.Event(), threading.Event()


def test_two_that_are_approved_at_once_are_both_stored(path: Path) -> None:
    def described(text: str) -> Catalog:
        tools = [{"name": name, "description": text} for name in ("a", "b")]
        return build_catalog({"s": ServerLists(tools=tools)})[0]

    Pinning(path, "block").admit(described("one"))
    SECOND.set()
    pinning = Pinning(Slow(path), "block")
    pinning.admit(described("two"))
    FIRST.clear()
    SECOND.clear()
    one, two = pinning.withheld.values()
    first = threading.Thread(target=pinning.take, args=(one,), name="first")
    first.start()
    assert FIRST.wait(20)
    second = threading.Thread(target=lambda: (pinning.take(two), SECOND.set()))
    second.start()
    for thread in (first, second):
        thread.join(20)
    again = Pinning(path, "block")
    assert len(again.judged(described("two")).tools) == 2
    assert not again.withheld


def shown(found: Catalog) -> list[str]:
    return [tool.name for tool in found.tools.values() if tool.server == "s"]


def test_what_a_command_has_approved_is_kept_by_a_gateway_that_pins_another(path: Path) -> None:
    """Until `armory reload` has it take that over."""
    gateway = Pinning(path, "block")
    gateway.admit(named("a", "b", text="one"))
    changed = named("a", "b", text="two")
    assert not shown(gateway.admit(changed))
    command = Pinning(path, "block")
    command.admit(changed)
    command.approve(changed.tools["s__a"])
    grown = named("a", "b", "new", text="two")
    assert shown(gateway.admit(grown)) == ["s__new"]
    gateway.reopen("block", None)
    assert shown(gateway.admit(grown)) == ["s__a", "s__new"]
    assert shown(Pinning(path, "block").admit(grown)) == ["s__a", "s__new"]


def test_a_file_that_is_known_is_not_read_again(path: Path) -> None:
    pinning = Pinning(path, "warn")
    pinning.admit(catalog("one"))
    before, size = path.stat(), len(path.read_bytes())
    path.write_text("x" * size)  # which nobody could read
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    pinning.check("block")
    pinning.reopen("block", ["s"])
    assert list(pinning.admit(catalog("two")).tools) == ["s__b"]
    path.write_text("x")
    with pytest.raises(ConfigError):
        pinning.check("block")
    with pytest.raises(ConfigError):
        pinning.reopen("block", ["s"])
    pinning.check("off")
    pinning.reopen("off", ["s"])
    with pytest.raises(ConfigError):  # nothing is known of what was off
        pinning.reopen("block", ["s"])


def test_what_is_approved_last_counts(path: Path) -> None:
    gateway = Pinning(path, "block")
    gateway.admit(named("a", text="one"))
    two, three = named("a", text="two"), named("a", text="three")
    command = Pinning(path, "block")
    command.admit(two)
    command.approve(two.tools["s__a"])
    gateway.admit(three)
    gateway.take(gateway.withheld["s__a"])
    assert shown(gateway.admit(three)) == ["s__a"]
    assert shown(Pinning(path, "block").admit(three)) == ["s__a"]


def test_a_change_is_shown_line_by_line_with_what_hides_in_it(path: Path) -> None:
    pinning = Pinning(path, "block")
    pinning.admit(catalog("Adds two numbers."))
    again = Pinning(path, "block")
    again.admit(catalog("Adds two numbers.\u200b\u2066"))
    assert again.withheld["s__a"].difference() == [
        "@@ -1,4 +1,4 @@",
        " {",
        '-  "description": "Adds two numbers.",',
        '+  "description": "Adds two numbers.\\u{200b}\\u{2066}",',
        '   "name": "a"',
        " }",
    ]


def test_a_file_of_fingerprints_alone_is_taken_over(path: Path) -> None:
    shared = path.with_name("shared.json")
    shared.parent.mkdir()
    tools = catalog("one").tools.values()
    pins = {f"s/{tool.original_name}": tool.fingerprint for tool in tools}
    shared.write_text(json.dumps({"version": 1, "tools": pins}))
    pinning = Pinning(path, "block", project="here", before=shared)
    assert list(pinning.admit(catalog("two")).tools) == ["s__b"]
    assert pinning.withheld["s__a"].difference() == []
    assert json.loads(path.read_text())["project"] == "here"
    assert shared.exists()


def test_off_looks_at_nothing(path: Path) -> None:
    pinning = Pinning(path, "off")
    pinning.admit(catalog("one"))
    assert pinning.admit(catalog("two")).tools
    assert not path.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"tools": 3}', "{}"])
@pytest.mark.parametrize("mode", ["warn", "block"])
def test_a_foreign_file_is_refused(path: Path, text: str, mode: PinningMode) -> None:
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"security\.pinning"):
        Pinning(path, mode)


def named(*names: str, text: str = "") -> Catalog:
    tools = [{"name": name, "description": text} for name in names]
    other = ServerLists(tools=[{"name": "a"}])
    return build_catalog({"s": ServerLists(tools=tools), "t": other})[0]


@pytest.mark.parametrize("mode", ["warn", "block"])
def test_names_without_end_are_not_all_remembered(path: Path, mode: PinningMode) -> None:
    pinning = Pinning(path, mode)
    pinning.admit(named("first"))
    for place in range(0, 10 * GONE, GONE):
        pinning.admit(named(*(f"t{i}" for i in range(place, place + GONE))))
    pins = json.loads(path.read_text())["tools"]
    assert len(pins) == 2 * GONE + 1  # those that are there, as many that are gone, and `t/a`
    assert {"s/first", "t/a"} < pins.keys()


def test_a_tool_that_goes_and_comes_back_changed_is_noticed(path: Path) -> None:
    pinning = Pinning(path, "block")
    pinning.admit(named("first"))
    pinning.admit(named(*(f"t{i}" for i in range(2 * GONE))))
    pinning.admit(named())
    assert "s__first" not in Pinning(path, "block").admit(named("first", text="other")).tools


def test_tools_of_an_upstream_that_has_not_listed_yet_stay_pinned(path: Path) -> None:
    Pinning(path, "block").admit(named(*(f"t{i}" for i in range(2 * GONE))))
    again = Pinning(path, "block")
    again.admit(build_catalog({"t": ServerLists(tools=[{"name": "new"}])})[0])
    changed = named(*(f"t{i}" for i in range(2 * GONE)), text="other")
    assert list(again.admit(changed).tools) == ["t__a"]


def test_many_changes_at_once_are_counted(path: Path) -> None:
    names = [f"t{i}" for i in range(100)]
    pinning = Pinning(path, "warn")
    pinning.admit(named(*names))
    with structlog.testing.capture_logs() as logged:
        pinning.admit(named(*names, text="other"))
    assert len(logged) < len(names) / 2
    assert logged[-1] == {
        "event": "tool_definitions_changed",
        "log_level": "warning",
        "upstream": "s",
        "tools": len(names),
    }


def test_what_cannot_be_written_leaves_no_file_behind(path: Path) -> None:
    pinning = Pinning(path, "warn")
    path.mkdir(parents=True)  # nothing can take its place
    for description in ("one", "two"):
        with pytest.raises(OSError, match="directory"):
            pinning.admit(catalog(description))
    assert [*path.parent.iterdir()] == [path]
    path.rmdir()
    pinning.admit(catalog("two"))
    assert list(Pinning(path, "block").admit(catalog("three")).tools) == ["s__b"]


def test_an_upstream_that_is_removed_is_remembered_for_a_while(path: Path) -> None:
    began = date(2026, 1, 31)
    there, gone = ["s"], ["other"]

    def pinning(configured: list[str], days: int) -> Pinning:
        today = began + timedelta(days=days)
        return Pinning(path, "block", configured=configured, today=today)

    empty = build_catalog({})[0]
    pinning(there, 0).admit(catalog("one"))
    for days in (1, 50, REMOVED_DAYS + 1):
        pinning(gone, days).admit(empty)
    assert list(pinning(there, REMOVED_DAYS + 1).admit(catalog("two")).tools) == ["s__b"]
    pinning(gone, 300).admit(empty)  # that it came back made it begin anew
    assert list(pinning(there, 301).admit(catalog("two")).tools) == ["s__b"]
    pinning(gone, 302).admit(empty)
    pinning(gone, 303 + REMOVED_DAYS).admit(empty)
    assert json.loads(path.read_text())["tools"] == {}
    changed = catalog("two")
    assert pinning(there, 304 + REMOVED_DAYS).admit(changed) is changed


def test_of_upstreams_that_are_renamed_without_end_the_last_ones_are_remembered(path: Path) -> None:
    pinning = Pinning(path, "block", configured=["u0"])
    pinning.admit(build_catalog({"u0": ServerLists(tools=[{"name": "a"}])})[0])
    for reload in range(REMOVED + 40):
        tools = ServerLists(tools=[{"name": "a"}])
        pinning.judged(build_catalog({f"u{reload}": tools})[0])
        pinning.reopen("block", [f"u{reload + 1}"])
    pinning.store()
    held = json.loads(path.read_text())
    assert [*held["removed"]] == [f"u{reload}" for reload in range(40, REMOVED + 40)]
    assert len(held["tools"]) == REMOVED


def test_what_is_forgotten_is_not_taken_back_from_a_file_that_another_process_wrote(
    path: Path,
) -> None:
    began = date(2026, 1, 31)
    Pinning(path, "block", configured=["s"], today=began).admit(catalog("one"))
    Pinning(path, "block", configured=["other"], today=began).store()
    later = began + timedelta(days=REMOVED_DAYS + 1)
    pinning = Pinning(path, "block", configured=["other"], today=later)
    path.write_text(path.read_text() + "\n")  # another process stores what it has
    pinning.store()
    assert json.loads(path.read_text())["tools"] == {}
