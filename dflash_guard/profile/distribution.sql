-- The figures that distribution rules bound: one row. A share is null where no row holds the evidence.

WITH top_response AS (
    SELECT count(*) AS rows, min(place_of(shard, row)) AS place
    FROM measured
    WHERE response_digest IS NOT NULL
    GROUP BY response_digest
    ORDER BY rows DESC, place
    LIMIT 1
),
top_loss AS (
    SELECT loss_tokens, count(*) AS rows
    FROM measured
    WHERE loss_tokens IS NOT NULL
    GROUP BY loss_tokens
    ORDER BY rows DESC, loss_tokens
    LIMIT 1
),
whole AS (
    SELECT
        count(*) AS rows,
        nullif(count(response_digest), 0) AS responses,
        nullif(count(loss_tokens), 0) AS losses,
        quantile_cont(loss_tokens, 0.5) AS median_loss_tokens,
        round(avg(loss_fraction), 12) AS mean_loss_fraction,
        nullif(count(thinks), 0) AS told,
        count(*) FILTER (thinks) AS thinking,
        nullif(count(finish_reason), 0) AS finishes,
        count(*) FILTER (finish_reason = 'length') AS truncated,
        nullif(count(prompt_digest), 0) AS prompts,
        count(DISTINCT prompt_digest) AS distinct_prompts
    FROM measured
)
SELECT
    whole.rows,
    top_response.rows AS top_response_rows,
    top_response.rows / responses AS top_response_share,
    shard_of(top_response.place) AS top_response_shard,
    row_of(top_response.place) AS top_response_row,
    top_loss.loss_tokens AS top_loss_tokens,
    top_loss.rows AS top_loss_tokens_rows,
    top_loss.rows / losses AS top_loss_tokens_share,
    median_loss_tokens,
    mean_loss_fraction,
    thinking / told AS thinking_share,
    least(thinking, told - thinking) / told AS rarer_thinking_share,
    truncated / finishes AS truncated_share,
    (prompts - distinct_prompts) / prompts AS duplicate_share
FROM whole
LEFT JOIN top_response ON TRUE
LEFT JOIN top_loss ON TRUE
