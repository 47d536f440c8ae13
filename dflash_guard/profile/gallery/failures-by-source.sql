-- Which sources the failing rows come from.
SELECT coalesce(nullif(trim(facts.source), ''), 'unknown') AS source, failures.rule, count(*) AS rows
FROM failures
JOIN facts ON facts.shard = failures.shard AND facts.row = failures.row
GROUP BY ALL
ORDER BY rows DESC, source, rule
LIMIT 100;
