-- What the row rules of tokens bound: see judged_text.sql for what the columns mean.

CREATE OR REPLACE TEMP VIEW token_rows AS
SELECT
    *,
    coalesce(fault, '') IN ('', 'duplicate-key') AS readable,
    coalesce(fault, '') IN ('', 'duplicate-key') AND lengths_agree AS placed
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
    where_judged(placed, CASE WHEN served_thinking(asks_thinking) THEN boundary_thinking_at ELSE boundary_off_at END) AS "mask-boundary",
    where_judged(readable, bad_id_at) AS "token-out-of-vocabulary",
    where_judged(readable, mask_token_at) AS "mask-token-in-input",
    readable AND duplicate_begin AS "duplicate-bos",
    where_judged(placed, duplicate_end_at) AS "duplicate-end",
    where_judged(placed, padding_supervised_at) AS "supervised-padding"
FROM token_rows;

CREATE OR REPLACE TEMP MACRO detail(rule) AS CASE rule
    WHEN 'malformed-row' THEN fault_detail
    WHEN 'torn-last-line' THEN fault_detail
    WHEN 'invalid-text' THEN fault_detail
    WHEN 'duplicate-key' THEN fault_detail
    WHEN 'unknown-shape' THEN fault_detail
    WHEN 'column-type' THEN fault_detail
    WHEN 'stray-bytes' THEN stray
    WHEN 'unknown-source' THEN source_detail(source)
    WHEN 'missing-id' THEN 'no id, sample_id, uuid or conversation_id'
    WHEN 'duplicate-id' THEN concat('id ', shown(id), ' and turn ', coalesce(turn::VARCHAR, '(none)'), ' stand first at ', earlier_id)
    WHEN 'length-disagreement' THEN concat(tokens, ' input_ids, ', mask_tokens, ' mask values', ', seq_len ' || declared_len)
    WHEN 'mask-not-binary' THEN concat('position ', bad_mask_at, ': ', CASE bad_mask_kind
        WHEN 'null' THEN 'a null in the mask'
        WHEN 'label' THEN concat('label ', bad_mask_value, ' is not the id at its place')
        ELSE concat('mask value ', bad_mask_value) END)
    WHEN 'no-loss-tokens' THEN concat('none of ', tokens, ' tokens is supervised')
    WHEN 'few-loss-tokens' THEN concat(loss_tokens, ' loss tokens, at least ', bound('few-loss-tokens.min')::BIGINT)
    WHEN 'no-answer-tokens' THEN CASE WHEN response_tokens = 0 THEN 'nothing of the last assistant turn is supervised'
        ELSE 'after the thinking only blank and end tokens are supervised' END
    WHEN 'missing-thinking' THEN 'no think-open token in the supervised part of the last assistant turn'
    WHEN 'empty-thinking' THEN concat('position ', empty_thinking_at, ': the thinking block is blank')
    WHEN 'residual-thinking' THEN concat('position ', think_token_at, ': a think token is supervised')
    WHEN 'unclosed-thinking' THEN concat('position ', unclosed_thinking_at, ': think-open without think-close')
    WHEN 'clipped-response' THEN concat('the supervised part runs to the end of ', tokens, ' tokens, without an end-of-turn token')
    WHEN 'mask-skips-end' THEN concat('position ', unsupervised_end_at, ': the end-of-turn token is not supervised')
    WHEN 'mask-covers-prompt' THEN concat('position ', prompt_supervised_at, ': a prompt or header token is supervised')
    WHEN 'mask-boundary' THEN concat('position ', CASE WHEN served_thinking(asks_thinking) THEN boundary_thinking_at ELSE boundary_off_at END,
        ': a supervised span does not begin right after the assistant header')
    WHEN 'token-out-of-vocabulary' THEN concat('position ', bad_id_at, ': id ', coalesce(bad_id::VARCHAR, 'null'))
    WHEN 'mask-token-in-input' THEN concat('position ', mask_token_at, ': the drafter''s mask token')
    WHEN 'duplicate-bos' THEN 'two begin tokens at the start'
    WHEN 'duplicate-end' THEN concat('position ', duplicate_end_at, ': a second end token in a row')
    WHEN 'supervised-padding' THEN concat('position ', padding_supervised_at, ': supervised after the end of the last turn')
END;
