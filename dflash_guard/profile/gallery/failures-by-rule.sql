-- Failing rows by rule and level.
SELECT rule, level, count(*) AS rows, count(DISTINCT shard) AS shards, min_by(detail, row) AS for_example
FROM failures
GROUP BY ALL
ORDER BY rows DESC, rule;
