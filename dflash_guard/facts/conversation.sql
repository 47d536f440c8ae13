-- One row of `rows` to one row of `conversations`: whatever its shape was, with its turns as lists.
--
-- `code` spells a conversation, one letter a turn:
--   s system   d developer   u user   a assistant   c assistant with tool calls   t tool result
--   ? a role that is not known   - no role
-- so that whatever concerns the order of turns is said of a few letters.
--
-- Everything is a projection: rows stream through, nothing is kept, and both facts files begin here.

CREATE OR REPLACE TEMP VIEW conversations AS
WITH read AS (
    SELECT *, read_row(text) AS r
    FROM rows
),
reread AS (
    SELECT
        *,
        CASE WHEN (r.messages IS NULL AND r.conversations IS NULL) OR nullif(r.system, '') IS NOT NULL
            THEN reread_text(r, text) END AS again
    FROM read
),
placed AS (
    SELECT * EXCLUDE (again), coalesce(again, text) AS from_text, CASE WHEN again IS NULL THEN r ELSE read_row(again) END AS c,
        (again IS NOT NULL AND nullif(r.system, '') IS NOT NULL AND r.instruction IS NULL)::TINYINT AS added
    FROM reread
),
listed AS (
    SELECT * EXCLUDE (c), coalesce(c.messages, c.conversations) AS list
    FROM placed
),
typed AS (
    SELECT *,
        CASE WHEN list_bool_or(list_transform(list, lambda t: is_ambiguous(turn_text(t))))
            THEN json_contents(from_text) END AS contents
    FROM listed
),
spoken AS (
    SELECT *,
        CASE WHEN contents IS NULL
            THEN list_transform(list, lambda t: {t: t, base: base_letter(t), reasons: has_field(t), said: {
                kind: CASE WHEN turn_text(t) IS NULL THEN 'none' ELSE 'text' END, content: turn_text(t)}})
            ELSE list_transform(list, lambda t, i: {t: t, base: base_letter(t), reasons: has_field(t),
                said: content_of(turn_text(t), contents[i])})
        END AS spoken
    FROM typed
),
judged AS (
    SELECT *,
        list_transform(spoken, lambda x: turn_facts(
            x.t, x.base, x.said.kind, x.said.content, coalesce(contains(x.said.content, '<'), FALSE), x.reasons)) AS turns,
        len(list)::INTEGER AS turn_count
    FROM spoken
),
lettered AS (
    SELECT *, array_to_string(list_transform(turns, lambda x: x.letter), '') AS code
    FROM judged
),
counted AS (
    SELECT *,
        turn_count - (code[turn_count] IN ('a', 'c'))::INTEGER AS prompt_turns,
        length(rtrim(code, 'sdut?-'))::INTEGER AS last_assistant,  -- 1-based; 0: there is none
        -- Most conversations are plain and calm: nothing more is asked about their turns' order, or about any turn.
        regexp_full_match(code, 's?(ua)+u?') AS plain,
        coalesce(list_bit_or(list_transform(turns, lambda x: turn_flags(x))), 0) AS flags,
        CASE WHEN contains(code, 'c') OR contains(code, 't') THEN tool_facts(list, contents) END AS tools_by_turn
    FROM lettered
),
told AS (
    SELECT
        *,
        flags & 4 > 0 AS stirred,
        list_transform(turns[:prompt_turns], lambda x: hash(x.letter, x.digest)) AS prompt_digests
    FROM counted
)
SELECT
    shard, row, line, fault, fault_detail, stray,
    list, contents, turns, r, added, prompt_turns, last_assistant,
    CASE getvariable('id_kind')
        WHEN 'column' THEN json_id(json_extract(text, getvariable('id_path')))
        WHEN 'content' THEN CASE WHEN prompt_turns > 0 THEN content_id(list, prompt_turns, r.tools) END
        ELSE coalesce(json_id(r.id), json_id(r.sample_id), json_id(r.uuid), json_id(r.conversation_id))
    END AS id,
    CASE getvariable('source_kind')
        WHEN '' THEN json_string(r.source)
        WHEN 'column' THEN json_string(json_extract(text, getvariable('source_path')))
        ELSE shard_source
    END AS source,
    coalesce(code, '') AS code,
    coalesce(turn_count, 0) AS turn_count,
    array_to_string(list_transform(list, lambda t: coalesce(speaker(t), '-')), ',') AS roles,
    -- shape
    list IS NOT NULL AND NOT contains(code, '-') AS shaped,
    CASE WHEN list IS NULL THEN 'no list of turns under messages or conversations, and no Alpaca instruction'
        WHEN contains(code, '-') THEN format('turn {}: neither role nor from', first_match(code, '-', added))
    END AS shape_detail,
    has_both_keys(r, text) OR (
        -- A system field beside the list became a turn in OpenAI's keys: it says nothing about the list.
        CASE WHEN added = 1 THEN list_bit_or(list_transform(turns[2:], lambda x: turn_flags(x))) ELSE flags END & 3 = 3
    ) AS mixed_keys,
    -- turns
    length(code) - length(replace(code, 'u', '')) AS user_turns,
    CASE WHEN plain THEN -1 ELSE first_match(code, '\?', added) END AS unknown_role_turn,
    CASE WHEN NOT plain AND contains(code, '?') THEN speaker(list[strpos(code, '?')])[:60] END AS unknown_role,
    CASE WHEN plain THEN -1 ELSE lower_turn(
        first_match(code, '(?:uu|[ac][ac])', added - 1),
        CASE WHEN regexp_matches(code, '^[sd]*[ac]') THEN first_match(code, '[ac]', added) ELSE -1 END
    ) END AS role_order_turn,
    CASE WHEN plain OR NOT regexp_matches(code, '.[sd]') THEN -1 ELSE first_match(code, '(?:.[sd])', added - 1) END
        AS late_system_turn,
    CASE WHEN plain THEN -1 ELSE lower_turn(
        first_match(' ' || code, '[^ct]t', added),
        orphan_by_id(tools_by_turn, code, added)
    ) END AS orphan_turn,
    CASE WHEN plain THEN -1 ELSE first_true(list_transform(tools_by_turn, lambda x: x.bad_call), added) END
        AS bad_call_turn,
    CASE WHEN plain THEN -1 ELSE lower_turn(
        first_match(code, '(?:c[^t])', added),
        unanswered_by_id(tools_by_turn, code, added)
    ) END AS unanswered_turn,
    CASE WHEN NOT stirred THEN -1 ELSE first_true(
        list_transform(turns, lambda x, i: x.blank AND (x.letter IN ('u', 's', 'd') OR (x.letter = 'a' AND i <> last_assistant))),
        added
    ) END AS empty_turn,
    CASE WHEN NOT stirred THEN -1 ELSE first_true(list_transform(turns, lambda x: x.kind = 'unsupported'), added) END
        AS unsupported_turn,
    CASE WHEN stirred THEN list_filter(turns, lambda x: x.kind = 'unsupported')[1].what END AS unsupported_what,
    CASE WHEN NOT stirred THEN -1 ELSE first_true(list_transform(turns, lambda x: forged_in(x) IS NOT NULL), added) END
        AS forged_turn,
    CASE WHEN stirred THEN forged_in(list_filter(turns, lambda x: forged_in(x) IS NOT NULL)[1]) END AS forged_text,
    CASE WHEN NOT stirred THEN -1 ELSE first_true(list_transform(turns, lambda x: control_in(x) IS NOT NULL), added) END
        AS control_turn,
    CASE WHEN stirred THEN control_in(list_filter(turns, lambda x: control_in(x) IS NOT NULL)[1]) END AS control_text,
    -- prompt
    coalesce(list_sum(list_transform(turns[:prompt_turns], lambda x: x.chars)), 0)::BIGINT AS prompt_chars,
    context_digest(prompt_digests, r.tools) AS context_digest,
    CASE WHEN regexp_full_match(code, '[^ac]+[ac]?') THEN prompt_digests ELSE list_transform(
        list_filter(turns, lambda x: x.letter NOT IN ('a', 'c')), lambda x: hash(x.letter, x.digest)
    ) END AS prompt_trail,
    CASE WHEN is_given(r.tools) THEN hash(as_json(r.tools)::VARCHAR) END AS tools_digest,
    CASE WHEN flags & 8 > 0 THEN len(list_filter(turns, lambda x: x.letter IN ('a', 'c') AND x.thinks)) ELSE 0 END::INTEGER
        AS thinking_turns,
    CASE WHEN flags & 8 > 0 THEN array_to_string(
        list_transform(turns, lambda x: CASE WHEN x.thinks THEN 'y' ELSE 'n' END), '') END AS thinking_code,
    coalesce(
        r.enable_thinking::VARCHAR,
        CASE WHEN is_given(r.chat_template_kwargs) THEN json_extract(r.chat_template_kwargs, '$.enable_thinking')::VARCHAR END
    ) NOT IN ('false', '0', '"false"') IS NOT FALSE AS asks_thinking,
    coalesce(r.ended_early::VARCHAR, 'false') = 'true' AS ended_early
FROM told;
