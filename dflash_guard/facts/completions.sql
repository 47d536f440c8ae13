-- Facts of completions: one row out for each row in; about the last assistant turn, unless the name says otherwise.
-- Lengths are characters, without white space around; `loop_*` are texts that may run in a loop, for a closer look.

WITH last_turn AS (
    SELECT *,
        CASE WHEN last_assistant > 0 THEN list[last_assistant] END AS t,
        CASE WHEN last_assistant > 0 THEN turns[last_assistant].kind END AS kind,
        CASE WHEN last_assistant > 0 THEN said_in(list, contents, last_assistant) END AS said
    FROM conversations
),
parted AS (
    SELECT *,
        kind IS NOT NULL AND kind <> 'unsupported' AS judged,
        has_tags(said) AS tags,
        CASE WHEN has_tags(said) THEN filled_blocks(said) ELSE [] END AS blocks,
        coalesce(filled_fields(t), []) AS fields,
        answer_of(said) AS answer,
        coalesce(t.reasoning_content, t.reasoning, t.thinking) IS NOT NULL AS has_field
    FROM last_turn
),
ended AS (
    SELECT *,
        CASE WHEN is_given(r.finish_reason) THEN r.finish_reason ELSE t.finish_reason END AS finish,
        stripped(answer) AS answer_text,
        array_to_string(list_transform(blocks || fields, lambda b: stripped(b)), '') AS thinking_text
    FROM parted
)
SELECT
    * EXCLUDE (list, contents, turns, r, prompt_turns, last_assistant, t, kind, said, judged, tags, blocks, fields,
        answer, has_field, finish, answer_text, thinking_text),
    judged,
    last_assistant > 0 AND last_assistant = turn_count AS ends_on_assistant,
    judged AND contains(code, 'c') AND code[last_assistant] = 'c' AS calls_tools,
    CASE WHEN judged THEN length(coalesce(answer_text, '')) END::BIGINT AS answer_chars,
    CASE WHEN judged THEN length(thinking_text) END::BIGINT AS thinking_chars,
    judged AND is_blank(answer) AS blank_answer,
    judged AND (tags OR has_field) AS has_thinking,
    judged AND (len(blocks) > 0 OR len(fields) > 0) AS filled_thinking,
    judged AND tags AS has_tags,
    judged AND tags AND coalesce(is_unopened(said), FALSE) AS unopened,
    judged AND tags AND is_unclosed(said) AS unclosed,
    CASE WHEN judged THEN len(blocks) + len(fields) ELSE 0 END::INTEGER AS filled_blocks,
    CASE WHEN judged AND NOT is_blank(answer) THEN response_digest(answer_text) END AS response_digest,
    CASE
        WHEN json_type(finish) = 'OBJECT' THEN finish ->> '$.type'
        WHEN is_given(finish) THEN finish ->> '$'
    END AS finish_reason,
    CASE
        WHEN is_given(r.error) AND r.error::VARCHAR <> 'false' THEN 'error: ' || (r.error ->> '$')[:100]
        WHEN is_given(t.error) AND t.error::VARCHAR <> 'false' THEN 'error: ' || (t.error ->> '$')[:100]
        WHEN try_cast(r.status ->> '$' AS DOUBLE) >= 400 THEN 'status ' || (r.status ->> '$')
        WHEN try_cast(r.status_code ->> '$' AS DOUBLE) >= 400 THEN 'status ' || (r.status_code ->> '$')
        WHEN try_cast(r.http_status ->> '$' AS DOUBLE) >= 400 THEN 'status ' || (r.http_status ->> '$')
        WHEN judged AND is_error_body(answer_text) THEN 'an error body stands as the text: ' || answer_text[:60]
    END AS failure,
    CASE WHEN is_given(r.generator) THEN coalesce(r.generator ->> '$.model', '') END AS generator_model,
    CASE WHEN is_given(r.generator) THEN r.generator ->> '$.chat_template_sha256' END AS generator_template,
    CASE WHEN is_given(r.generator) THEN r.generator ->> '$.tokenizer_sha256' END AS generator_tokenizer,
    is_given(r.generator) AND generator_is_whole(r.generator) AS has_generator,
    try_cast(r.usage ->> '$.completion_tokens' AS BIGINT) AS completion_tokens,
    CASE WHEN judged AND may_loop(answer_text) THEN answer_text END AS loop_answer,
    CASE WHEN judged AND may_loop(thinking_text) THEN thinking_text END AS loop_thinking
FROM ended
