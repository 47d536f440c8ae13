-- Facts of token rows: what the token scan found, with the row's place and provenance.
-- `*_at` is the position of the first token of which something is true, -1 where there is none.

SELECT * REPLACE (nullif(trim(id), '') AS id)
FROM rows
