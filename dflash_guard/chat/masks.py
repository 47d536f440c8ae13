"""Loss masks: which tokens of a rendered conversation the model wrote itself.

Three builders. `engine` takes the ids that the engine returned: prompt 0, completion 1. `boundary` renders the prompt
with its generation prompt and the conversation up to the answer, requires that the one begins the other, and supervises
the rest through the end token. `tags` takes what a template's generation tags enclose.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from dflash_guard.chat.conversation import Conversation
from dflash_guard.chat.template import ChatTemplate, TemplateError

__all__ = ["BUILDERS", "Encoder", "Job", "Marks", "MaskError", "Masked", "Planner"]

BUILDERS: Final = ("engine", "boundary", "tags")

Ids = npt.NDArray[np.int32]


class MaskError(ValueError):
    """A row can't be masked.

    Args:
        reason: One of a few words, for counting.
        detail: What was found.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Encoder(Protocol):
    """Makes ids of text; special tokens in the text are their own ids."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids of one text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What marks turns and thinking in the target's format.

    Attributes:
        begin, end: Ids of the tokens that begin and end a turn.
        begin_text, end_text: The same as text.
        think_open, think_close: The tags of thinking, as text; "" in a family that does not think.
        system_text: What begins a system turn, as text.
    """

    begin: int
    end: int
    begin_text: str
    end_text: str
    think_open: str
    think_close: str
    system_text: str


