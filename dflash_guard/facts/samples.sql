-- Rows of `conversations` as a person reads them: every turn with its text, and the answer behind the thinking.

SELECT
    shard,
    row,
    list_transform(list, lambda t, i: {
        role: coalesce(speaker(t), '-'),
        content: said_in(list, contents, i),
        thinking: coalesce(t.reasoning_content, t.reasoning, t.thinking),
        calls: CASE WHEN is_given(t.tool_calls) THEN t.tool_calls::VARCHAR
            WHEN is_given(t.function_call) THEN t.function_call::VARCHAR END
    }) AS turns,
    CASE WHEN last_assistant > 0 THEN stripped(answer_of(said_in(list, contents, last_assistant))) END AS answer
FROM conversations
