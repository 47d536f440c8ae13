-- As facts.sql, where no key stands twice.

CREATE OR REPLACE TEMP VIEW facts AS
SELECT *, NULL::VARCHAR AS earlier_id, NULL::VARCHAR AS earlier_prompt
FROM raw_facts;
