"""Multi-step retrieval: a task of several phases gets the tools of each phase, when it comes.

Run: python examples/multi_step_retrieval.py
"""

from __future__ import annotations

import asyncio

from demo_gateway import armory

PHASES = {
    "find out": "what is the current time in a time zone",
    "write down": "add a new note",
    "tidy up": "archive a note that is not needed any more",
}


async def main() -> None:
    """Retrieve for each phase, then for the whole task at once."""
    async with armory() as gateway:
        offered: dict[str, list[str]] = {}
        for phase, query in PHASES.items():
            found = await gateway.retrieve(query, top_k=3)
            offered[phase] = [tool["name"] for tool in found["tools"]]
            print(f"{phase}: {', '.join(offered[phase])}")
        assert "time__get_current_time" in offered["find out"]
        assert "notes__add_note" in offered["write down"]
        assert "notes__archive_note" in offered["tidy up"]

        # Each phase has three tools in its prompt; one retrieval for everything needs them all.
        whole = await gateway.retrieve(" and then ".join(PHASES.values()), top_k=9)
        together = {name for names in offered.values() for name in names}
        print(f"at once: {len(whole['tools'])} tools; by phases: at most 3 of {len(together)}")
        assert all(len(names) == 3 for names in offered.values())


if __name__ == "__main__":
    asyncio.run(main())
