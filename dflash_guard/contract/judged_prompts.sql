CREATE OR REPLACE TEMP VIEW judged AS
SELECT
    *,
    earlier_prompt IS NOT NULL AS "duplicate-prompt",
    CASE WHEN talks THEN coalesce(response_chars, 2147483647) ELSE 2147483647 END AS "stub-response"
FROM judged_text;
