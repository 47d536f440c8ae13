-- One row a sample: what a profile measures. A fact that a row does not tell is null. All stages have these columns.

CREATE OR REPLACE TEMP VIEW measured AS
WITH read AS (
    SELECT *, is_readable(fault) AS readable, is_readable(fault) AND shaped AND turn_count > 0 AS talks
    FROM raw_facts
)
SELECT
    shard, shard_name, row, line,
    CASE WHEN readable THEN shown_source(source) END AS source,
    CASE WHEN talks THEN roles END AS roles,
    CASE WHEN talks THEN regexp_matches(code, '[sd]') END AS has_system,
    NULL::BOOLEAN AS thinks,
    CASE WHEN talks THEN response_digest END AS response_digest,
    CASE WHEN talks THEN context_digest END AS prompt_digest,
    NULL::VARCHAR AS finish_reason,
    NULL::BIGINT AS loss_tokens,
    NULL::DOUBLE AS loss_fraction,
    CASE WHEN talks THEN turn_count END AS turns,
    CASE WHEN talks THEN user_turns END AS user_turns,
    CASE WHEN talks THEN prompt_chars END AS prompt_chars,
    CASE WHEN talks THEN response_chars END AS response_chars
FROM read;
