-- What token rows say of their prompts, by the manifest's evidence (`prompts_here`), against `upstream`.

CREATE OR REPLACE TEMP VIEW judged AS
WITH matched AS (
    SELECT j.*, u.said, p.prompt_trail, p.tools_digest, p.ended_early, p.user_turns AS turns_here,
        max(p.user_turns) OVER (PARTITION BY j.id) AS kept_turns
    FROM judged_unprompted AS j LEFT JOIN upstream AS u USING (id) LEFT JOIN prompts_here AS p USING (id, turn)
),
compared AS (
    SELECT
        *,
        readable AND said IS NOT NULL AND prompt_trail IS NOT NULL AS comparable,
        coalesce(prompt_trail, []) = coalesce(said.prompt[:len(prompt_trail)], []) AS begins_like_upstream,
        tools_digest IS DISTINCT FROM said.tools AS other_tools
    FROM matched
)
SELECT
    * EXCLUDE (said, comparable, begins_like_upstream, other_tools, prompt_trail, tools_digest, ended_early, turns_here),
    said.user_turns AS upstream_user_turns,
    comparable AND (other_tools OR NOT begins_like_upstream) AS "changed-prompt",
    comparable AND begins_like_upstream AND NOT ended_early AND kept_turns < said.user_turns AS "lost-turns"
FROM compared;
