-- The twenty longest rows as they stand in the shards.
SELECT shard, row, strlen(s::VARCHAR) AS bytes, left(s::VARCHAR, 200) AS beginning
FROM samples AS s
ORDER BY bytes DESC
LIMIT 20;
