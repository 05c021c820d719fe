"""What small models really write, and what is made of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armory.agent.parse import parse_step

GOOD = 'Thought: look\nAction: vector_search\nAction Input: {"query": "deploy", "top_k": 3}'
WANTED = {"query": "deploy", "top_k": 3}


def test_a_well_formed_turn_needs_no_repair() -> None:
    step = parse_step(GOOD)
    assert (step.thought, step.action, step.arguments) == ("look", "vector_search", WANTED)
    assert step.repairs == ()
    assert step.final_answer is None


def test_a_final_answer_ends_the_turn() -> None:
    step = parse_step("Thought: enough\nFinal Answer: use git__commit#0\nand git__push#0")
    assert step.final_answer == "use git__commit#0\nand git__push#0"
    assert step.action is None


FORMS = {
    "fence around all": f"```\n{GOOD}\n```",
    "fence around the input": (
        "Thought: look\nAction: vector_search\nAction Input:\n```json\n"
        '{"query": "deploy", "top_k": 3}\n```'
    ),
    "inline fence": (
        'Thought: look\nAction: vector_search\nAction Input: ```{"query": "deploy", "top_k": 3}```'
    ),
    "backticks around the name": GOOD.replace("vector_search", "`vector_search`"),
    "bold labels": GOOD.replace("Thought:", "**Thought:**").replace("Action:", "**Action:**"),
    "headings": GOOD.replace("Thought:", "### Thought:").replace("Action:", "### Action:"),
    "numbered labels": GOOD.replace("Thought:", "Thought 1:").replace("Action:", "Action 1:"),
    "other case": GOOD.replace("Thought", "THOUGHT").replace("Action Input", "action input"),
    "underscore": GOOD.replace("Action Input", "Action_Input"),
    "one word": GOOD.replace("Action Input", "ActionInput"),
    "full-width colon": GOOD.replace("Action: ", "Action\uff1a "),
    "thinking tags": f"<think>Hm, {{}} Action: nothing yet</think>\n{GOOD}",
    "thinking tags, upper case": f"<THINKING>hm</THINKING>{GOOD}",
    "closing thinking tag alone": f"I should search.\nAction: keyword_search\n</think>\n{GOOD}",
    "thinking tag never closed": f"<think>\n{GOOD}",
    "several actions": f"{GOOD}\nAction: keyword_search\nAction Input: {{\"query\": \"other\"}}",
    "invented observation": (
        f"{GOOD}\nObservation: found it\nThought: done\nFinal Answer: git__push"
    ),
    "trailing text": f"{GOOD}\n\nI hope this helps!",
    "trailing text on the line": f"{GOOD} Let me know.",
    "trailing comma": GOOD.replace("3}", "3,}"),
    "bare keys": GOOD.replace('"query"', "query").replace('"top_k"', "top_k"),
    "python quotes": GOOD.replace('"', "'"),
    "bare keys, python quotes": (
        GOOD.replace('"query"', "query").replace('"top_k"', "top_k").replace('"', "'")
    ),
    "bare keys, python quotes, trailing comma": (
        GOOD.replace('"query"', "query").replace('"', "'").replace("3}", "3,}")
    ),
    "typographic single quotes": GOOD.replace('"', "\u2019"),
    "typographic quotes": GOOD.replace('"', "\u201d"),
    "unfinished object": GOOD[:-1],
    "call with keywords": 'Thought: look\nAction: vector_search(query="deploy", top_k=3)',
    "call with positions": 'Thought: look\nAction: vector_search("deploy", 3)',
    "input beside the name": GOOD.replace("\nAction Input: ", " "),
    "key and value lines": (
        "Thought: look\nAction: vector_search\nAction Input:\nquery: deploy\ntop_k: 3"
    ),
    "an object in a string": (
        'Thought: look\nAction: vector_search\nAction Input: "{\\"query\\": \\"deploy\\", '
        '\\"top_k\\": 3}"'
    ),
    "one object": (
        '{"thought": "look", "action": "vector_search", "action_input": '
        '{"query": "deploy", "top_k": 3}}'
    ),
    "one object, arguments in a string": (
        '{"thought": "look", "action": "vector_search", "action_input": '
        '"{\\"query\\": \\"deploy\\", \\"top_k\\": 3}"}'
    ),
    "tool call": (
        'Thought: look\n<tool_call>\n{"name": "vector_search", "arguments": '
        '{"query": "deploy", "top_k": 3}}\n</tool_call>'
    ),
    "function call": (
        '{"thought": "look", "function": {"name": "vector_search", "arguments": '
        '{"query": "deploy", "top_k": 3}}}'
    ),
    "object as the action": (
        'Thought: look\nAction: {"name": "vector_search", "parameters": '
        '{"query": "deploy", "top_k": 3}}'
    ),
    "object as the input": (
        'Thought: look\nAction Input: {"action": "vector_search", "input": '
        '{"query": "deploy", "top_k": 3}}'
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_malformed_actions_are_repaired(form: str) -> None:
    step = parse_step(FORMS[form])
    assert (step.action, step.arguments) == ("vector_search", WANTED), step
    assert step.final_answer is None


@pytest.mark.parametrize(
    "form", [name for name in FORMS if not name.startswith(("thinking", "closing", "one object"))]
)
def test_the_thought_survives_the_repair(form: str) -> None:
    assert parse_step(FORMS[form]).thought.strip("* ") == "look"


REPAIRED = (
    "fence around all", "thinking tags", "closing thinking tag alone", "thinking tag never closed",
    "several actions", "invented observation", "trailing text", "trailing comma", "python quotes",
    "unfinished object", "call with keywords", "tool call", "one object",
)  # fmt: skip


@pytest.mark.parametrize("form", REPAIRED)
def test_every_repair_is_told(form: str) -> None:
    assert parse_step(FORMS[form]).repairs


def test_a_bare_text_is_the_query() -> None:
    step = parse_step("Action: keyword_search\nAction Input: error E1042 in the log")
    assert step.arguments == {"query": "error E1042 in the log"}


@pytest.mark.parametrize(
    ("written", "query"),
    [
        ('{"query": "send a mes', "send a mes"),
        ('{"query": "deploy", "top_k":', "deploy"),
        ('{"query": "deploy", "to', "deploy"),
        ('{"query": "say \\"hi\\" to', 'say "hi" to'),
        ('{"query": "two\nlines"}', "two\nlines"),
        ('{query: "a: b, c: d", top_k: 3}', "a: b, c: d"),
        ('{"query": "files [a,] and {b: c}", top_k: 3,}', "files [a,] and {b: c}"),
        ('{query: "say \\", x: y", top_k: 3', 'say ", x: y'),
        ('{query: "never, closed: he', "never, closed: he"),
    ],
)
def test_half_json_gives_what_is_whole(written: str, query: str) -> None:
    step = parse_step(f"Action: vector_search\nAction Input: {written}")
    assert step.arguments is not None
    assert step.arguments["query"] == query


@pytest.mark.parametrize("written", ["{]", "{{{{", '{"a" "b"}', "{1: [2}", "{"])
def test_json_beyond_repair_is_left_to_the_loop(written: str) -> None:
    step = parse_step(f"Action: vector_search\nAction Input: {written}")
    assert step.action == "vector_search"
    assert step.arguments is None
    assert step.raw_input == written


@pytest.mark.parametrize(
    "inner", ['{"deploy a build"}', "{...}", "{'query': {'a', 'b'}}", "{'query': b'x'}"]
)
def test_what_only_python_can_write_is_left_to_the_loop(inner: str) -> None:
    step = parse_step(f"Action: vector_search\nAction Input: {inner}")
    assert (step.action, step.arguments) == ("vector_search", None)
    whole = parse_step(f'{{"action": "vector_search", "action_input": {inner}}}')
    assert (whole.action, whole.arguments, whole.final_answer) == (None, None, None)
    assert whole.problem


@pytest.mark.parametrize(
    "text",
    [
        'Action: vector_search\nAction Input: {"query": "party \\ud83d"}',
        'Action: vector_search\nAction Input: {"query": "party \\ud83d',
        '{"action": "vector_search", "action_input": {"query": "party \\ud83d"}}',
        "Action: vector_search\nAction Input: {'query': 'party \\ud83d'}",
    ],
    ids=["json", "unfinished", "one object", "python"],
)
def test_half_a_character_does_not_keep_the_rest_from_being_told(text: str) -> None:
    step = parse_step(text)
    assert step.arguments == {"query": "party ?"}
    json.dumps([step.arguments, step.raw_input], ensure_ascii=False).encode()


def test_an_unknown_action_is_left_to_the_loop() -> None:
    step = parse_step('Action: google\nAction Input: {"query": "x"}')
    assert step.action == "google"


@pytest.mark.parametrize(
    "text",
    [
        "Action: Final Answer\nAction Input: use git__push",
        "Thought: done\nAction: none\nFinal Answer: use git__push",
        "**Final Answer:** use git__push",
        "```\nFinal Answer: use git__push\n```",
        '{"thought": "done", "final_answer": "use git__push"}',
        '{"Final Answer": "use git__push"}',
        "<think>x</think>Final Answer: use git__push",
    ],
)
def test_final_answers_in_disguise(text: str) -> None:
    assert parse_step(text).final_answer == "use git__push"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"final_answer": ["git__push#0", "git__commit#0"]}', "git__push#0\ngit__commit#0"),
        ('{"final_answer": {"tools": ["git__push#0"]}}', '{"tools": ["git__push#0"]}'),
        (
            "Final Answer: use\n- Action: git__push#0 sends it\n1. Thought: git__commit#0",
            "use\n- Action: git__push#0 sends it\n1. Thought: git__commit#0",
        ),
        ("**Final Answer:** use a#0\n**Observation:** invented", "use a#0"),
        ("- Thought: enough\n- Final Answer: use a#0\n- Observation: invented", "use a#0"),
        ("2. Final Answer: use a#0\n3. Observation: invented", "use a#0"),
    ],
)
def test_final_answers_with_lists(text: str, answer: str) -> None:
    step = parse_step(text)
    assert step.final_answer == answer
    assert not step.problem


def test_an_action_before_the_final_answer_comes_first() -> None:
    step = parse_step(f"{GOOD}\nFinal Answer: premature")
    assert step.action == "vector_search"
    assert step.final_answer is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("<think>only thoughts</think>", "empty"),
        ("I would search for deploy tools.", "none of the fields"),
        ("Thought: I am not sure", "names no Action"),
        ("Thought: hm\nAction:", "names no Action"),
        ("Thought: hm\nAction: none", "names no Action"),
        ("Final Answer:", "names no Action"),
        ("\u0000\ufffd{{{", "none of the fields"),
        ("[1, 2, 3]", "none of the fields"),
    ],
)
def test_what_cannot_be_read_says_why(text: str, problem: str) -> None:
    step = parse_step(text)
    assert problem in step.problem
    assert step.action is None
    assert step.final_answer is None


_PIECES = st.sampled_from([
    "Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:", "\n", "{", "}", '"',
    "'", "query", ":", ",", "vector_search", "<think>", "</think>", "```", "```json\n", "\\", "(",
    ")", "[", "]", " ", "top_k", "=", "3", "\u201c", "none",
])  # fmt: skip


@given(st.one_of(st.text(max_size=400), st.lists(_PIECES, max_size=60).map("".join)))
def test_nothing_that_a_model_writes_breaks_the_parser(text: str) -> None:
    step = parse_step(text)
    ways = [step.action is not None, step.final_answer is not None, bool(step.problem)]
    assert ways.count(True) == 1
