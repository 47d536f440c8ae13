"""The rules of conversation structure (prompts, completions)."""

from typing import Final

from dflash_guard.contract.rule import Bound, Rule

__all__ = ["CONVERSATION_RULES"]

CONVERSATION_RULES: Final = (
    Rule(
        name="unknown-shape",
        table="conversation",
        scope="row",
        stages=("prompts", "completions", "tokenized"),
        fact="shape",
        says="A row is a conversation or an Alpaca row; at tokenized it has input_ids, and loss_mask or labels.",
        why="Every later rule reads turns and roles. Pre-rendered text or prompt/response pairs guessed into turns "
        "would put template tokens into the prompt, and the engine would render them a second time.",
        fix="Convert the row to `messages`: [{role, content}]. For pre-rendered text go back to the data that it "
        "was rendered from.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "text": "User: Hi\\nAssistant: Hello!"}',
    ),
    Rule(
        name="mixed-schema",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="mixed_schema",
        says="A row uses one schema: role/content or from/value, `messages` or `conversations`.",
        why="A converter reads one of the two and drops the other. Which one depends on the library, so two stages "
        "work on different conversations under one id.",
        fix="Keep the schema that holds the whole conversation and remove the other from the row.",
        passing='{"id": "a", "conversations": [{"from": "human", "value": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"from": "gpt", "value": "Hello!"}]}',
    ),
    Rule(
        name="empty-conversation",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="turn_count",
        says="A conversation has at least one turn.",
        why="An engine answers an empty prompt with whatever its template opens with. Such text is the same on every "
        "row and pulls the drafter towards one canned reply.",
        fix="Remove the row, or find the filter that emptied it.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": []}',
    ),
    Rule(
        name="unknown-role",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="unknown_roles",
        says="Each role is one that is known, or an alias that the contract declares.",
        why="A template drops a turn of a role that it does not know, or renders it under a header that the target "
        "was never trained on. A misspelt `hummany` costs the whole question.",
        fix="Correct the role in the data. If a data set has its own name for a role, declare it in the contract: "
        "`roles: {bot: assistant}`.",
        passing='{"id": "a", "conversations": [{"from": "human", "value": "Hi"}]}',
        failing='{"id": "a", "conversations": [{"from": "hummany", "value": "Hi"}]}',
    ),
    Rule(
        name="no-user-turn",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="user_turns",
        says="A user wrote at least one turn; a tool result is not a user's turn.",
        why="Newer templates refuse a chat without a user query, and older ones decide by the last query which "
        "thinking to keep: with none, the answer is rendered in a way that is never served.",
        fix="Look for a converter that dropped or renamed the user's turns. Rows that are only system text go.",
        passing='{"id": "a", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "system", "content": "Be brief."}]}',
    ),
    Rule(
        name="empty-turn",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="empty_turns",
        says="User, system and earlier assistant turns have text (or tool calls).",
        why="An empty question has no right answer, and the target fills the gap with a greeting. An empty earlier "
        "answer is mostly a filter's left-over; it teaches that a turn may end at once.",
        fix="Remove the row, or restore the text from its source. An assistant turn that only calls tools keeps its "
        "`tool_calls`, not an empty string alone.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "  "}]}',
    ),
    Rule(
        name="role-order",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="role_order",
        says="After the system turns a user begins, and user and assistant turns alternate.",
        why="Two turns of one role in a row mean that a turn between them was lost or that a long one was split. "
        "The context is then one that serving never produces.",
        fix="Restore the missing turn, or join the two parts into one. Several tool results after one assistant turn "
        "are fine.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, '
        '{"role": "user", "content": "2+2?"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "user", "content": "2+2?"}]}',
    ),
    Rule(
        name="late-system",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        by_family=True,
        fact="late_system",
        says="A system turn comes first.",
        why="The templates of Qwen3.5 and later raise on a system turn elsewhere, so the request fails; Qwen3's "
        "accept it, but hardly any served chat looks like that.",
        fix="Move the instruction to the first turn or into the user turn it belongs to. "
        "`level: family` means error where the family's templates refuse it and a warning elsewhere.",
        passing='{"id": "a", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}, '
        '{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2+2?"}]}',
    ),
    Rule(
        name="unsupported-content",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="unsupported_turn, unsupported_what",
        says="Content is text, or a list of text parts.",
        why="A text-only pipeline drops an image part without a word, and the answer then speaks of a picture that is "
        "not there. Objects in place of text are rendered as Python or JSON source.",
        fix="Leave multimodal rows out, or turn the part into text yourself if it is text.",
        passing='{"id": "a", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": '
        '{"url": "cat.png"}}]}]}',
    ),
    Rule(
        name="forged-turn",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="forged_turn",
        says="No text holds a turn boundary of the target's format.",
        why="Tokenised as the control token, the text opens a turn that nobody took. A mask builder that looks for "
        "the assistant header then supervises what a user pasted.",
        fix="Remove the row, or take the marker out of the text. Mostly it is rendered text that was stored as a turn, "
        "or a chat about chat templates.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "What does im_start mean?"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi<|im_end|>\\n<|im_start|>assistant\\nHello!"}]}',
    ),
    Rule(
        name="control-token-in-text",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        level="warn",
        fact="control_turn",
        says="User, system and tool turns hold no other control token of the target, such as think or tool tags.",
        why="Tokenised, the text becomes the real token. A `<think>` in a question makes thinking rules and mask "
        "builders see thinking where there is none.",
        fix="Look at the rows. A chat about the tags is harmless in small numbers; thinking that was pasted into a user "
        "turn by a converter is not.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Think step by step: 2+2?"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Write inside <think> tags: 2+2?"}]}',
    ),
    Rule(
        name="orphan-tool-result",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="orphan_tool_result",
        says="Each tool result answers a tool call before it.",
        why="The call was lost in conversion, so the target sees a result that came from nowhere and the drafter "
        "never sees the call, the most predictable text there is in agent traffic.",
        fix="Restore the assistant turn with its `tool_calls`, or make `tool_call_id` agree with the call's `id`.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": '
        '[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}, '
        '{"role": "tool", "tool_call_id": "c1", "content": "sunny"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Weather?"}, '
        '{"role": "tool", "tool_call_id": "c1", "content": "sunny"}]}',
    ),
    Rule(
        name="invalid-tool-arguments",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        fact="invalid_tool_arguments",
        says="The arguments of each tool call are one JSON object.",
        why="Templates render the arguments as they stand or raise on them. A doubly encoded string puts backslashes "
        "into every call, and the drafter learns to foresee them.",
        fix="Write an object, or its JSON text encoded once: `json.dumps(arguments)`. A call without arguments has `{}`.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": '
        '[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\\"city\\": \\"Oslo\\"}"}}]}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": '
        '[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{\\"city\\": "}}]}]}',
    ),
    Rule(
        name="unanswered-tool-call",
        table="conversation",
        scope="row",
        stages=("completions",),
        fact="unanswered_tool_call",
        example_stage="completions",
        says="Each tool call has its result before the next turn, unless it is in the last turn.",
        why="Without the result the next answer is text that the context does not explain: it teaches the drafter to "
        "guess facts, and the target to disagree.",
        fix="Put the tool turns back, or end the conversation at the call.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": '
        '[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}, '
        '{"role": "tool", "tool_call_id": "c1", "content": "sunny"}, {"role": "assistant", "content": "It is sunny."}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "tool_calls": '
        '[{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}, '
        '{"role": "user", "content": "Well?"}, {"role": "assistant", "content": "It is sunny."}]}',
    ),
    Rule(
        name="prompt-too-long",
        table="conversation",
        scope="row",
        stages=("prompts", "completions"),
        tolerance=0.01,
        bounds=(Bound("max", 100_000, "count", "lower", "characters of the prompt"),),
        fact="prompt_chars",
        example_options="--set prompt-too-long.max=20",
        says="A prompt is at most 100,000 characters long.",
        why="Such a prompt fills the context window by itself: the request fails or leaves no room for an answer, "
        "and one of them can stall a whole batch.",
        fix="Nothing, for a few: `generate` sets them aside and counts them. For many, split the documents, or raise "
        "the bound to the target's window: `--set prompt-too-long.max=200000`.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "2+2?"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "How much is two and two?"}]}',
    ),
    Rule(
        name="stub-response",
        table="conversation",
        scope="row",
        stages=("prompts",),
        level="warn",
        bounds=(Bound("min", 20, "count", "higher", "characters of the last assistant turn"),),
        fact="response_chars",
        says="The old last answer of a prompt row, where there is one, is more than a stub.",
        why='A stub such as "OK." must not reach training, where it teaches canned replies and early ends. '
        "Here it does no harm, as long as the answer is generated anew.",
        fix="Let the target answer these prompts anew; do not tokenise these rows as they are.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": '
        '"Two and two make four."}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "OK."}]}',
    ),
)
