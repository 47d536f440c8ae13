-- Cross-stage rules of token rows, over `judged_alone` and `upstream`: matched by id, never by position.

CREATE OR REPLACE TEMP VIEW judged AS
WITH matched AS (
    SELECT
        j.*,
        u.said,
        sum(greatest(j.thinking_turns, 0)) OVER (PARTITION BY j.id) AS kept_thinking
    FROM judged_alone AS j LEFT JOIN upstream AS u USING (id)
)
SELECT
    * EXCLUDE (said),
    said.thinking_turns AS upstream_thinking_turns,
    readable AND id IS NOT NULL AND said IS NULL AS "unknown-prompt",
    placed AND coalesce(said.thinking_code[coalesce(turn + 1, said.last_assistant)] = 'y', FALSE) AND thinking_tokens = 0
        AS "lost-thinking",
    -- A token is at least one byte of text and a character at most four bytes: so many tokens, and those of the markup.
    4 * said.said_chars + 16 AS response_limit,
    placed AND coalesce(turn + 1, said.last_assistant) = said.last_assistant AND coalesce(response_tokens > response_limit, FALSE)
        AS "changed-response",
    placed AND coalesce(said.thinking_turns > kept_thinking, FALSE) AS "lossy-thinking"
FROM matched;
