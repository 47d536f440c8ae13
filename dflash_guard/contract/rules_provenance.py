"""The rules of provenance: where a row comes from, what made it, and whether it matches its upstream."""

from typing import Final

from dflash_guard.contract.rule import STAGES, Rule

__all__ = ["PROVENANCE_RULES"]

_UPSTREAM: Final = "the upstream data set (`--upstream DATA`, or the parent in the manifest)"

PROVENANCE_RULES: Final = (
    Rule(
        name="unknown-source",
        table="provenance",
        scope="row",
        stages=STAGES,
        fact="source",
        says="Each row names the data set it comes from, and the contract knows that name.",
        why="Without a source nobody can see that one source collapsed, lost its system prompts, or outgrew the mix. "
        "All figures are averages over everything, where a broken tenth is invisible.",
        fix="Write a `source` column. Where the data never had one, declare it in the contract: "
        "`source: {column: dataset}`, `source: {path_pattern: '(?P<source>[^/]+)/'}` or `source: {constant: NAME}`.",
        passing='{"id": "a", "source": "math", "messages": [{"role": "user", "content": "2+2?"}]}',
        failing='{"id": "a", "source": "unknown", "messages": [{"role": "user", "content": "2+2?"}]}',
    ),
    Rule(
        name="missing-id",
        table="provenance",
        scope="row",
        stages=STAGES,
        stage_levels={"prompts": "warn"},
        fact="sample_id",
        says="Each row has a stable id.",
        why="Only an id ties a tokenised row to its completion and its prompt. Matching by position goes wrong at the "
        "first retried or dropped request, and from there on every row has somebody else's prompt.",
        fix="Write `id` (or `sample_id`, `uuid`, `conversation_id`) when the prompts are first collected. "
        "`id: {column: NAME}` in the contract names another column; `id: content` takes a digest of the prompt.",
        passing='{"id": "gsm8k-17", "source": "math", "messages": [{"role": "user", "content": "2+2?"}]}',
        failing='{"source": "math", "messages": [{"role": "user", "content": "2+2?"}]}',
    ),
    Rule(
        name="duplicate-id",
        table="provenance",
        scope="row",
        stages=STAGES,
        fact="sample_id, turn",
        says="No id stands on two rows of a data set (at tokenized: no id and turn).",
        why="Two rows with one id are a shard that was written twice, or two data sets that both count from 0. "
        "The first is trained on twice as often; the second is joined to the wrong upstream rows.",
        fix="Drop the second copy, or prefix ids with their source when data sets are merged. The report names the "
        "shard and row of each repeat.",
        passing='{"id": "math-1", "messages": [{"role": "user", "content": "2+2?"}]}\n'
        '{"id": "code-1", "messages": [{"role": "user", "content": "Sort a list."}]}',
        failing='{"id": 1, "messages": [{"role": "user", "content": "2+2?"}]}\n'
        '{"id": "1", "messages": [{"role": "user", "content": "Sort a list."}]}',
    ),
    Rule(
        name="duplicate-prompt",
        table="provenance",
        scope="row",
        stages=("prompts",),
        level="warn",
        fact="prompt_digest",
        says="No prompt stands on an earlier row too.",
        why="Every copy is generated, tokenised and trained on again: GPU hours for tokens that the drafter has "
        "seen, and a held-out set that is no longer held out.",
        fix="Keep the first row of each prompt; the failures file of the run lists the others with their place.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "2+2?"}]}\n'
        '{"id": "b", "messages": [{"role": "user", "content": "2+3?"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "2+2?"}]}\n'
        '{"id": "b", "messages": [{"role": "user", "content": "2+2?"}]}',
    ),
    Rule(
        name="missing-generator",
        table="provenance",
        scope="row",
        stages=("completions",),
        fact="generator_model, generator_sampling, generator_template",
        example_stage="completions",
        says="It is on record which model, sampling and chat template made each completion.",
        why="A drafter learns to foresee one target under one sampling and one template. Completions of unknown "
        "origin may be another model's: training looks healthy, and acceptance when serving is near 1.",
        fix="Record it when you generate: write `generator` {model, sampling, chat_template_sha256} in each row.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}], '
        '"generator": {"model": "Qwen/Qwen3-8B", "sampling": {"temperature": 0.6}, "chat_template_sha256": "5a2b"}}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}], '
        '"generator": {"model": "Qwen/Qwen3-8B"}}',
    ),
    Rule(
        name="wrong-model",
        table="provenance",
        scope="row",
        stages=("completions",),
        needs="the contract's `target`",
        fact="generator_model",
        example_stage="completions",
        says="Completions were made by the target model that the contract names.",
        why="Text of a sister model (another size, the instruct instead of the thinking release) is fluent and passes "
        "every other rule, but it is not what the target will say: each differing token is a rejected draft.",
        fix="Regenerate with the contract's `target`, or correct `target` if the contract is what is wrong.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}], '
        '"generator": {"model": "Qwen/Qwen3-8B"}}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}], '
        '"generator": {"model": "Qwen/Qwen3-4B"}}',
    ),
    Rule(
        name="unknown-prompt",
        table="provenance",
        scope="cross",
        stages=("completions", "tokenized", "hidden_states"),
        needs=_UPSTREAM,
        fact="sample_id",
        example_stage="completions",
        says="Each row's id stands in the upstream data set.",
        why="A row that upstream never had was not judged there: a left-over of an older run, another data set's "
        "shard in the folder, or ids that were numbered anew.",
        fix="Take the foreign shard out of the folder, or name the right data set with `--upstream`. If ids were "
        "changed on the way, carry the original ones through.",
        passing='upstream: {"id": "a", "messages": [{"role": "user", "content": "Hi"}]}\n'
        'here: {"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}',
        failing='upstream: {"id": "a", "messages": [{"role": "user", "content": "Hi"}]}\n'
        'here: {"id": "b", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}',
    ),
    Rule(
        name="changed-prompt",
        table="provenance",
        scope="cross",
        stages=("completions", "tokenized"),
        needs=_UPSTREAM,
        fact="sample_id, prompt_digest",
        example_stage="completions",
        says="A row has the prompt that its id has upstream: system, user and tool turns, and the tools.",
        why="Answers that moved by one row against their prompts pass every rule that looks at one row. The drafter "
        "is then trained on contexts that never led to the text it has to foresee.",
        fix="Match by id wherever rows are retried, filtered or sharded, never by position. Regenerate the rows named; "
        "if the prompt was edited on purpose, judge the edited prompts as the upstream.",
        passing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}]}\n'
        'here: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}',
        failing='upstream: {"id": "a", "messages": [{"role": "user", "content": "2+2?"}]}\n'
        'here: {"id": "a", "messages": [{"role": "user", "content": "2+3?"}, {"role": "assistant", "content": "5"}]}',
    ),
    Rule(
        name="lost-turns",
        table="provenance",
        scope="cross",
        stages=("completions", "tokenized"),
        needs=_UPSTREAM,
        fact="sample_id, user_turns",
        example_stage="completions",
        says="No user turn of upstream is lost, counted over all rows of an id.",
        why="A converter that keeps the first exchange only, or a row cut at a length limit, leaves the drafter "
        "without long contexts, which is where drafting pays most.",
        fix="Convert all turns. A conversation that was ended on purpose says so with `ended_early: true` on its row.",
        passing='upstream: {"id": "a", "messages": [{"role": "user", "content": "Hi"}]}\n'
        'here: {"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}',
        failing='upstream: {"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": '
        '"Hello!"}, {"role": "user", "content": "And now?"}]}\n'
        'here: {"id": "a", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}',
    ),
    Rule(
        name="unaccounted-rows",
        table="provenance",
        scope="dataset",
        stages=("completions", "tokenized", "hidden_states"),
        needs="the upstream data set and its verdict",
        fact="sample_id",
        example_stage="completions",
        says="Passed, failed and skipped ids here add up to the rows that passed upstream.",
        why="Rows that vanish are seldom a random sample: it is the long prompts that time out and the hard ones that "
        "error. The drafter is then weakest where serving is slowest.",
        fix="Resume the stage so that it finishes the rest, or let it record what it set aside and why.",
        passing="Upstream's verdict: 1,000 rows passed. Here: 990 passed, 7 failed, 3 skipped.",
        failing="Upstream's verdict: 1,000 rows passed. Here: 941 ids in all.",
    ),
)
