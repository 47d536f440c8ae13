"""Rows of text as conversations in the form that chat templates take, whatever their shape was."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["Conversation", "ConversationError", "read_conversation"]

Message = dict[str, Any]

_THOUGHTS: Final = ("reasoning_content", "reasoning", "thinking")
_TAKEN: Final = frozenset(
    ("add_generation_prompt", "chat_template", "continue_final_message", "conversations", "documents", "messages",
     "prompt", "return_assistant_tokens_mask", "tools")
)  # fmt: skip
"""What a template is given by whoever renders it."""
_KEPT: Final = ("name", "tool_call_id")


class ConversationError(ValueError):
    """A row is no conversation that a template could take; says why."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row.

    Attributes:
        messages: Its turns, in OpenAI's form: role, content, and where there are any reasoning_content, tool_calls,
            tool_call_id and name. Tool calls carry their arguments as an object.
        tools: The tools it may call, None without any.
        kwargs: For the chat template, as the row gives them.
        added: How many turns were put before the row's own list (a `system` field beside it).
        row: The row itself.
    """

    messages: list[Message]
    tools: list[Any] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    added: int = 0
    row: Mapping[str, Any] = field(default_factory=dict)


def read_conversation(row: Mapping[str, Any], aliases: Mapping[str, str]) -> Conversation:
    """Read a row of any shape that contracts let through.

    Args:
        row: A JSON object: OpenAI or ShareGPT turns (also as a JSON string), or an Alpaca row.
        aliases: Other names of roles.

    Raises:
        ConversationError: It holds something that no template can be given.
    """
    turns, added = _turns(row)
    kwargs = row.get("chat_template_kwargs")
    kwargs = dict(kwargs) if isinstance(kwargs, Mapping) else {}
    if taken := sorted(_TAKEN & set(kwargs)):
        raise ConversationError(f"chat_template_kwargs may not hold {', '.join(taken)}")
    if isinstance(row.get("enable_thinking"), bool):
        kwargs["enable_thinking"] = row["enable_thinking"]
    return Conversation(
        messages=[_message(turn, aliases) for turn in turns],
        tools=_tools(row.get("tools")),
        kwargs=kwargs,
        added=added,
        row=row,
    )


def _turns(row: Mapping[str, Any]) -> tuple[list[Any], int]:
    for key in ("messages", "conversations"):
        turns = row.get(key)
        if isinstance(turns, str):
            turns = _decoded(turns)
        if isinstance(turns, list) and turns:
            system = row.get("system")
            if isinstance(system, str) and system:
                return [{"role": "system", "content": system}, *turns], 1
            return turns, 0
    if isinstance(row.get("instruction"), str):
        more = row.get("input")
        asked = "\n".join(text for text in (row["instruction"], more if isinstance(more, str) else "") if text)
        turns = [{"role": "user", "content": asked}]
        if isinstance(row.get("system"), str) and row["system"]:
            turns.insert(0, {"role": "system", "content": row["system"]})
        if isinstance(row.get("output"), str):
            turns.append({"role": "assistant", "content": row["output"]})
        return turns, 0
    raise ConversationError("there is no list of turns")


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _message(turn: Any, aliases: Mapping[str, str]) -> Message:
    if not isinstance(turn, Mapping):
        raise ConversationError("a turn is no object")
    said = turn.get("role", turn.get("from"))
    role = aliases.get(str(said), str(said))
    content = _text(turn.get("content", turn.get("value")))
    if role == "function_call":
        return {"role": "assistant", "content": "", "tool_calls": [_call(_decoded(content))]}
    message: Message = {"role": role, "content": content} | {key: turn[key] for key in _KEPT if turn.get(key)}
    if role == "assistant":
        message |= _thinking(content, turn)
        calls = turn.get("tool_calls") or ([turn["function_call"]] if turn.get("function_call") else None)
        if isinstance(calls, str):
            calls = _decoded(calls)
        if calls:
            message["tool_calls"] = [_call(call) for call in calls]
    return message


def _text(content: Any) -> str:
    """The text of a turn; parts of text are joined with nothing between."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(
        isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str)
        for part in content
    ):
        return "".join(part["text"] for part in content)
    raise ConversationError("the content of a turn is not text")


def _thinking(content: str, turn: Mapping[str, Any]) -> Message:
    """Thinking as `reasoning_content`, out of whichever field or inline block holds it."""
    fields = [turn[key] for key in _THOUGHTS if isinstance(turn.get(key), str)]
    filled = next((each for each in fields if each.strip()), None)
    if "</think>" in content and filled is None:
        before, _, after = content.partition("</think>")
        thought = before.rpartition("<think>")[2] if "<think>" in before else before
        return {"content": after.lstrip("\n"), "reasoning_content": thought.strip("\n")}
    if filled is not None:
        return {"reasoning_content": filled}
    return {}


def _call(call: Any) -> dict[str, Any]:
    """One tool call with its arguments as an object."""
    if not isinstance(call, Mapping):
        raise ConversationError("a tool call is no object")
    function = call.get("function", call)
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ConversationError("a tool call has no name")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _decoded(arguments)
    if not isinstance(arguments, Mapping):
        raise ConversationError("the arguments of a tool call are no JSON object")
    rest = {key: call[key] for key in ("id",) if call.get(key)}
    return {**rest, "type": "function", "function": {"name": function["name"], "arguments": dict(arguments)}}


def _tools(tools: Any) -> list[Any] | None:
    if isinstance(tools, str):
        tools = _decoded(tools)
    return list(tools) if isinstance(tools, list) and tools else None
