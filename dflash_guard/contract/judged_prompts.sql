CREATE OR REPLACE TEMP VIEW judged AS
SELECT
    *,
    earlier_prompt IS NOT NULL AS "duplicate-prompt",
    CASE WHEN talks THEN coalesce(response_chars, 2147483647) ELSE 2147483647 END AS "stub-response"
FROM judged_text;

CREATE OR REPLACE TEMP MACRO detail(rule) AS CASE rule
    WHEN 'stub-response' THEN format('the old response has {} characters, at least {}', response_chars, bound('stub-response.min')::BIGINT)
    ELSE text_detail(rule)
END;
