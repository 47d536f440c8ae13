-- `response_length` stands for the stage's own measure.
-- The ten most common responses, and where each stands first. Ties: the earlier first.

WITH top AS (
    SELECT count(*) AS rows, min(place_of(shard, row)) AS place
    FROM measured
    WHERE response_digest IS NOT NULL
    GROUP BY response_digest
    ORDER BY rows DESC, place
    LIMIT 10
)
SELECT
    top.rows,
    top.rows / (SELECT count(response_digest) FROM measured) AS share,
    shard_of(place) AS shard,
    row_of(place) AS row,
    line,
    response_length AS length
FROM top
JOIN measured ON measured.shard = shard_of(place) AND measured.row = row_of(place)
ORDER BY top.rows DESC, place
