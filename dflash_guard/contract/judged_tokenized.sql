-- What the row rules of tokens bound: see judged_text.sql for what the columns mean.

CREATE OR REPLACE TEMP VIEW token_rows AS
SELECT
    *,
    is_readable(fault) AS readable,
    is_readable(fault) AND lengths_agree AS placed
FROM facts;

CREATE OR REPLACE TEMP VIEW judged AS
SELECT
    *,
    coalesce(fault = 'malformed-row', FALSE) AS "malformed-row",
    coalesce(fault = 'torn-last-line', FALSE) AS "torn-last-line",
    coalesce(fault = 'invalid-text', FALSE) AS "invalid-text",
    coalesce(fault = 'duplicate-key', FALSE) AS "duplicate-key",
    stray IS NOT NULL AS "stray-bytes",
    coalesce(fault = 'unknown-shape', FALSE) AS "unknown-shape",
    coalesce(fault = 'column-type', FALSE) AS "column-type",
    readable AND NOT known_source(source) AS "unknown-source",
    readable AND id IS NULL AS "missing-id",
    earlier_id IS NOT NULL AS "duplicate-id",
    readable AND NOT lengths_agree AS "length-disagreement",
    where_judged(readable, bad_mask_at) AS "mask-not-binary",
    readable AND loss_tokens = 0 AS "no-loss-tokens",
    CASE WHEN readable THEN loss_tokens ELSE 2147483647 END AS "few-loss-tokens",
    placed AND loss_tokens > 0 AND answer_tokens = 0 AND unclosed_thinking_at < 0 AS "no-answer-tokens",
    placed AND response_tokens > 0 AND served_thinking(asks_thinking) AND NOT thinking_open AS "missing-thinking",
    where_judged(placed AND served_thinking(asks_thinking), empty_thinking_at) AS "empty-thinking",
    where_judged(placed AND NOT served_thinking(asks_thinking), think_token_at) AS "residual-thinking",
    where_judged(placed, unclosed_thinking_at) AS "unclosed-thinking",
    placed AND clipped AS "clipped-response",
    where_judged(placed, unsupervised_end_at) AS "mask-skips-end",
    where_judged(placed, prompt_supervised_at) AS "mask-covers-prompt",
    where_judged(placed, CASE WHEN served_thinking(asks_thinking) THEN boundary_thinking_at ELSE boundary_off_at END)
        AS "mask-boundary",
    where_judged(readable, bad_id_at) AS "token-out-of-vocabulary",
    where_judged(readable, mask_token_at) AS "mask-token-in-input",
    readable AND duplicate_begin AS "duplicate-bos",
    where_judged(placed, duplicate_end_at) AS "duplicate-end",
    where_judged(placed, padding_supervised_at) AS "supervised-padding"
FROM token_rows;
