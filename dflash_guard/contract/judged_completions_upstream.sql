-- Cross-stage rules of completions, over `judged_alone` and `upstream`: matched by id and digest, never by position.

CREATE OR REPLACE TEMP VIEW judged AS
WITH matched AS (
    SELECT j.*, u.said, max(j.user_turns) OVER (PARTITION BY j.id) AS kept_turns
    FROM judged_alone AS j LEFT JOIN upstream AS u USING (id)
),
compared AS (
    SELECT
        *,
        talks AND said IS NOT NULL AS comparable,
        coalesce(prompt_trail, []) = coalesce(said.prompt[:len(prompt_trail)], []) AS begins_like_upstream,
        tools_digest IS DISTINCT FROM said.tools AS other_tools
    FROM matched
)
SELECT
    * EXCLUDE (said, comparable, begins_like_upstream, other_tools),
    said.user_turns AS upstream_user_turns,
    readable AND id IS NOT NULL AND said IS NULL AS "unknown-prompt",
    comparable AND (other_tools OR NOT begins_like_upstream) AS "changed-prompt",
    comparable AND begins_like_upstream AND NOT ended_early AND kept_turns < said.user_turns AS "lost-turns"
FROM compared;
