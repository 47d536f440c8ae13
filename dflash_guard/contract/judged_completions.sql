CREATE OR REPLACE TEMP VIEW judged AS
SELECT
    *,
    where_judged(talks, unanswered_turn) AS "unanswered-tool-call",
    readable AND NOT has_generator AND NOT getvariable('manifest_generator') AS "missing-generator",
    readable AND getvariable('target') <> '' AND coalesce(coalesce(generator_model, getvariable('manifest_model')) <> getvariable('target'), FALSE) AS "wrong-model",
    talks AND (NOT ends_on_assistant OR (judged AND blank_answer AND NOT calls_tools)) AS "no-response",
    CASE WHEN talks AND judged AND NOT calls_tools THEN answer_chars + thinking_chars ELSE 2147483647 END
        AS "short-response",
    talks AND judged AND served_thinking(asks_thinking) AND NOT has_thinking AS "missing-thinking",
    talks AND judged AND served_thinking(asks_thinking) AND has_thinking AND NOT filled_thinking AS "empty-thinking",
    talks AND unopened AS "unopened-thinking",
    talks AND unclosed AS "unclosed-thinking",
    talks AND filled_blocks > 1 AS "repeated-thinking",
    talks AND judged AND NOT served_thinking(asks_thinking) AND (has_tags OR filled_thinking) AS "residual-thinking",
    talks AND coalesce(finish_reason = 'length', FALSE) AS "truncated-response",
    talks AND is_blank(finish_reason) AS "unknown-finish",
    readable AND (failure IS NOT NULL OR coalesce(finish_reason IN ('abort', 'error', 'content_filter'), FALSE))
        AS "failed-response",
    CASE WHEN talks THEN loop_share ELSE 0 END AS "repetition-loop"
FROM judged_text;
