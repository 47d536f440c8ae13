-- The most common responses: how often, and the first row of each.
SELECT count(*) AS rows, round(100 * count(*) / sum(count(*)) OVER (), 2) AS percent,
    min_by(shard, (shard, row)) AS shard, min(row) AS first_row, count(DISTINCT source) AS sources
FROM facts
WHERE response_digest IS NOT NULL
GROUP BY response_digest
ORDER BY rows DESC, shard, first_row
LIMIT 10;
