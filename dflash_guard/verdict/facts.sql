CREATE OR REPLACE TEMP VIEW facts AS
SELECT raw_facts.*, earlier_ids.place AS earlier_id, earlier_prompts.place AS earlier_prompt
FROM raw_facts
LEFT JOIN earlier_ids USING (shard, row)
LEFT JOIN earlier_prompts USING (shard, row);
