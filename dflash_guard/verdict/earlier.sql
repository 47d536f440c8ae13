-- Rows whose key stands on an earlier row, and where. The key is an expression over facts (key_of_row); keys that stand
-- once, nearly all of them, are dropped before anything is sorted.

CREATE OR REPLACE TEMP TABLE earlier_rows AS
WITH keyed AS (
    SELECT shard, shard_name, row, line, key_of_row AS key
    FROM raw_facts
    WHERE is_readable(fault)
),
repeated AS (
    SELECT key FROM keyed WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1
),
ranked AS (
    SELECT
        keyed.*,
        row_number() OVER same AS nth,
        first_value(concat(shard_name, CASE WHEN line IS NULL THEN ' row ' || row ELSE ':' || line END)) OVER same AS place
    FROM keyed SEMI JOIN repeated USING (key)
    WINDOW same AS (PARTITION BY key ORDER BY shard, row)
)
SELECT shard, row, place FROM ranked WHERE nth > 1;
