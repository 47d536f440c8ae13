-- What somebody would write by hand to judge ShareGPT prompts with DuckDB: the same questions as the contract's rules
-- that this data can raise, on one known shape, with no care for broken rows. Every column it computes is used.

WITH raw AS (
    SELECT id, source, conversations
    FROM read_json($path, format = 'newline_delimited', maximum_object_size = 67108864,
        columns = {id: 'VARCHAR', source: 'VARCHAR', conversations: 'STRUCT("from" VARCHAR, "value" VARCHAR)[]'})
),
facts AS (
    SELECT
        id,
        source,
        array_to_string(list_transform(conversations, lambda t: t."from"), ',') AS roles,
        list_sum(list_transform(conversations[:-2], lambda t: length(t.value))) AS prompt_chars,
        length(conversations[-1].value) AS response_chars,
        md5(array_to_string(list_transform(conversations[:-2], lambda t: t.value), chr(31))) AS prompt_digest,
        list_bool_or(list_transform(conversations, lambda t: trim(t.value) = '')) AS blank,
        list_bool_or(list_transform(conversations, lambda t: contains(t.value, '<|im_start|>') OR contains(t.value, '<|im_end|>'))) AS forged,
        list_bool_or(list_transform(conversations, lambda t: contains(t.value, '<think>') OR contains(t.value, '</think>')
            OR contains(t.value, '<tool_call>') OR contains(t.value, '<tool_response>'))) AS control
    FROM raw
)
SELECT
    count(*) AS rows,
    count(*) FILTER (source IS NULL OR lower(trim(source)) IN ('', 'unknown', 'none', 'null')) AS unknown_source,
    count(*) FILTER (id IS NULL) AS missing_id,
    count(id) - count(DISTINCT id) AS duplicate_id,
    count(*) - count(DISTINCT prompt_digest) AS duplicate_prompt,
    count(*) FILTER (contains(roles, 'system')) AS system_rows,
    count(*) FILTER (NOT regexp_full_match(roles, '(system,)?(human,gpt,?)+')) AS bad_roles,
    count(*) FILTER (blank) AS empty_turn,
    count(*) FILTER (forged) AS forged_turn,
    count(*) FILTER (control) AS control_token,
    count(*) FILTER (prompt_chars > 100000) AS prompt_too_long,
    count(*) FILTER (response_chars < 20) AS stub_response,
    avg(prompt_chars) AS mean_chars,
    quantile_cont(prompt_chars, [0.5, 0.9]) AS quantiles,
    max(prompt_chars) AS longest
FROM facts
