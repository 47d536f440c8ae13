-- Macros about JSON values, for every file that reads rows.

CREATE OR REPLACE TEMP MACRO is_blank(t) AS NOT regexp_matches(coalesce(t, ''), '[^\s\pZ]');

-- Can a row with this fault (null: none) be read and judged on? A key that stands twice is read as its first value.
CREATE OR REPLACE TEMP MACRO is_readable(fault) AS coalesce(fault, '') IN ('', 'duplicate-key');

-- JSON of a string: its characters; of anything else: null.
CREATE OR REPLACE TEMP MACRO json_string(j) AS CASE WHEN starts_with(j::VARCHAR, '"') THEN j ->> '$' END;
CREATE OR REPLACE TEMP MACRO is_given(j) AS j IS NOT NULL AND j::VARCHAR NOT IN ('null', '[]', '""', '"[]"', '"null"');

-- An id is text that is not blank, or an integer of any size; both are compared as text.
CREATE OR REPLACE TEMP MACRO json_id(j) AS CASE
    WHEN starts_with(j::VARCHAR, '"') THEN CASE WHEN NOT is_blank(j ->> '$') THEN j ->> '$' END
    WHEN regexp_full_match(j::VARCHAR, '-?[0-9]+') THEN j::VARCHAR
END;

-- Lists in token rows that came as JSON.
CREATE OR REPLACE TEMP MACRO element_kind(j) AS json_structure(j)::VARCHAR;
CREATE OR REPLACE TEMP MACRO is_numbers(j) AS element_kind(j) IN ('["UBIGINT"]', '["BIGINT"]', '["HUGEINT"]', '["NULL"]');
CREATE OR REPLACE TEMP MACRO is_truths(j) AS element_kind(j) = '["BOOLEAN"]';
CREATE OR REPLACE TEMP MACRO is_absent(j) AS j IS NULL OR j::VARCHAR = 'null';
CREATE OR REPLACE TEMP MACRO as_numbers(j) AS CASE
    WHEN is_absent(j) THEN NULL
    WHEN is_truths(j) THEN list_transform(from_json(j, '["BOOLEAN"]'), lambda x: x::BIGINT)
    WHEN is_numbers(j) THEN from_json(j, '["BIGINT"]')
    ELSE []
END;
