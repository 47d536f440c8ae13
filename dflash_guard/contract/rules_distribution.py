"""The rules of the whole data set's distribution, judged on its profile."""

from typing import Final

from dflash_guard.contract.rule import STAGES, Bound, Rule

__all__ = ["COLLAPSE_MIN_ROWS", "DISTRIBUTION_RULES"]

COLLAPSE_MIN_ROWS: Final = 5
"""A most common value is judged only when it stands on at least this many rows."""

DISTRIBUTION_RULES: Final = (
    Rule(
        name="response-collapse",
        table="distribution",
        scope="dataset",
        stages=("prompts", "completions", "tokenized"),
        stage_levels={"prompts": "warn"},
        bounds=(Bound("max", 0.05, "share", "lower", "rows with the most common response"),),
        fact="profile.top_response_share",
        example_stage="completions",
        says="No single response stands on more than 5 % of the rows.",
        why="Each such row is legal by itself, so no row rule sees it. A drafter trained on one sentence a thousand "
        "times drafts that sentence, and the loss falls nicely while it learns to.",
        fix="The report prints the response. Find the sources it comes from, and regenerate those with "
        "thinking on and the target's sampling.",
        passing="Of 1,000 rows, 12 answer `Yes.`; no answer is more common.",
        failing="Of 1,000 rows, 870 answer `OK.`.",
    ),
    Rule(
        name="loss-collapse",
        table="distribution",
        scope="dataset",
        stages=("tokenized",),
        bounds=(Bound("max", 0.20, "share", "lower", "rows with the most common count of supervised tokens"),),
        fact="profile.top_loss_tokens_share",
        example_stage="tokenized",
        says="No single count of supervised tokens stands on more than 20 % of the rows.",
        why="Real answers differ in length. One count on most rows is the mark of a canned answer, an empty think block "
        "or a fixed cut, even where the texts differ.",
        fix="Decode a few of these rows with the mask beside them. Check the length limit and the mask builder.",
        passing="The most common count, 211 tokens, stands on 4 of 1,000 rows.",
        failing="6 supervised tokens on 660 of 1,000 rows.",
    ),
    Rule(
        name="low-median-loss",
        table="distribution",
        scope="dataset",
        stages=("tokenized",),
        bounds=(Bound("min", 64, "count", "higher", "supervised tokens of the median row"),),
        fact="profile.loss_tokens.median",
        example_stage="tokenized",
        says="The median row supervises at least 64 tokens.",
        why="Half of the rows below that means a few long rows carry the training, whatever the mean says. Most batches "
        "then have too few anchors to fill their blocks.",
        fix="Compare sources with `dflash-guard profile DATA`; regenerate the short ones, or leave them out.",
        passing="Median 480, mean 731.",
        failing="Median 7, mean 240.",
    ),
    Rule(
        name="low-loss-fraction",
        table="distribution",
        scope="dataset",
        stages=("tokenized",),
        bounds=(Bound("min", 0.20, "share", "higher", "a row that is supervised, on the mean over rows"),),
        fact="profile.loss_fraction.mean",
        example_stage="tokenized",
        says="On the mean over rows at least 20 % of the tokens are supervised.",
        why="The target's forward pass is paid for every token, the drafter learns from the supervised ones only. In one "
        "incident the fraction was 0.127: most of the cost went into reading prompts.",
        fix="Look for stub answers and cut ones first. Long documents with short answers need fewer of their kind, or "
        "a lower bound that says so in the contract.",
        passing="Mean fraction 0.62.",
        failing="Mean fraction 0.127.",
    ),
    Rule(
        name="thinking-share",
        table="distribution",
        scope="dataset",
        stages=("completions", "tokenized"),
        modes=("thinking",),
        bounds=(Bound("min", 0.95, "share", "higher", "rows with thinking that is not blank"),),
        fact="profile.thinking_share",
        example_stage="completions",
        says="Where thinking is on, at least 95 % of the rows have thinking that is not blank.",
        why="Tolerances of the row rules add up, and this is the figure that decides how the drafter serves. Tags alone "
        "do not count: in one incident 99.7 % of the rows had them.",
        fix="See by source which rows lack it (`dflash-guard profile DATA`), and regenerate those with thinking on.",
        passing="988 of 1,000 rows have thinking.",
        failing="997 of 1,000 rows have think tags, 310 of them with something inside.",
    ),
    Rule(
        name="mixed-thinking",
        table="distribution",
        scope="dataset",
        stages=("completions", "tokenized"),
        modes=("thinking", "off"),
        bounds=(Bound("max", 0.05, "share", "lower", "rows of the rarer kind, with or without thinking"),),
        fact="profile.thinking_share",
        example_stage="completions",
        says="Rows are of one kind: the rarer of thinking and non-thinking is at most 5 %.",
        why="The two kinds begin differently after the same header. A drafter trained on both hedges at the first "
        "tokens of every turn, in whichever mode it serves.",
        fix="Split the data by kind and regenerate the rarer one. If both modes are served, mark each row with "
        "`enable_thinking` and judge with `--mode row`.",
        passing="988 rows with thinking, 12 without.",
        failing="600 rows with thinking, 400 without.",
    ),
    Rule(
        name="truncated-share",
        table="distribution",
        scope="dataset",
        stages=("completions",),
        level="warn",
        bounds=(Bound("max", 0.01, "share", "lower", "rows whose finish_reason is length"),),
        fact="profile.truncated_share",
        example_stage="completions",
        says="At most 1 % of the responses hit the token limit.",
        why="Truncated rows are dropped later on, and they are the long ones. Above a few per cent the drafter's data "
        "is biased towards short answers.",
        fix="Raise `max_tokens` for the rows named by `truncated-response`; check that loops are not the cause "
        "(`repetition-loop`).",
        passing="6 of 1,000 rows have finish_reason length.",
        failing="140 of 1,000 rows have finish_reason length.",
    ),
    Rule(
        name="duplicate-share",
        table="distribution",
        scope="dataset",
        stages=("prompts", "completions"),
        level="warn",
        bounds=(Bound("max", 0.05, "share", "lower", "rows whose prompt stands on an earlier row"),),
        fact="profile.duplicate_share",
        says="At most 5 % of the rows repeat the prompt of an earlier one.",
        why="A few repeats are natural in public chat data. Many mean that a data set was added twice, or that a "
        "filter or a template wiped out what made the prompts differ.",
        fix="Remove duplicates before you generate; compare sources with `dflash-guard profile DATA`.",
        passing="11 of 1,000 prompts stand on an earlier row.",
        failing="500 of 1,000 prompts stand on an earlier row.",
    ),
    Rule(
        name="source-drift",
        table="distribution",
        scope="dataset",
        stages=STAGES,
        level="warn",
        needs="the contract's `mix`",
        fact="profile.sources",
        says="Each source's share of the rows is within the contract's `mix`.",
        why="Sources shrink unevenly along the pipeline: code times out, chat does not. The mix that is trained on is "
        "then not the mix that was chosen.",
        fix="Find the stage where the share changed, and top the source up there. Or change `mix` in a pull request.",
        passing="`mix: {math: [0.2, 0.4]}`, and math is 31 % of the rows.",
        failing="`mix: {math: [0.2, 0.4]}`, and math is 8 % of the rows.",
    ),
)
