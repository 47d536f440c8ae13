-- The prompt of each token row, in the digests that facts of completions hold: those of the turns before the answer that
-- no assistant spoke. Views: facts (of the completions), made (token rows).

SELECT
    made.sample_id AS id,
    made.turn::BIGINT AS turn,
    prompt_trail[:length(regexp_replace(code[:made.turn + added], '[ac]', '', 'g'))] AS prompt_trail,
    tools_digest,
    length(regexp_replace(code[:made.turn + added], '[^u]', '', 'g')) AS user_turns,
    ended_early
FROM (SELECT DISTINCT sample_id, turn FROM made) AS made
JOIN facts ON facts.id = made.sample_id
