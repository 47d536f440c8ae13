"""One conversation said again by the target, turn by turn, each on its own earlier answers."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dflash_guard.chat.conversation import Conversation
from dflash_guard.chat.template import ChatTemplate, TemplateError
from dflash_guard.chat.tokenizer import TextTokenizer
from dflash_guard.stages.engine import Answer, Engine, EngineError, Request

__all__ = ["Asker", "Regenerated", "SetAside", "regenerate"]

Message = dict[str, Any]


class SetAside(Exception):  # noqa: N818 - no error: a row that is left out, with its reason
    """A row that can't be regenerated, through no fault of the engine.

    Args:
        reason: A few words, for counting.
        detail: What was found.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class Regenerated:
    """A conversation as the target continued it.

    Attributes:
        messages: Its turns.
        last: The last answer that stands in it.
        completion_tokens: Of all answers.
        ended_early: Whether it ends before a tool call that nobody answered.
        attempts: The most that any of its requests took.
    """

    messages: list[Message]
    last: Answer
    completion_tokens: int
    ended_early: bool
    attempts: int


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks an engine for the next turn of a conversation.

    Attributes:
        engine: The engine.
        template, tokenizer: Of the target, for what is asked with ids and for the length of prompts.
        max_prompt: Most tokens of a prompt; 0 where nobody says.
        exact: Whether ids are sent and the answer's text is made of the ids that come back.
        tags: The texts that open and close thinking.
        end: The id of the end-of-turn token.
    """

    engine: Engine
    template: ChatTemplate
    tokenizer: TextTokenizer
    max_prompt: int
    exact: bool
    tags: tuple[str, str]
    end: int

    async def ask(self, messages: Sequence[Message], conversation: Conversation, kwargs: Mapping[str, Any]) -> Answer:
        """The next turn.

        Raises:
            SetAside: The prompt is too long, or the template refuses it.
            EngineError: There is no answer.
        """
        ids = None
        if self.exact or self.max_prompt:
            try:
                text = self.template.render(messages, tools=conversation.tools, prompt=True, **kwargs)
            except TemplateError as error:
                raise SetAside("template refused it", str(error)) from error
            # A token is at least one byte, so only long prompts need to be counted.
            if self.exact or len(text.encode()) > self.max_prompt:
                ids = self.tokenizer.encode(text)
            if ids is not None and self.max_prompt and len(ids) > self.max_prompt:
                raise SetAside(
                    "over the context window",
                    f"{len(ids):,} prompt tokens, {self.max_prompt:,} leave room for an answer",
                )
        answer = await self.engine.answer(Request(messages, conversation.tools, kwargs, ids if self.exact else None))
        return self._told(answer, text) if self.exact and ids is not None else answer

    def _told(self, answer: Answer, prompt: str) -> Answer:
        """An answer in ids as text, thinking and tool calls."""
        ids = list(answer.output_ids or ())
        text = self.tokenizer.decode(ids[:-1] if ids and ids[-1] == self.end else ids)
        opening, closing = self.tags
        reasoning = None
        if prompt.rstrip().endswith(opening) or text.lstrip().startswith(opening):
            before, closed, after = text.partition(closing)
            reasoning = before.replace(opening, "", 1).strip("\n")
            text = after.lstrip("\n") if closed else ""
        calls = [_parsed_call(each) for each in re.findall(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", text, re.DOTALL)]
        content = re.split(r"\n?<tool_call>", text, maxsplit=1)[0] if calls else text
        return replace(
            answer, content=content, reasoning=reasoning, tool_calls=[each for each in calls if each] or None
        )


def _parsed_call(text: str) -> dict[str, Any] | None:
    try:
        said = json.loads(text)
    except ValueError:
        return None
    return {"type": "function", "function": {"name": said.get("name"), "arguments": said.get("arguments")}}


Ask = Callable[[Sequence[Message]], Awaitable[Answer]]


async def regenerate(conversation: Conversation, ask: Ask) -> Regenerated:
    """Say a conversation again: its system, user and recorded tool turns stay, its assistant turns are new.

    Recorded tool results are taken where the new call is the old one; where it is not, the row ends before the call.

    Args:
        conversation: As it was.
        ask: Gives the next turn.

    Raises:
        SetAside: Nothing is left of it, or it asks nothing.
        EngineError: A turn was not answered.
    """
    said: list[Message] = []
    answers: list[Answer] = []
    old = list(conversation.messages)
    ended_early = False
    while old and not ended_early:
        message = old.pop(0)
        if message["role"] in {"assistant", "tool"}:  # of the old answer to what was asked before
            continue
        said.append(message)
        if message["role"] != "user" or (old and old[0]["role"] == "user"):
            continue
        ended_early = await _respond(said, old, answers, ask)
    if ended_early:
        while said and said[-1]["role"] != "assistant":
            said.pop()
    if not answers or not said:
        raise SetAside("tool call without a recorded result" if ended_early else "nothing is asked")
    tokens = sum(int(answer.usage.get("completion_tokens") or 0) for answer in answers)
    most = max(answer.attempts for answer in answers)
    return Regenerated(said, answers[-1], tokens, ended_early, most)


async def _respond(said: list[Message], old: list[Message], answers: list[Answer], ask: Ask) -> bool:
    """Answer the last turn, tool calls and all; says whether the conversation ends here for want of a tool result."""
    while True:
        answer = await ask(said)
        message: Message = {"role": "assistant", "content": answer.content or ""}
        if answer.reasoning is not None:
            message["reasoning_content"] = answer.reasoning
        if not answer.tool_calls:
            said.append(message)
            answers.append(answer)
            return False
        recorded = old[0] if old and old[0]["role"] == "assistant" else {}
        if _calls(answer.tool_calls) != _calls(recorded.get("tool_calls")):
            return True
        old.pop(0)
        message["tool_calls"] = list(answer.tool_calls)
        said.append(message)
        answers.append(answer)
        ids = [call.get("id") for call in answer.tool_calls]
        while old and old[0]["role"] == "tool":
            result = dict(old.pop(0))
            if (new := ids.pop(0) if ids else None) is not None:
                result["tool_call_id"] = new
            said.append(result)
        if said[-1]["role"] != "tool":
            return False  # the recorded call had no result: it ends the row, as it did


def _calls(calls: Any) -> list[tuple[str, Any]] | None:
    """What is called, and with what: names and arguments in order."""
    found = []
    for call in calls or ():
        function = call.get("function", call) if isinstance(call, Mapping) else {}
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments)
            except ValueError as error:
                raise EngineError(
                    f"the engine's tool call has arguments that are no JSON: {error}", fatal=True
                ) from error
        found.append((str(function.get("name")), arguments))
    return found or None
