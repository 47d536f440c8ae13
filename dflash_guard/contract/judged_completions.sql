CREATE OR REPLACE TEMP VIEW judged AS
SELECT
    *,
    where_judged(talks, unanswered_turn) AS "unanswered-tool-call",
    readable AND NOT has_generator AND NOT getvariable('manifest_generator') AS "missing-generator",
    readable AND getvariable('target') <> '' AND coalesce(generator_model, getvariable('target')) <> getvariable('target') AS "wrong-model",
    talks AND (NOT ends_on_assistant OR (judged AND blank_answer AND NOT calls_tools)) AS "no-response",
    CASE WHEN talks AND judged AND NOT calls_tools THEN answer_chars + thinking_chars ELSE 2147483647 END AS "short-response",
    talks AND judged AND served_thinking(asks_thinking) AND NOT has_thinking AS "missing-thinking",
    talks AND judged AND served_thinking(asks_thinking) AND has_thinking AND NOT filled_thinking AS "empty-thinking",
    talks AND unopened AS "unopened-thinking",
    talks AND unclosed AS "unclosed-thinking",
    talks AND filled_blocks > 1 AS "repeated-thinking",
    talks AND judged AND NOT served_thinking(asks_thinking) AND (has_tags OR filled_thinking) AS "residual-thinking",
    talks AND coalesce(finish_reason = 'length', FALSE) AS "truncated-response",
    talks AND is_blank(finish_reason) AS "unknown-finish",
    readable AND (failure IS NOT NULL OR coalesce(finish_reason IN ('abort', 'error', 'content_filter'), FALSE)) AS "failed-response",
    CASE WHEN talks THEN loop_share ELSE 0 END AS "repetition-loop"
FROM judged_text;

CREATE OR REPLACE TEMP MACRO detail(rule) AS CASE rule
    WHEN 'missing-generator' THEN 'neither the row nor a manifest says which model, sampling and chat template made it'
    WHEN 'wrong-model' THEN format('made by {}, the target is {}', shown(generator_model), shown(getvariable('target')))
    WHEN 'no-response' THEN CASE WHEN ends_on_assistant THEN 'the answer is blank' ELSE 'the row ends on another role: ' || roles[:100] END
    WHEN 'short-response' THEN format('{} characters of thinking and answer, at least {}', answer_chars + thinking_chars, bound('short-response.min')::BIGINT)
    WHEN 'missing-thinking' THEN 'no thinking in the last assistant turn'
    WHEN 'empty-thinking' THEN 'the thinking of the last assistant turn is blank'
    WHEN 'unopened-thinking' THEN '</think> without <think>'
    WHEN 'unclosed-thinking' THEN '<think> without </think>'
    WHEN 'repeated-thinking' THEN format('{} filled thinking blocks in one turn', filled_blocks)
    WHEN 'residual-thinking' THEN CASE WHEN filled_thinking THEN 'thinking in the last assistant turn' ELSE 'think tags in the last assistant turn' END
    WHEN 'truncated-response' THEN 'finish_reason is length'
    WHEN 'unknown-finish' THEN 'no finish_reason'
    WHEN 'failed-response' THEN coalesce(failure, 'finish_reason is ' || finish_reason)
    WHEN 'repetition-loop' THEN format('one phrase on end covers {:.0f} % of {} characters', 100 * loop_share, greatest(answer_chars, thinking_chars))
    ELSE text_detail(rule)
END;
