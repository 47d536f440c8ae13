-- What somebody would write by hand to judge tokenised rows with DuckDB: the questions of the contract's rules that lists
-- can answer without positions in turns, on known columns. Every column it computes is used.

WITH facts AS (
    SELECT
        len(input_ids) AS tokens,
        len(loss_mask) AS mask_tokens,
        seq_len,
        list_sum(loss_mask) AS loss_tokens,
        list_min(loss_mask) AS mask_min,
        list_max(loss_mask) AS mask_max,
        list_min(input_ids) AS id_min,
        list_max(input_ids) AS id_max,
        list_contains(input_ids, 151669) AS has_mask_token,
        list_contains(input_ids, 151667) AS has_think,
        list_position(loss_mask, 1) AS first_loss,
        hash(input_ids[list_position(loss_mask, 1):]) AS response
    FROM tokens
)
SELECT
    count(*) AS rows,
    count(*) FILTER (tokens <> mask_tokens OR tokens <> seq_len) AS length_disagreement,
    count(*) FILTER (mask_min < 0 OR mask_max > 1) AS mask_not_binary,
    count(*) FILTER (loss_tokens = 0) AS no_loss_tokens,
    count(*) FILTER (loss_tokens < 32) AS few_loss_tokens,
    count(*) FILTER (id_min < 0 OR id_max >= 151936) AS out_of_vocabulary,
    count(*) FILTER (has_mask_token) AS mask_token,
    count(*) FILTER (NOT has_think) AS missing_thinking,
    count(*) FILTER (first_loss < 4) AS covers_prompt,
    avg(loss_tokens) AS mean_loss,
    median(loss_tokens) AS median_loss,
    avg(loss_tokens / tokens) AS loss_fraction,
    mode(response) AS top_response,
    count(*) - count(DISTINCT response) AS repeated_responses
FROM facts
