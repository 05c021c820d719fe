"""Which texts ask for something of every day in words that no tool has."""

from __future__ import annotations

import pytest

from armory.retrieval.lexical.everyday import BUILD, CHANNEL, ERRORS, MAILBOX, REMIND, SWITCH
from armory.retrieval.lexical.implied import implied


@pytest.mark.parametrize(
    ("text", "act"),
    [
        ("turn off the lights in the kitchen", SWITCH),
        ("Turn the TV off", SWITCH),
        ("can you turn down the heating please", SWITCH),
        ("set the thermostat to 21 degrees", SWITCH),
        ("lock the front door", SWITCH),
        ("living room turn off light", SWITCH),  # as it comes out of a glossary
        ("what did they say in #general today", CHANNEL),
        ("anything I missed in the team channel?", CHANNEL),
        ("#general in today what written", CHANNEL),
        ("did Anna reply to my email?", MAILBOX),
        ("any news from the lawyer in my inbox?", MAILBOX),
        ("has Petra already on my mail answered?", MAILBOX),
        ("the build is red again", BUILD),
        ("our pipeline has failed", BUILD),
        ("users complain that checkout throws a 500 since noon", ERRORS),
        ("the login service keeps crashing", ERRORS),
        ("Remind me to call mum at 6", REMIND),
        ("could you remind us about the dentist?", REMIND),
        ("don\u2019t let me forget the rent", REMIND),
        ("remind reminder tomorrow meeting", REMIND),  # as it comes out of a glossary
        ("remind of call phone the mother", REMIND),
    ],
)
def test_it_is_asked_for(text: str, act: str) -> None:
    assert act in implied(text)


@pytest.mark.parametrize(
    "text",
    [
        "a light-hearted book to make me laugh",
        "the lights of Paris are beautiful",
        "why do people turn the lights off when they leave?",
        "turn that frown upside down",
        "set up a fan page",
        "write in #general that we deploy",
        "please post the minutes to the team channel",
        "create a channel called ops",
        "what did Kant say about duty?",
        "I need to send a follow-up email to a client who hasn't responded",
        "reply to my mail",
        "did Caesar reply to Brutus?",
        "build the project",
        "what does a 500 error mean?",
        "what is down there?",
        "turn off the light " + "word " * 100,
        "remind me what I told you about Bob",
        "can you remind me of the title of that book?",
        "remind me: which port was it?",
        "remind me when the meeting is",
        "don't let me forget this: the code is 4711",
        "remind me to meditate by sending me messages",
        "remind Ann to send the slides",
        "that reminds me of home",
        "how do I remind myself?",
    ],
)
def test_it_is_not(text: str) -> None:
    assert not {SWITCH, CHANNEL, MAILBOX, BUILD, ERRORS, REMIND} & {*implied(text)}
