"""Parsing the text of a model into one step of the loop.

Owns: reading Thought, Action, Action Input and Final Answer, also when a small model writes them
wrongly. Never imports the loop, and never fails: what cannot be read is described in
`Step.problem`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any, cast

from armory.agent.repair import parse_arguments, parse_object
from armory.agent.thinking import without_thinking

_FIELD = re.compile(
    r"^[ \t]*+(?:[-*>#]++[ \t]*+|\d++[.)][ \t]*+)*+[*_`\"']*+"
    r"(?P<name>thought|action[ _-]?input|action|observation|final[ _-]?answer)"
    r"[*_`\"']*+[ \t]*+(?:\d++[ \t]*+)?+[:\uff1a][*_`]*+[ \t]*+",
    re.IGNORECASE | re.MULTILINE,
)
_LISTED = re.compile(r"[ \t]*+(?:[-*>]|\d++[.)])[ \t]")
_TEXT = re.compile(r"\s*+\S")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n`]*$", re.MULTILINE)
_INLINE_FENCE = re.compile(r"```(?:json|text|python)?[ \t]*|```")
_TAGGED = re.compile(r"</?(?:tool_call|tool|function_call|action)>|<\|[a-z_]+\|>", re.IGNORECASE)
_NO_ACTION = frozenset({"", "none", "n/a", "na", "no action", "finish", "stop", "done", "-"})
_ACTION_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_BETWEEN_WORDS = re.compile(r"[ _-]")
_MAX_CHARS = 60_000
_NAMES = {
    "thought": "thought",
    "action": "action",
    "actioninput": "action_input",
    "observation": "observation",
    "finalanswer": "final_answer",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One turn of the model.

    Attributes:
        thought: its reasoning, "" when it wrote none.
        action: the tool that it names; None when it names none.
        arguments: the Action Input as an object; None when it cannot be read as one.
        raw_input: the Action Input as written.
        final_answer: set when the model is done; then `action` is None.
        problem: what was wrong with a turn that has neither, else "".
        repairs: what had to be put right, in words, for the trace.
    """

    thought: str = ""
    action: str | None = None
    arguments: dict[str, Any] | None = None
    raw_input: str = ""
    final_answer: str | None = None
    problem: str = ""
    repairs: tuple[str, ...] = ()


@dataclass(slots=True)
class _Notes:
    repairs: list[str] = field(default_factory=list[str])

    def add(self, text: str) -> None:
        if text not in self.repairs:
            self.repairs.append(text)


def parse_step(text: str) -> Step:
    """Read one turn. The first action, or the final answer before any action, counts.

    Everything after the first complete action is left out: a model that writes several actions, or
    invents the observations, gets its first action carried out and sees what is really there.
    """
    notes = _Notes()
    body, thinking = without_thinking(text[:_MAX_CHARS], notes.add)
    body = _without_fences(body, notes)
    fields = _fields(body)
    if not any(name in ("action", "final_answer", "action_input") for name, _ in fields):
        before = (_first(fields, "thought") or "").partition("{")[0].strip()
        step = _from_object(body, before or thinking, notes)
        if step is not None:
            return step
    thought = _first(fields, "thought")
    if thought is None:
        thought = body[: _FIELD.search(body).start()].strip() if fields else ""  # pyright: ignore[reportOptionalMemberAccess] # there are fields
        thought = thought or thinking
    step = _decide(fields, thought, notes)
    if step is not None:
        return step
    return Step(thought or thinking, problem=_problem(fields, body), repairs=tuple(notes.repairs))


def _decide(fields: list[tuple[str, str]], thought: str, notes: _Notes) -> Step | None:
    """The first field that determines what the turn is."""
    for position, (name, value) in enumerate(fields):
        step: Step | None = None
        if name == "final_answer":
            answer = value.strip("`\n\t ")
            step = Step(thought, final_answer=answer) if answer else None
        elif name == "action":
            step = _action(value, fields[position + 1 :], thought, notes)
        elif name == "action_input":
            found = parse_object(value, notes.add)
            step = _called(found, thought, notes) if found is not None else None
        if step is not None:
            return replace(step, repairs=tuple(notes.repairs))
    return None


def _problem(fields: list[tuple[str, str]], body: str) -> str:
    if fields:
        return "it names no Action and gives no Final Answer"
    if not body.strip():
        return "it is empty"
    return "it has none of the fields Thought, Action, Action Input, Final Answer"


def _without_fences(body: str, notes: _Notes) -> str:
    bare = _INLINE_FENCE.sub("", _FENCE.sub("", body))
    if bare != body:
        notes.add("code fences taken out")
    tagless = _TAGGED.sub("\n", bare)
    if tagless != bare:
        notes.add("tool-call tags taken out")
    return tagless


def _fields(body: str) -> list[tuple[str, str]]:
    """(normalised name, value) of every labelled field, in order.

    What an answer lists may begin with the same words: `- Action: git__push#0`.
    """
    found: list[re.Match[str]] = []
    for match in _FIELD.finditer(body):
        if not found or not _inside(body, found[-1], match):
            found.append(match)
    ends = [m.start() for m in found[1:]] + [len(body)]
    return [(_name_of(m), body[m.end() : end].strip()) for m, end in zip(found, ends, strict=False)]


