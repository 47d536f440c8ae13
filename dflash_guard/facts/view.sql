-- The facts of a whole data set as one view: the files of its shards, each row with its shard.
-- Variables: facts_files, file_shards (the shard of each file), shard_names.

CREATE OR REPLACE TEMP VIEW raw_facts AS
SELECT
    * EXCLUDE (file_index),
    getvariable('file_shards')[file_index::BIGINT + 1] AS shard,
    getvariable('shard_names')[getvariable('file_shards')[file_index::BIGINT + 1] + 1] AS shard_name
FROM (SELECT *, file_index FROM read_parquet(getvariable('facts_files')));
