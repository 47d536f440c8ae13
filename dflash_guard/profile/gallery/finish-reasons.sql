-- Finish reasons, with the lengths of what they ended (completions).
SELECT coalesce(finish_reason, '(none)') AS finish_reason, count(*) AS rows,
    quantile_cont(answer_chars + thinking_chars, 0.5) AS median_chars, max(completion_tokens) AS max_tokens
FROM facts
GROUP BY ALL
ORDER BY rows DESC, finish_reason;
