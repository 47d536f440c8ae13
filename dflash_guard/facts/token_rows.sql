-- Token rows that came as JSON text (`texts`: line, text, fault, fault_detail, stray), as columns.
-- Nothing is cast that is not a whole number or a truth value already.

WITH read AS (
    SELECT *, from_json(text, '{"input_ids": "JSON", "loss_mask": "JSON", "labels": "JSON", "seq_len": "JSON",
        "turn": "JSON", "id": "JSON", "sample_id": "JSON", "uuid": "JSON", "conversation_id": "JSON", "source": "JSON",
        "enable_thinking": "JSON"}') AS r
    FROM texts
),
judged AS (
    SELECT *, CASE
        WHEN fault IS NOT NULL AND fault <> 'duplicate-key' THEN NULL
        WHEN is_absent(r.input_ids) OR (is_absent(r.loss_mask) AND is_absent(r.labels)) THEN {
            rule: 'unknown-shape', detail: 'a token row needs input_ids, and loss_mask or labels'}
        WHEN NOT is_numbers(r.input_ids) THEN {rule: 'column-type', detail: 'input_ids is not a list of whole numbers'}
        WHEN NOT is_absent(r.loss_mask) AND NOT is_numbers(r.loss_mask) AND NOT is_truths(r.loss_mask) THEN {
            rule: 'column-type', detail: 'loss_mask is not a list of whole numbers or truth values'}
        WHEN is_absent(r.loss_mask) AND NOT is_numbers(r.labels) THEN {
            rule: 'column-type', detail: 'labels is not a list of whole numbers'}
        WHEN NOT is_absent(r.seq_len) AND NOT regexp_full_match(r.seq_len::VARCHAR, '[0-9]+') THEN {
            rule: 'column-type', detail: 'seq_len is not a whole number'}
    END AS problem
    FROM read
)
SELECT
    line, text,
    coalesce(CASE WHEN fault <> 'duplicate-key' THEN fault END, problem.rule, fault) AS fault,
    CASE WHEN fault <> 'duplicate-key' THEN fault_detail ELSE coalesce(problem.detail, fault_detail) END AS fault_detail,
    stray,
    CASE WHEN problem IS NULL THEN coalesce(as_numbers(r.input_ids), []) ELSE [] END::BIGINT[] AS input_ids,
    CASE WHEN problem IS NULL AND NOT is_absent(r.loss_mask) THEN as_numbers(r.loss_mask) END::BIGINT[] AS loss_mask,
    CASE WHEN problem IS NULL AND is_absent(r.loss_mask) THEN as_numbers(r.labels) END::BIGINT[] AS labels,
    CASE WHEN problem IS NULL THEN try_cast(r.seq_len::VARCHAR AS BIGINT) END AS seq_len,
    try_cast(r.turn::VARCHAR AS BIGINT) AS turn,
    json_id(coalesce(r.id, r.sample_id, r.uuid, r.conversation_id)) AS id,
    json_string(r.source) AS source,
    coalesce(r.enable_thinking::VARCHAR, 'true') NOT IN ('false', '0') AS asks_thinking
FROM judged
