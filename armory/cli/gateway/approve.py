"""`armory approve`: accepts changed tool definitions that pinning withholds.

Owns: the command. Never imports a web framework.
"""

from __future__ import annotations

import asyncio

import click

from armory.cli.local import opened, unreached
from armory.cli.options import config_option, json_option, loaded_config
from armory.cli.output import out, print_json, say_notice
from armory.errors import UnknownTool, UpstreamUnavailable
from armory.runtime.blocks.pins import pinning_of
from armory.security.pinning import Changed

_UNREACHABLE = 3


@click.command()
@click.argument("tools", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Approve every changed tool.")
@config_option
@json_option
def approve(tools: tuple[str, ...], everything: bool, config: str | None, as_json: bool) -> None:
    """Approve the present definitions of TOOLS; without any, show what has changed.

    A running gateway applies this with `armory reload`. Exit code 3: some servers could not be
    asked.
    """
    changed, approved, unseen = asyncio.run(_approve(tools, config, everything=everything))
    if as_json:
        print_json(
            {
                "changed": [
                    {
                        "tool": change.name,
                        "pinned": change.pinned,
                        "now": change.now,
                        "difference": change.difference(),
                    }
                    for change in changed
                ],
                "approved": approved,
                "unreachable": unseen,
            }
        )
    else:
        _tell(changed, approved, unseen)
    if unseen and not tools:
        raise SystemExit(_UNREACHABLE)


def _tell(changed: list[Changed], approved: list[str], unseen: dict[str, str]) -> None:
    for key, why in unseen.items():
        say_notice(f"nothing is known of its definitions: upstream {key!r}: {why}")
    for change in changed:
        fate = "approved" if change.name in approved else "changed"
        out().print(f"{fate}: {change.name}", markup=False, soft_wrap=True)
        for line in change.difference():
            style = {"+": "green", "-": "red"}.get(line[:1])
            out().print(f"  {line}", style=style, markup=False, soft_wrap=True)
    if approved:
        say_notice("a gateway that runs takes it over with `armory reload`")
    if not changed:
        others = ", of the servers that answered" if unseen else ""
        out().print(f"No definition has changed{others}.")


async def _approve(
    tools: tuple[str, ...], config: str | None, *, everything: bool
) -> tuple[list[Changed], list[str], dict[str, str]]:
    """What has changed, what of it was approved, and why servers could not be asked."""
    loaded = loaded_config(config)
    async with opened(loaded) as runtime:
        catalog, unseen = runtime.gateway.view.catalog, unreached(runtime)
    pinning = pinning_of(loaded, "block")
    pinning.admit(catalog)
    changed = list(pinning.withheld.values())
    for name in tools:
        if name in catalog.tools:
            continue
        missing = f"no tool is called {name!r}; `armory approve` shows what has changed"
        if unseen:
            key, why = next(iter(unseen.items()))
            raise UpstreamUnavailable(f"{missing}\nupstream {key!r}: {why}")
        raise UnknownTool(missing)
    wanted = [c.name for c in changed if everything or c.name in tools]
    pinning.approve(*(catalog.tools[name] for name in wanted))
    return changed, wanted, unseen
