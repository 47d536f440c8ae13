"""The rules of token rows (tokenized) and of hidden states. Example ids are Qwen3's."""

from typing import Final

from dflash_guard.contract.rule import Bound, Rule

__all__ = ["HIDDEN_STATE_RULES", "TOKEN_RULES"]

_TOKENIZED: Final = ("tokenized",)
_HEAD: Final = [151644, 872, 198, 17, 10, 17, 30, 151645, 198, 151644, 77091, 198]  # a user's "2+2?", assistant header
_THINK: Final = [151667, 198, 17, 10, 17, 28, 19, 198, 151668, 271]  # <think>\n2+2=4\n</think>\n\n
_ANSWER: Final = [26972, 13]  # Four.
_END: Final = 151645
_BODY: Final = [*_THINK, *_ANSWER, _END]


def _row(ids: list[int], supervised: range, mask: list[int] | None = None) -> str:
    """A tokenized row, supervised at these places unless it is given a mask."""
    marks = [int(place in supervised) for place in range(len(ids))] if mask is None else mask
    return f'{{"sample_id": "a", "input_ids": {ids}, "loss_mask": {marks}}}'


_GOOD: Final = _row([*_HEAD, *_BODY, 198], range(12, 25))

TOKEN_RULES: Final = (
    Rule(
        name="length-disagreement",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="ids_len, mask_len, seq_len",
        example_stage="tokenized",
        says="input_ids, loss_mask and seq_len agree on the row's length.",
        why="Collators cut or pad the longer one, mostly at the wrong end: from there on the mask supervises other "
        "tokens than it was made for.",
        fix="Cut ids and mask together, after both are made. Tokenize again; a mask cannot be repaired afterwards.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, 198], range(0), [0] * 12 + [1] * 13),
    ),
    Rule(
        name="mask-not-binary",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="mask_other, mask_nulls, labels_differ",
        example_stage="tokenized",
        says="Each mask value is 0 or 1; labels equal the ids at their places, or are -100.",
        why="A 2 counts twice in the loss, a null makes it NaN. Labels without any -100 supervise the prompt, and "
        "labels that differ from the ids are shifted: training looks fine and acceptance is near 1.",
        fix="Write a mask of 0 and 1, or labels unshifted (the trainer shifts). Tokenize again.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, 198], range(0), [0] * 12 + [2] * 13 + [0]),
    ),
    Rule(
        name="no-loss-tokens",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="loss_tokens",
        example_stage="tokenized",
        says="At least one token is supervised.",
        why="The row costs a forward pass of the target and teaches nothing. A template without generation tags gives "
        "such a mask for every row, with no more than a warning.",
        fix="Build the mask from the boundary (render the prompt with the generation prompt, render the whole, supervise "
        "the rest), from the engine's own token ids, or with a template that has generation tags.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, 198], range(0)),
    ),
    Rule(
        name="few-loss-tokens",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        bounds=(Bound("min", 32, "count", "higher", "supervised tokens of a row, after truncation"),),
        fact="loss_tokens",
        example_stage="tokenized",
        example_options="--set few-loss-tokens.min=8",
        says="At least 32 tokens are supervised: two blocks of 16.",
        why="A drafter learns whole blocks. A row with fewer supervised tokens than two blocks has hardly an anchor whose "
        'block is not mostly past the end; six tokens are an empty think block and "OK.".',
        fix="Find out why the answers are short (decode a few), and regenerate. For another "
        "block size set twice that: `--set few-loss-tokens.min=16`.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_ANSWER, _END, 198], range(12, 15)),
    ),
    Rule(
        name="no-answer-tokens",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="answer_tokens",
        example_stage="tokenized",
        says="The last assistant turn supervises an answer, not only thinking, white space and end tokens.",
        why="The drafter learns that a turn ends behind its thinking. Such rows come from empty completions, which look "
        "long enough because the think block counts.",
        fix="Regenerate the rows, and check the completions with `dflash-guard check DATA --stage completions`: "
        "`no-response` names them there.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_THINK, _END, 198], range(12, 23)),
    ),
    Rule(
        name="clipped-response",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="clipped",
        example_stage="tokenized",
        says="The last supervised span ends with the end-of-turn token.",
        why="The row was cut at a length limit. The drafter sees answers that stop anywhere and seldom an end token, "
        "and it drafts past the end when serving.",
        fix="Raise the length limit of `tokenize`, or set long rows aside instead of cutting them.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_THINK, *_ANSWER], range(12, 24)),
    ),
    Rule(
        name="mask-skips-end",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="mask_skips_end",
        example_stage="tokenized",
        says="The end-of-turn token of a supervised assistant turn is supervised too.",
        why="The target does produce it, so the drafter has to foresee it. Left out, the last block of every turn is "
        "drafted past the end and thrown away.",
        fix="Build the mask through the end token (builders `engine` and `boundary` do).",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, 198], range(12, 24)),
    ),
    Rule(
        name="mask-covers-prompt",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="mask_covers_prompt",
        example_stage="tokenized",
        says="Nothing is supervised in a user, system or tool turn, or in a turn header.",
        why="When serving, prompt tokens are given and never drafted. Supervised, they take capacity and loss away from "
        "what is drafted; tool output is often most of them.",
        fix="Tokenize again with the builder `boundary` or `engine`. A regular expression over the text is fooled by "
        "user text that looks like a header.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, 198], range(3, 25)),
    ),
    Rule(
        name="mask-boundary",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="mask_boundary",
        example_stage="tokenized",
        says="Each supervised span begins exactly where the model begins to write.",
        why="The first token of an answer is drafted in every turn. A mask that is late by one never teaches it; one "
        "that is early supervises a token which the prompt already has.",
        fix="Render with the generation prompt of the mode that is served, and supervise from its end. Check `--mode` "
        "and `--family` before the data.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, 198], range(13, 25)),
    ),
    Rule(
        name="token-out-of-vocabulary",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="min_id, max_id, null_ids",
        example_stage="tokenized",
        says="Each id is a row of the target's embedding.",
        why="On a GPU such an id is an assertion in the middle of a run, hours after the start, or a read of foreign "
        "memory. In a sound tokenizer's output it does not occur: the ids are another model's.",
        fix="Tokenize with the target's own tokenizer. If the family is wrong, name it: `--family qwen3_5`.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_THINK, 151936, 13, _END, 198], range(12, 25)),
    ),
    Rule(
        name="mask-token-in-input",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="mask_token_count",
        example_stage="tokenized",
        says="The drafter's mask token does not stand in input_ids.",
        why="The drafter reads it as the mark of a place to be filled. In the data it tells the drafter that a real "
        "token is a hole, and the target gets an embedding that was never trained.",
        fix="Look for text that holds the token, or for rows that a masking collator has already been over.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_THINK, 151669, 13, _END, 198], range(12, 25)),
    ),
    Rule(
        name="duplicate-bos",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="duplicate_bos",
        example_stage="tokenized",
        says="A row begins with at most one begin token.",
        why="Template and tokenizer have both added one. Every context is shifted by a token that serving does not "
        "have, and the target's states are those of an unusual prompt.",
        fix="Tokenize rendered text with `add_special_tokens=False`.",
        passing=_row([151643, *_HEAD, *_BODY, 198], range(13, 26)),
        failing=_row([151643, 151643, *_HEAD, *_BODY, 198], range(14, 27)),
    ),
    Rule(
        name="duplicate-end",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="duplicate_end",
        example_stage="tokenized",
        says="No two end tokens follow each other in the supervised part.",
        why="The completion kept its end token and the template added another. The target stops at the first, so the "
        "second is never served, yet it is in every row.",
        fix="Strip the end token from the completion's text before it is rendered, or use the engine's ids as they are.",
        passing=_GOOD,
        failing=_row([*_HEAD, *_BODY, _END, 198], range(12, 26)),
    ),
    Rule(
        name="supervised-padding",
        table="tokens",
        scope="row",
        stages=_TOKENIZED,
        fact="supervised_padding",
        example_stage="tokenized",
        says="No padding is supervised behind the last turn.",
        why="Padding is the easiest text to foresee. It lifts training accuracy, fills whole blocks, and is never "
        "served.",
        fix="Pad the mask with 0 (labels with -100), or do not pad at all before the collator.",
        passing=_row([*_HEAD, *_BODY, 198, 151643, 151643], range(12, 25)),
        failing=_row([*_HEAD, *_BODY, 198, 151643, 151643], range(0), [0] * 12 + [1] * 13 + [0, 1, 1]),
    ),
    Rule(
        name="lost-thinking",
        table="tokens",
        scope="cross",
        stages=_TOKENIZED,
        needs="the upstream completions (`--upstream DATA`, or the parent in the manifest)",
        fact="sample_id, turn, thinking_tokens",
        example_stage="tokenized",
        says="Where the upstream turn that a row ends on has thinking, thinking is supervised.",
        why="The thinking was paid for when it was generated and lost on the way: a template that does not know the "
        "field, or renders this turn as history. The drafter then never sees what it will mostly serve.",
        fix="Pass the reasoning as `reasoning_content`, and render each assistant turn as the last one: one row per "
        "turn.",
        passing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", '
        f'"reasoning_content": "2+2=4", "content": "Four."}}]}}\nhere: {_GOOD}',
        failing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", '
        '"reasoning_content": "2+2=4", "content": "Four."}]}\n'
        f"here: {_row([*_HEAD, *_ANSWER, _END, 198], range(12, 15))}",
    ),
    Rule(
        name="changed-response",
        table="tokens",
        scope="cross",
        stages=_TOKENIZED,
        needs="the upstream completions (`--upstream DATA`, or the parent in the manifest)",
        fact="sample_id, turn, response_tokens",
        example_stage="tokenized",
        says="What a row supervises can have come from the response that its id has upstream: no more tokens than that "
        "text has bytes, and the markup's.",
        why="Ninety supervised tokens do not come from a response of three characters. Whoever wrote these rows read "
        "another file than the one named, and nothing that is known of that file holds for them.",
        fix="Name the data set that was tokenized with `--upstream`, or tokenize again from the one that is named.",
        passing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", '
        f'"reasoning_content": "2+2=4", "content": "Four."}}]}}\nhere: {_GOOD}',
        failing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", '
        '"content": "4"}]}\n'
        f"here: {_row([*_HEAD, *([16, 220] * 16), _END, 198], range(12, 45))}",
    ),
    Rule(
        name="lossy-thinking",
        table="tokens",
        scope="cross",
        stages=_TOKENIZED,
        level="warn",
        needs="the upstream completions (`--upstream DATA`, or the parent in the manifest)",
        fact="sample_id, thinking_turns",
        example_stage="tokenized",
        says="Over all rows of an id, thinking is supervised on as many turns as upstream has it.",
        why="The template strips the reasoning of all turns but the last. Legal, since serving strips it too, but the "
        "earlier thinking is then not trained on at all.",
        fix="Make one row per assistant turn, each rendered up to that turn.",
        passing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", '
        f'"reasoning_content": "2+2=4", "content": "Four."}}]}}\nhere: {_GOOD}',
        failing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2?"}, {"role": "assistant", '
        '"reasoning_content": "Two.", "content": "Two."}, {"role": "user", "content": "2+2?"}, {"role": "assistant", '
        f'"reasoning_content": "2+2=4", "content": "Four."}}]}}\nhere: {_GOOD}',
    ),
    Rule(
        name="tokenizer-mismatch",
        table="tokens",
        scope="dataset",
        stages=_TOKENIZED,
        needs="tokenizer digests on both sides",
        fact="manifest.tokenizer_sha256",
        example_stage="tokenized",
        says="The rows were tokenized with the tokenizer of the generator and the target.",
        why="Tokenizers of two releases may differ in a handful of added tokens only. All common text agrees, and just "
        "the control tokens, which every rule here reads, mean something else.",
        fix="Tokenize again with the tokenizer files of the target's exact revision.",
        passing="tokenizer_sha256 is aeb1… here, for the generator and for the target.",
        failing="tokenizer_sha256 is aeb1… here and c0de… for the generator.",
    ),
    Rule(
        name="template-mismatch",
        table="tokens",
        scope="dataset",
        stages=_TOKENIZED,
        needs="chat template digests on both sides",
        fact="manifest.chat_template_sha256",
        example_stage="tokenized",
        says="The rows were rendered with the chat template of the generator and the target.",
        why="Templates differ in where thinking goes, what history keeps and which system text is added. The states "
        "that the drafter learns from are then those of prompts that are never served.",
        fix="Render with the template that the engine serves: take the file's sha256 on both sides.",
        passing="chat_template_sha256 is 5a2b… here, for the generator and for the target.",
        failing="chat_template_sha256 is 5a2b… here and 91ff… for the target.",
    ),
)

