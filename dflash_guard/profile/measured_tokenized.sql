-- One row a sample: what a profile measures. A fact that a row does not tell is null. All stages have these columns.

CREATE OR REPLACE TEMP VIEW measured AS
WITH read AS (
    SELECT
        * EXCLUDE (loss_tokens, turns, tokens),
        is_readable(fault) AS readable,
        is_readable(fault) AND lengths_agree AS placed,
        CASE WHEN is_readable(fault) THEN tokens END AS tokens,
        CASE WHEN is_readable(fault) THEN loss_tokens END AS loss_tokens,
        CASE WHEN is_readable(fault) THEN turns END AS turns
    FROM raw_facts
)
SELECT
    shard, shard_name, row, line,
    CASE WHEN readable THEN shown_source(source) END AS source,
    NULL::VARCHAR AS roles,
    NULL::BOOLEAN AS has_system,
    CASE WHEN placed AND response_tokens > 0 THEN thinking_tokens > 0 END AS thinks,
    CASE WHEN placed THEN response_digest END AS response_digest,
    NULL::UBIGINT AS prompt_digest,
    NULL::VARCHAR AS finish_reason,
    loss_tokens,
    CASE WHEN tokens > 0 THEN loss_tokens / tokens END AS loss_fraction,
    turns,
    tokens,
    CASE WHEN placed THEN spans END AS loss_spans,
    CASE WHEN placed THEN response_tokens END AS response_tokens,
    CASE WHEN placed THEN thinking_tokens END AS thinking_tokens
FROM read;
