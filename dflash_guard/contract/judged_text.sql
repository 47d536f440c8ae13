-- What the row rules of text bound: one column a rule, named by the rule, for each row of `facts`.
-- A truth value must be FALSE, a turn must be -1 (there is none), a number keeps the contract's bound; nothing is null.
-- Where a rule is not judged on a row, its column holds what passes.

CREATE OR REPLACE TEMP VIEW text_rows AS
SELECT
    *,
    is_readable(fault) AS readable,
    is_readable(fault) AND shaped AND turn_count > 0 AS talks
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
