"""The rules of the response: the last assistant turn (completions), some of them on its tokens as well."""

from typing import Final

from dflash_guard.contract.rule import Bound, Rule

__all__ = ["RESPONSE_RULES"]

_BOTH: Final = ("completions", "tokenized")


def _row(answer: str, rest: str = "") -> str:
    """A completions row with this last assistant turn; both parts are JSON text."""
    return (
        f'{{"id": "a", "messages": [{{"role": "user", "content": "2+2?"}}, {{"role": "assistant", {answer}}}]{rest}}}'
    )


_LOOP: Final = "and so on " * 64
_PROSE: Final = (
    "First I add the units, which gives four. There is nothing to carry, so the tens stay empty and the sum has one "
    "digit. To be sure, I count on my fingers from two: three, four. Both ways agree. "
)

RESPONSE_RULES: Final = (
    Rule(
        name="no-response",
        table="response",
        scope="row",
        stages=("completions",),
        fact="last_role, answer_chars, tool_calls",
        example_stage="completions",
        says="The conversation ends on an assistant turn with an answer, or with tool calls.",
        why="Nothing of such a row can be supervised but an end token. In numbers they teach the drafter that turns "
        "end at once, and every block it drafts is cut short.",
        fix="Generate these prompts again. If many of them stop inside the thinking, raise the token limit.",
        passing=_row('"reasoning_content": "Two and two.", "content": "The answer is four."'),
        failing=_row('"reasoning_content": "Two and two.", "content": "\\n"'),
    ),
    Rule(
        name="short-response",
        table="response",
        scope="row",
        stages=("completions",),
        bounds=(Bound("min", 20, "count", "higher", "characters of thinking and answer together"),),
        fact="thinking_chars, answer_chars, tool_calls",
        example_stage="completions",
        says="Thinking and answer together are at least 20 characters, unless there are tool calls.",
        why="A few tokens are shorter than one draft block, so there is next to nothing to learn from them. A set full "
        'of "OK." trains a drafter that says it everywhere.',
        fix="Regenerate with the target's own sampling and thinking settings. Where short answers are what was asked "
        "for, lower the bound: `--set short-response.min=1`.",
        passing=_row('"reasoning_content": "Two and two make four.", "content": "4"'),
        failing=_row('"content": "OK."'),
    ),
    Rule(
        name="missing-thinking",
        table="response",
        scope="row",
        stages=_BOTH,
        modes=("thinking", "row"),
        fact="has_thinking",
        example_stage="completions",
        says="Where thinking is on, the last assistant turn has thinking (at tokenized: a supervised think-open token).",
        why="Served with thinking, nearly all tokens are thinking. A drafter that never saw any was measured at 25 % "
        "acceptance instead of 60 %.",
        fix="Generate with `enable_thinking: true` and a reasoning parser that keeps what it strips. At tokenized "
        "look at the template: it drops the reasoning of earlier turns.",
        passing=_row('"content": "<think>Two and two make four.</think>The answer is four."'),
        failing=_row('"content": "The answer to two plus two is four."'),
    ),
    Rule(
        name="empty-thinking",
        table="response",
        scope="row",
        stages=_BOTH,
        modes=("thinking", "row"),
        fact="has_thinking, thinking_chars",
        example_stage="completions",
        says="Thinking that is there is not blank.",
        why="Templates put an empty think block in front of every answer that has no reasoning. That the tags "
        "are there proves nothing: in one incident 99.7 % of the rows had them.",
        fix="Generate again with thinking on. If the reasoning was in another field, name it `reasoning_content` before "
        "the template is applied.",
        passing=_row('"reasoning_content": "", "content": "<think>Two and two make four.</think>Four."'),
        failing=_row('"content": "<think>\\n\\n</think>\\n\\nThe answer is four."'),
    ),
    Rule(
        name="unopened-thinking",
        table="response",
        scope="row",
        stages=("completions",),
        level="warn",
        fact="unopened_thinking",
        example_stage="completions",
        says="`</think>` has a `<think>` before it.",
        why="Templates that open the tag in the prompt leave the engine's text without it. That is legal, but rendered "
        "as it stands the thinking becomes part of the answer in later stages that look for both tags.",
        fix="Run the engine with its reasoning parser (`--reasoning-parser qwen3`), or split at `</think>` into "
        "`reasoning_content` and `content`.",
        passing=_row('"content": "<think>Two and two.</think>The answer is four."'),
        failing=_row('"content": "Two and two.</think>The answer is four."'),
    ),
    Rule(
        name="unclosed-thinking",
        table="response",
        scope="row",
        stages=_BOTH,
        fact="unclosed_thinking",
        example_stage="completions",
        says="Thinking that opens also closes.",
        why="The model ran into the token limit while it was thinking, so there is no answer. A template renders such "
        "text as an empty block and a second, open one: a shape that is never served.",
        fix="Generate these rows again with a higher `max_tokens`, or leave them out.",
        passing=_row('"content": "<think>Two and two.</think>The answer is four."'),
        failing=_row('"content": "<think>Two and two, let me see, that would be"'),
    ),
    Rule(
        name="repeated-thinking",
        table="response",
        scope="row",
        stages=("completions",),
        fact="thinking_blocks",
        example_stage="completions",
        says="A turn has at most one filled thinking, in a field or in tags.",
        why="Templates keep one block and drop the others silently, or render both. What is trained on is then not what "
        "the target wrote.",
        fix="Keep either `reasoning_content` or the inline block. If the model itself thinks twice, generate the row "
        "again.",
        passing=_row('"reasoning_content": "Two and two make four.", "content": "The answer is four."'),
        failing=_row(
            '"reasoning_content": "Two and two.", "content": "<think>Two and two.</think>The answer is four."'
        ),
    ),
    Rule(
        name="residual-thinking",
        table="response",
        scope="row",
        stages=_BOTH,
        modes=("off", "row"),
        fact="has_thinking, thinking_tags",
        example_stage="completions",
        example_options="--mode off",
        says="Where thinking is off, the last assistant turn has neither thinking nor its tags.",
        why="Served without thinking, the empty block is part of the prompt. Supervised, it teaches the drafter to "
        "open each answer with tokens that the target will never produce there.",
        fix="Generate with `enable_thinking: false`, and let the mask begin behind the empty block. If the data is "
        "meant for thinking, say so: `--mode thinking`.",
        passing=_row('"reasoning_content": "", "content": "The answer is four."'),
        failing=_row('"content": "<think>\\n\\n</think>\\n\\nThe answer is four."'),
    ),
    Rule(
        name="truncated-response",
        table="response",
        scope="row",
        stages=("completions",),
        fact="finish_reason",
        example_stage="completions",
        says="The response ended by itself, not at the token limit.",
        why="A cut response has no end token, and often no answer. Many of them, and the drafter no longer foresees "
        "ends; filtered out without a count, the long answers are gone.",
        fix="Raise `max_tokens` and regenerate these rows, or leave them out and watch `truncated-share`.",
        passing=_row('"content": "The answer is four."', ', "finish_reason": "stop"'),
        failing=_row('"content": "The answer is"', ', "finish_reason": "length"'),
    ),
    Rule(
        name="unknown-finish",
        table="response",
        scope="row",
        stages=("completions",),
        level="warn",
        fact="finish_reason",
        example_stage="completions",
        says="A finish_reason is on record.",
        why="Without it nobody can tell a whole answer from one that was cut in mid-sentence or aborted by a restart "
        "of the engine.",
        fix="Keep the engine's `finish_reason` in the row when the completions are written.",
        passing=_row('"content": "The answer is four."', ', "finish_reason": "stop"'),
        failing=_row('"content": "The answer is four."'),
    ),
    Rule(
        name="failed-response",
        table="response",
        scope="row",
        stages=("completions",),
        fact="failure",
        example_stage="completions",
        says="The response is the model's text, not an error of the engine or the server.",
        why="A retry loop that saves whatever came back stores thousands of equal error bodies as answers, and "
        "they are the easiest text there is to learn.",
        fix="Look in the engine's log for the cause, then generate these rows again.",
        passing=_row('"content": "The answer is four."', ', "error": null'),
        failing=_row('"content": "{\\"error\\": {\\"message\\": \\"Rate limit reached\\", \\"code\\": 429}}"'),
    ),
    Rule(
        name="repetition-loop",
        table="response",
        scope="row",
        stages=("completions",),
        bounds=(
            Bound("share", 0.6, "share", "lower", "the thinking or answer that the repeated phrase covers"),
            Bound("min_chars", 600, "count", "lower", "characters below which a text is not judged"),
            Bound("min_repeats", 4, "count", "lower", "times that the phrase stands on end"),
            Bound("max_words", 20, "count", "higher", "words of the longest phrase that is looked for"),
        ),
        fact="repetition_share",
        example_stage="completions",
        says="No phrase of up to 20 words, 4 times or more on end, covers 60 % of a long thinking or answer.",
        why="A model stuck in a loop runs to the token limit, so such rows hold many times their share of tokens. "
        "The drafter gets very good at loops, and training figures look splendid for it.",
        fix="Regenerate with the target's recommended sampling: greedy decoding loops most. Check the presence "
        "penalty, and that the right chat template was used.",
        passing=_row(f'"content": "{_PROSE}The answer is four."'),
        failing=_row(f'"content": "{_LOOP}"'),
    ),
)
