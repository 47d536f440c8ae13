-- The upstream data set, one row for each id: the first that has it. Its facts are those of completions, whatever
-- stage it is of: they hold the prompt of any conversation.
-- Variable: upstream_files.

CREATE OR REPLACE TEMP TABLE upstream AS
SELECT
    id,
    arg_min({prompt: prompt_trail, tools: tools_digest, user_turns: user_turns, thinking_turns: thinking_turns,
        thinking_code: thinking_code, last_assistant: length(rtrim(code, 'sdut?-')),
        said_chars: CASE WHEN judged AND NOT calls_tools THEN answer_chars + thinking_chars END}, (file_index, row)) AS said
FROM (SELECT *, file_index FROM read_parquet(getvariable('upstream_files')))
WHERE id IS NOT NULL AND is_readable(fault)
GROUP BY id;