@dataclass(frozen=True, slots=True)
class Job:
    """One training row to be made: the turn that it ends on, rendered.

    Attributes:
        turn: Index of the assistant turn in the row's own list.
        builder: Which builder masks it.
        text: The conversation up to that turn, to be encoded; "" where the engine's ids are taken.
        header: What the generation prompt writes from the last begin-of-turn token on.
        begins: How many begin-of-turn tokens stand in the prompt.
        spans: For `tags`, what is supervised, in characters.
        ids: For `engine`, prompt and completion ids.
    """

    turn: int
    builder: str
    text: str
    header: str = ""
    begins: int = 0
    spans: tuple[tuple[int, int], ...] = ()
    ids: tuple[Sequence[int], Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Masked:
    """Token ids with their loss mask, both int, of one length."""

    ids: Ids
    mask: npt.NDArray[np.int8]


class Planner:
    """Renders conversations and masks their tokens.

    Args:
        template: The chat template.
        encoder: The tokenizer.
        marks: The target's turn and thinking tokens.
        builder: One of BUILDERS, or `auto`: the engine's ids where the row has them, else `boundary`.
        turns: `all` assistant turns, or the `last`.
        enable_thinking: Given to the template where the row does not say; None leaves it to the template.
        served_template: sha256 of the template that the completions were served with, "" where nobody says.
    """

    def __init__(
        self,
        template: ChatTemplate,
        encoder: Encoder,
        marks: Marks,
        *,
        builder: str = "auto",
        turns: str = "all",
        enable_thinking: bool | None = None,
        served_template: str = "",
    ) -> None:
        self.template, self.encoder, self.marks = template, encoder, marks
        self.builder, self.turns = builder, turns
        self._enable_thinking = enable_thinking
        self._served = served_template
        self._headers: dict[str, Ids] = {}

    def turns_of(self, conversation: Conversation) -> list[int]:
        """The indices in `messages` of the assistant turns that become rows.

        Raises:
            MaskError: There is none.
        """
        found = [i for i, message in enumerate(conversation.messages) if message["role"] == "assistant"]
        if not found:
            raise MaskError("no answer", "no assistant turn")
        return found if self.turns == "all" else found[-1:]

    def plan(self, conversation: Conversation, index: int) -> Job:
        """Render one training row as it was served.

        Args:
            conversation: The row.
            index: Of the assistant turn in `messages`.

        Raises:
            MaskError: The template refuses it, or would change what was said.
        """
        kwargs: dict[str, Any] = dict(conversation.kwargs)
        if self._enable_thinking is not None:
            kwargs.setdefault("enable_thinking", self._enable_thinking)
        before, turn = conversation.messages[:index], conversation.messages[index]
        try:
            prompt = self.template.render(before, tools=conversation.tools, prompt=True, **kwargs)
            whole, spans = self._whole([*before, turn], conversation, kwargs)
        except TemplateError as error:
            raise MaskError("template refused it", str(error)) from error
        self._check_prompt(prompt, conversation)
        if not whole.startswith(prompt):
            raise MaskError("prompt is no prefix", "the template renders the prompt otherwise once it is answered")
        self._check_answer(whole[len(prompt) :], prompt, turn)
        job = Job(
            turn=index - conversation.added,
            builder="tags" if self.builder == "tags" else "boundary",
            text=whole,
            header=prompt[prompt.rindex(self.marks.begin_text) :],
            begins=prompt.count(self.marks.begin_text),
            spans=tuple(spans[-1:]),
        )
        return self._with_engine(job, conversation, index, prompt, whole)

    def _whole(
        self, messages: list[dict[str, Any]], conversation: Conversation, kwargs: Mapping[str, Any]
    ) -> tuple[str, list[tuple[int, int]]]:
        if self.builder != "tags":
            return self.template.render(messages, tools=conversation.tools, **kwargs), []
        text, spans = self.template.render_tags(messages, tools=conversation.tools, **kwargs)
        if not spans:
            raise MaskError("no generation tags", "the template's generation tags enclose nothing")
        return text, spans

    def _check_prompt(self, prompt: str, conversation: Conversation) -> None:
        if self.marks.begin_text not in prompt:
            raise MaskError("no turn token", f"the template writes no {self.marks.begin_text}")
        has_system = conversation.messages[0]["role"] in {"system", "developer"} or conversation.tools
        generator = conversation.row.get("generator")
        said = generator.get("chat_template_sha256") if isinstance(generator, Mapping) else ""
        served = self._served or (said if isinstance(said, str) else "")
        if served and served != self.template.sha256:
            raise MaskError(
                "another template", f"it was served with template {served[:12]}…, not {self.template.sha256[:12]}…"
            )
        if not served and not has_system and prompt.lstrip().startswith(self.marks.system_text):
            raise MaskError(
                "added system turn", "the template adds a system turn, and nothing says that the server did"
            )

    def _check_answer(self, rest: str, prompt: str, turn: Mapping[str, Any]) -> None:
        marks = self.marks
        if marks.begin_text in rest or rest.count(marks.end_text) != 1:
            raise MaskError(
                "turn token in answer", f"{marks.begin_text} or a second {marks.end_text} stands in the answer"
            )
        thinking = turn.get("reasoning_content") or ""
        if thinking.strip() and thinking.strip("\n") not in rest:
            raise MaskError("template loses thinking", "the thinking of the turn is not in what the template renders")
        if marks.think_open and marks.think_open in rest + thinking:
            opened = prompt.rstrip().endswith(marks.think_open)
            if rest.count(marks.think_open) + opened > 1 + thinking.count(marks.think_open):
                raise MaskError("two think blocks", "the template renders a second think block")

    def _with_engine(self, job: Job, conversation: Conversation, index: int, prompt: str, whole: str) -> Job:
        """The same job, of the engine's ids where they are asked for and there."""
        row = conversation.row
        prompt_ids, output_ids = row.get("prompt_ids"), row.get("output_ids")
        last = index == max(i for i, m in enumerate(conversation.messages) if m["role"] == "assistant")
        if self.builder not in {"auto", "engine"} or not (_is_ids(prompt_ids) and _is_ids(output_ids) and last):
            if self.builder == "engine":
                raise MaskError("no engine ids", "the row does not hold the engine's prompt_ids and output_ids")
            return job
        if list(prompt_ids) != list(self.encoder.encode(prompt)):
            raise MaskError("another prompt was served", "the engine's prompt_ids are not those of the rendered prompt")
        said = self.encoder.decode(output_ids)
        if _plain(said.removesuffix(self.marks.end_text)) != _plain(
            whole[len(prompt) :].rstrip().removesuffix(self.marks.end_text)
        ):
            raise MaskError("engine ids of another text", "the engine's output_ids are not the text of the turn")
        output = list(output_ids)
        if output[-1] != self.marks.end:
            output.append(self.marks.end)
        return Job(turn=job.turn, builder="engine", text="", ids=(list(prompt_ids), output))

    def mask(self, job: Job, ids: Ids, offsets: npt.NDArray[np.int64] | None = None) -> Masked:
        """Supervise what the model wrote.

        Args:
            job: The row as it was planned.
            ids: The ids of its text.
            offsets: For `tags`, the characters of each id, [n, 2].

        Raises:
            MaskError: The prompt's ids do not begin the row's, or nothing or all would be supervised.
        """
        if job.ids is not None:
            prompt, output = job.ids
            return self._checked(np.array([*prompt, *output], np.int32), len(prompt), len(prompt) + len(output))
        begins = np.flatnonzero(ids == self.marks.begin)
        header = self._header(job.header)
        if len(begins) < job.begins:
            raise MaskError("no turn token", f"{self.marks.begin_text} is no token of its own")
        at = int(begins[job.begins - 1])
        start = at + len(header)
        if not np.array_equal(ids[at:start], header):
            raise MaskError("merged over the boundary", "the prompt's last token is another once it is answered")
        ends = np.flatnonzero(ids[start:] == self.marks.end)
        if len(ends) != 1 or len(begins) > job.begins:
            raise MaskError("turn token in answer", "the answer holds a turn token, or does not end")
        end = start + int(ends[0]) + 1
        if job.builder == "tags" and offsets is not None:
            self._check_tags(job, offsets, start, end)
        return self._checked(ids, start, end)

    def _check_tags(self, job: Job, offsets: npt.NDArray[np.int64], start: int, end: int) -> None:
        """That the tags enclose what the boundary finds: the end token may stand outside, the rest may not differ."""
        begin, stop = job.spans[-1]
        inside = np.flatnonzero((offsets[:, 0] >= begin) & (offsets[:, 1] <= stop) & (offsets[:, 1] > offsets[:, 0]))
        if not len(inside) or int(inside[0]) != start or int(inside[-1]) + 1 not in {end - 1, end, end + 1}:
            raise MaskError("tags disagree", "the generation tags enclose other tokens than the boundary finds")

    def _header(self, text: str) -> Ids:
        if text not in self._headers:
            self._headers[text] = np.array(self.encoder.encode(text), np.int32)
        return self._headers[text]

    @staticmethod
    def _checked(ids: Ids, start: int, end: int) -> Masked:
        if not 0 < start < end:
            raise MaskError("empty mask", "all or none of the tokens would be supervised")
        mask = np.zeros(len(ids), np.int8)
        mask[start:end] = 1
        return Masked(ids, mask)


def _is_ids(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and bool(value) and all(type(each) is int and each >= 0 for each in value)


def _plain(text: str) -> str:
    """Text without the white space that templates write or strip around thinking, and at both ends."""
    return re.sub(r"\s*(</?think>)\s*", r"\1", text).strip()