HIDDEN_STATE_RULES: Final = (
    Rule(
        name="shape-disagreement",
        table="hidden-states",
        scope="row",
        stages=("hidden_states",),
        fact="states_shape, ids_len",
        example_stage="hidden_states",
        says="The states of a sample are seq_len by layers times hidden size.",
        why="States that are short by one, or of another set of layers, still load. Shifted by one against the mask "
        "they train well and are useless when served.",
        fix="Extract again with the layers of the drafter's config; take the states of the whole sequence.",
        passing="input_ids of 1,024 tokens, 5 layers of 4,096: states [1024, 20480].",
        failing="input_ids of 1,024 tokens, 5 layers of 4,096: states [1023, 20480].",
    ),
    Rule(
        name="non-finite",
        table="hidden-states",
        scope="row",
        stages=("hidden_states",),
        fact="non_finite_layers",
        example_stage="hidden_states",
        says="No state is NaN or infinite.",
        why="One NaN makes the loss NaN, and with it every weight after the next step. Large activations overflow in "
        "float16 in a few late layers only, so a look at the first rows shows nothing.",
        fix="Extract in bfloat16. If the fault stays on the same samples, look at their ids; if it moves, at the GPU.",
        passing="All values of all 5 layer slots are finite.",
        failing="Layer slot 4 holds inf at token 17.",
    ),
    Rule(
        name="token-mismatch",
        table="hidden-states",
        scope="row",
        stages=("hidden_states",),
        fact="first_mismatch",
        example_stage="hidden_states",
        says="The ids stored with the states are those of the tokenized row.",
        why="The states of one text under the mask of another teach noise. It happens when a data set is tokenized "
        "again and old states are kept, or when rows are matched by position.",
        fix="Extract these samples again from the tokenized data set that the manifest names.",
        passing="Stored ids and tokenized ids are equal at all 1,024 places.",
        failing="Stored ids differ from the tokenized ids from index 311 on.",
    ),
)
