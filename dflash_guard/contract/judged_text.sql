-- What the row rules of text bound: one column a rule, named by the rule, for each row of `facts`.
-- A truth value must be FALSE, a turn must be -1 (there is none), a number keeps the contract's bound; nothing is null.
-- Where a rule is not judged on a row, its column holds what passes.

CREATE OR REPLACE TEMP VIEW text_rows AS
SELECT
    *,
    coalesce(fault, '') IN ('', 'duplicate-key') AS readable,
    coalesce(fault, '') IN ('', 'duplicate-key') AND shaped AND turn_count > 0 AS talks
FROM facts;

CREATE OR REPLACE TEMP VIEW judged_text AS
SELECT
    *,
    coalesce(fault = 'malformed-row', FALSE) AS "malformed-row",
    coalesce(fault = 'torn-last-line', FALSE) AS "torn-last-line",
    coalesce(fault = 'invalid-text', FALSE) AS "invalid-text",
    coalesce(fault = 'duplicate-key', FALSE) AS "duplicate-key",
    stray IS NOT NULL AS "stray-bytes",
    readable AND NOT known_source(source) AS "unknown-source",
    readable AND id IS NULL AS "missing-id",
    earlier_id IS NOT NULL AS "duplicate-id",
    readable AND NOT shaped AS "unknown-shape",
    readable AND mixed_keys AS "mixed-schema",
    readable AND shaped AND turn_count = 0 AS "empty-conversation",
    where_judged(talks, unknown_role_turn) AS "unknown-role",
    talks AND user_turns = 0 AND unknown_role_turn < 0 AS "no-user-turn",
    where_judged(talks, empty_turn) AS "empty-turn",
    where_judged(talks, role_order_turn) AS "role-order",
    where_judged(talks, late_system_turn) AS "late-system",
    where_judged(talks, unsupported_turn) AS "unsupported-content",
    where_judged(talks, forged_turn) AS "forged-turn",
    where_judged(talks, control_turn) AS "control-token-in-text",
    where_judged(talks, orphan_turn) AS "orphan-tool-result",
    where_judged(talks, bad_call_turn) AS "invalid-tool-arguments",
    CASE WHEN talks THEN prompt_chars ELSE 0 END AS "prompt-too-long"
FROM text_rows;

CREATE OR REPLACE TEMP MACRO text_detail(rule) AS CASE rule
    WHEN 'malformed-row' THEN fault_detail
    WHEN 'torn-last-line' THEN fault_detail
    WHEN 'invalid-text' THEN fault_detail
    WHEN 'duplicate-key' THEN fault_detail
    WHEN 'stray-bytes' THEN stray
    WHEN 'unknown-source' THEN source_detail(source)
    WHEN 'missing-id' THEN 'no id, sample_id, uuid or conversation_id that is text or an integer'
    WHEN 'duplicate-id' THEN format('id {} stands first at {}', shown(id), earlier_id)
    WHEN 'duplicate-prompt' THEN format('the same prompt stands first at {}', earlier_prompt)
    WHEN 'unknown-shape' THEN shape_detail
    WHEN 'mixed-schema' THEN 'from/value and role/content, or messages and conversations, in one row'
    WHEN 'empty-conversation' THEN 'no turns'
    WHEN 'unknown-role' THEN format('turn {}: role {}', unknown_role_turn, shown(unknown_role))
    WHEN 'no-user-turn' THEN format('{} turns, none that a user wrote: {}', turn_count, roles[:100])
    WHEN 'empty-turn' THEN format('turn {}: no text', empty_turn)
    WHEN 'role-order' THEN format('turn {}: roles in order are {}', role_order_turn, roles[:100])
    WHEN 'late-system' THEN format('turn {}: a system turn that is not first', late_system_turn)
    WHEN 'unsupported-content' THEN format('turn {}: {}', unsupported_turn, unsupported_what)
    WHEN 'forged-turn' THEN format('turn {}: text holds {}', forged_turn, forged_text)
    WHEN 'control-token-in-text' THEN format('turn {}: text holds {}', control_turn, control_text)
    WHEN 'orphan-tool-result' THEN format('turn {}: a tool result that answers no call', orphan_turn)
    WHEN 'invalid-tool-arguments' THEN format('turn {}: the arguments of a tool call are not one JSON object', bad_call_turn)
    WHEN 'unanswered-tool-call' THEN format('turn {}: a tool call without a result', unanswered_turn)
    WHEN 'prompt-too-long' THEN format('{:,} characters, at most {:,}', prompt_chars, bound('prompt-too-long.max')::BIGINT)
END;
