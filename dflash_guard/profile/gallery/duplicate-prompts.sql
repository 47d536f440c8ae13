-- Prompts that stand in more than one shard (prompts, completions).
SELECT count(*) AS rows, count(DISTINCT shard) AS shards, string_agg(DISTINCT shard, ', ' ORDER BY shard) AS where_,
    min_by(id, shard) AS an_id
FROM facts
WHERE context_digest IS NOT NULL
GROUP BY context_digest
HAVING count(DISTINCT shard) > 1
ORDER BY rows DESC, an_id
LIMIT 50;
