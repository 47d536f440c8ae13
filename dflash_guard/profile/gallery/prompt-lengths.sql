-- Prompt length quantiles by source (characters).
SELECT
    coalesce(nullif(trim(source), ''), 'unknown') AS source,
    count(*) AS rows,
    round(avg(prompt_chars)) AS mean,
    quantile_cont(prompt_chars, 0.5) AS median,
    quantile_cont(prompt_chars, 0.9) AS p90,
    quantile_cont(prompt_chars, 0.99) AS p99,
    max(prompt_chars) AS max
FROM facts
GROUP BY ALL
ORDER BY rows DESC, source;
