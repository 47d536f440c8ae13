-- How many ids stand on one side of a split only; ids that upstream does not have are not counted.
-- Parameters: the facts files, and whether the failing side is meant. Tables: failing (file_index, row), strangers (id).

WITH told AS (
    SELECT id, failing.row IS NOT NULL AS failed
    FROM (SELECT id, row, file_index FROM read_parquet(?)) AS facts
    ANTI JOIN strangers USING (id)
    LEFT JOIN failing USING (file_index, row)
    WHERE id IS NOT NULL
)
SELECT count(*) FROM (SELECT id FROM told GROUP BY id HAVING bool_and(failed = ?));
