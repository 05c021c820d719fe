"""Wishes of every day list the tools that no word of theirs finds, in other languages as well."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from armory.domain.query import Query
from armory.domain.tool import ToolRecord
from armory.retrieval.registry import build_retriever

TOOLS = {
    "home__call_service": "Call a Home Assistant service. MODIFIES system state. Examples:"
    " number.set_value, light.turn_on, climate.set_temperature, switch.turn_on, etc.",
    "home__get_entity_state": "Get the state of an entity",
    "home__list_entities": "List all entities",
    "home__create_automation": "Create an automation",
    "home__restart": "Restart Home Assistant",
    "chat__read_messages": "Retrieves messages from a text channel with a configurable limit",
    "chat__send": "Sends a message to a text channel",
    "chat__delete_channel": "Deletes a channel from the server",
    "mail__search_emails": "Searches for emails using search syntax",
    "mail__send_email": "Sends a new email",
    "mail__delete_label": "Deletes a label",
    "ci__list_builds": "List the builds of an organization, filtered by branch and state",
    "ci__create_build": "Create a new build on a pipeline for a commit and a branch",
    "ci__unblock_job": "Unblock a job",
    "logs__find_error_pattern_logs": "Searches logs for elevated error patterns",
    "plan__create_event": "Create a new calendar event",
    "plan__delete_event": "Delete a calendar event",
    "logs__list_labels": "List label names in the datasource",
}
ASKED = [
    ("turn off the lights in the kitchen", "home__call_service"),
    ("mach das Licht im Wohnzimmer aus", "home__call_service"),
    ("zet de lamp in de keuken uit", "home__call_service"),
    ("リビングの電気を消して", "home__call_service"),
    ("रसोई की लाइट बंद करो", "home__call_service"),
    ("what did they talk about in #random yesterday", "chat__read_messages"),
    ("was haben die Leute gestern in #random geschrieben", "chat__read_messages"),
    ("¿qué se ha dicho en #general hoy?", "chat__read_messages"),
    ("did Peter ever answer my mail about the contract?", "mail__search_emails"),
    ("der Build ist schon wieder rot", "ci__list_builds"),
    ("remind me to call mum at six", "plan__create_event"),
    ("don't let me forget the rent", "plan__create_event"),
    ("erinner mich an die Rechnung", "plan__create_event"),
    ("przypomnij mi o rachunku", "plan__create_event"),
    ("ricordami di chiamare la mamma", "plan__create_event"),
    ("users complain that checkout throws a 500 since noon", "logs__find_error_pattern_logs"),
]

pytestmark = pytest.mark.anyio
MakeTool = Callable[..., ToolRecord]


async def test_what_is_wished_every_day_is_listed(make_tool: MakeTool) -> None:
    made = [
        make_tool(key.partition("__")[2], text, key.partition("__")[0])
        for key, text in TOOLS.items()
    ]
    made += [make_tool(f"t{i}", f"Opens valve {i} of the pump", "plant") for i in range(60)]
    async with build_retriever() as retriever:
        await retriever.index(made)
        for asked, wanted in ASKED:
            found = await retriever.search(Query((asked,)))
            assert wanted in [match.tool.name for match in found.matches], asked
        for talk in (
            "the lights of Paris",
            "what did Kant say about duty?",
            "आपका बहुत धन्यवाद",
            "that reminds me of you",
        ):
            found = await retriever.search(Query((talk,)))
            assert "plan__create_event" not in [match.tool.name for match in found.matches]
            assert "home__call_service" not in [match.tool.name for match in found.matches]
            assert "chat__read_messages" not in [match.tool.name for match in found.matches]
