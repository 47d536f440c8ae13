-- Share of rows with thinking that is not blank, by source (completions).
SELECT
    coalesce(nullif(trim(source), ''), 'unknown') AS source,
    count(*) AS rows,
    round(100 * count(*) FILTER (filled_thinking) / count(*), 2) AS percent_thinking,
    quantile_cont(thinking_chars, 0.5) AS median_thinking_chars
FROM facts
GROUP BY ALL
ORDER BY percent_thinking, source;