def _name_of(label: re.Match[str]) -> str:
    return _NAMES[_BETWEEN_WORDS.sub("", label["name"].lower())]


def _inside(body: str, before: re.Match[str], label: re.Match[str]) -> bool:
    """Whether a label belongs to the answer before it, which has begun and is not in a
    list itself.
    """
    return (
        _name_of(before) == "final_answer"
        and _listed(body, label)
        and not _listed(body, before)
        and _TEXT.match(body, before.end(), label.start()) is not None
    )


def _listed(body: str, label: re.Match[str]) -> bool:
    """Whether a label stands in a list."""
    return _LISTED.match(body, label.start()) is not None


def _first(fields: list[tuple[str, str]], wanted: str) -> str | None:
    return next((value for name, value in fields if name == wanted), None)


def _action(value: str, rest: list[tuple[str, str]], thought: str, notes: _Notes) -> Step | None:
    """The step that an Action field begins; None when it names no action."""
    written = value.strip().strip("*`\"'[] ")
    if written.lower().rstrip(".") in _NO_ACTION:
        return None
    given = _input_of(rest)
    if _BETWEEN_WORDS.sub("", written.splitlines()[0].lower()) == "finalanswer":
        notes.add("Final Answer written as an action")
        answer = (given or "\n".join(written.splitlines()[1:])).strip()
        return Step(thought, final_answer=answer, repairs=tuple(notes.repairs)) if answer else None
    as_object = parse_object(written, notes.add) if written.startswith("{") else None
    if as_object is not None:
        return _called(as_object, thought, notes)
    match = _ACTION_NAME.search(written)
    if match is None:
        return None
    name, tail = match.group(), written[match.end() :].strip()
    later = [field_name for field_name, _ in rest]
    if "action" in later:
        notes.add("further actions left out")
    if "observation" in later:
        notes.add("an invented observation left out")
    if given is None and tail:
        notes.add("Action Input found beside the action's name")
        given = tail
    raw = given or ""
    arguments = parse_arguments(raw, notes.add) if raw else None
    return Step(thought, name, arguments, raw, repairs=tuple(notes.repairs))


def _input_of(rest: list[tuple[str, str]]) -> str | None:
    """The input of an action: the field behind it, or behind a thought that comes between. One that
    comes later belongs to a later action.
    """
    following = rest[1:] if len(rest) > 1 and rest[0][0] == "thought" else rest
    return following[0][1] if following and following[0][0] == "action_input" else None


def _named(found: dict[str, Any]) -> str | None:
    for key in ("action", "name", "tool", "tool_name", "function"):
        value = found.get(key)
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get("name")
        if isinstance(value, str) and value.strip():
            return value.strip()
    return None


def _called(found: dict[str, Any], thought: str, notes: _Notes) -> Step | None:
    """A step out of `{"action": ..., "action_input": {...}}` and its cousins."""
    name = _named(found)
    if name is None or name.lower() in _NO_ACTION:
        return None
    inner: dict[str, Any] = found
    if isinstance(found.get("function"), dict):
        inner = cast("dict[str, Any]", found["function"])
    for key in ("action_input", "actionInput", "arguments", "parameters", "input", "args"):
        if key in inner:
            value = inner[key]
            break
    else:
        names = ("action", "name", "tool", "tool_name", "function", "thought")
        value = {k: v for k, v in found.items() if k not in names}
    notes.add("the action was written as one JSON object")
    if isinstance(value, dict):
        arguments, raw = cast("dict[str, Any]", value), json.dumps(value, ensure_ascii=False)
    else:
        raw = value if isinstance(value, str) else json.dumps(value)
        arguments = parse_arguments(raw, notes.add)
    return Step(thought, name, arguments, raw, repairs=tuple(notes.repairs))


def _from_object(body: str, thinking: str, notes: _Notes) -> Step | None:
    """A whole turn written as one JSON object; None when it is none."""
    found = parse_object(body, notes.add) if "{" in body else None
    if found is None:
        return None
    said = next((found[k] for k in ("thought", "Thought", "reasoning") if k in found), thinking)
    thought = said if isinstance(said, str) else thinking
    lowered = {_BETWEEN_WORDS.sub("_", key).lower(): value for key, value in found.items()}
    if _named(lowered) is not None:
        return _called(lowered, thought, notes)
    answer = _written(lowered.get("final_answer"))
    if answer:
        notes.add("the turn was written as one JSON object")
        return Step(thought, final_answer=answer, repairs=tuple(notes.repairs))
    return None


def _written(answer: Any) -> str:
    """An answer as text: a list of texts has one a line."""
    if isinstance(answer, str):
        return answer.strip()
    if not isinstance(answer, list | dict) or not answer:
        return ""
    lines = cast("list[Any]", answer) if isinstance(answer, list) else []
    if lines and all(isinstance(line, str) for line in lines):
        return "\n".join(lines).strip()
    return json.dumps(answer, ensure_ascii=False)
