-- Reading conversations: macros that make one form of every shape.
--
-- Wherever two texts mean the same conversation, they become the same turns here, so that nothing behind this file
-- knows of ShareGPT, OpenAI, Alpaca, JSON inside a string, or lists of text parts. Texts are standard JSON by now.

CREATE OR REPLACE TEMP MACRO read_row(json_text) AS from_json(
    json_text,
    '{"messages": [{"role": "VARCHAR", "from": "VARCHAR", "content": "VARCHAR", "value": "VARCHAR",
                    "reasoning_content": "VARCHAR", "reasoning": "VARCHAR", "thinking": "VARCHAR",
                    "tool_calls": "JSON", "function_call": "JSON", "tool_call_id": "VARCHAR",
                    "finish_reason": "JSON", "error": "JSON"}],
      "conversations": [{"role": "VARCHAR", "from": "VARCHAR", "content": "VARCHAR", "value": "VARCHAR",
                    "reasoning_content": "VARCHAR", "reasoning": "VARCHAR", "thinking": "VARCHAR",
                    "tool_calls": "JSON", "function_call": "JSON", "tool_call_id": "VARCHAR",
                    "finish_reason": "JSON", "error": "JSON"}],
      "id": "JSON", "sample_id": "JSON", "uuid": "JSON", "conversation_id": "JSON", "source": "JSON",
      "instruction": "VARCHAR", "input": "VARCHAR", "output": "VARCHAR", "history": "JSON", "system": "VARCHAR",
      "tools": "JSON", "finish_reason": "JSON", "error": "JSON", "status": "JSON", "status_code": "JSON",
      "http_status": "JSON", "enable_thinking": "JSON", "chat_template_kwargs": "JSON", "generator": "JSON",
      "usage": "JSON", "ended_early": "JSON"}'
);

-- The contents as JSON, which tells a string from what only reads like one: for the rows where that matters.
CREATE OR REPLACE TEMP MACRO json_contents(json_text) AS list_transform(
    coalesce(
        from_json(json_text, '{"messages": [{"content": "JSON", "value": "JSON"}]}').messages,
        from_json(json_text, '{"conversations": [{"content": "JSON", "value": "JSON"}]}').conversations
    ),
    lambda x: coalesce(x.content, x.value)
);

CREATE OR REPLACE TEMP MACRO turn_text(t) AS coalesce(t.content, t.value);
CREATE OR REPLACE TEMP MACRO speaker(t) AS coalesce(t.role, t."from");

-- Could this text be an array, an object, a number or a boolean that was made text by reading it as text?
CREATE OR REPLACE TEMP MACRO is_ambiguous(t) AS
    CASE ascii(t) IN (91, 123, 45, 102, 116) OR ascii(t) BETWEEN 48 AND 57  -- [ { - f t and digits
        WHEN TRUE THEN ascii(t) IN (91, 123) OR (strlen(t) < 400 AND regexp_full_match(t, 'true|false|-?[0-9][-+.eE0-9]*'))
        ELSE FALSE
    END;

-- A list of parts is text if each part is {type: text, text: string}; this is the first that is not, 0 if none.
CREATE OR REPLACE TEMP MACRO bad_part(parts) AS coalesce(list_position(
    list_transform(json_extract(parts, '$[*]'), lambda p: coalesce(
        json_type(p) = 'OBJECT' AND p ->> '$.type' = 'text' AND json_type(p, '$.text') = 'VARCHAR', FALSE)),
    FALSE
), 0);

CREATE OR REPLACE TEMP MACRO part_kind(part) AS coalesce(
    CASE WHEN json_type(part) = 'OBJECT' THEN 'type ' || coalesce(part ->> '$.type', 'absent') END,
    'a bare ' || lower(json_type(part))
);

-- `kind`: text; none (no content, or null); unsupported: `content` says what stands there instead of text.
CREATE OR REPLACE TEMP MACRO content_of(raw, j) AS CASE
    WHEN j IS NULL OR starts_with(j::VARCHAR, '"')
        THEN {kind: CASE WHEN raw IS NULL THEN 'none' ELSE 'text' END, content: raw}
    WHEN starts_with(j::VARCHAR, '[') AND bad_part(j) = 0
        THEN {kind: 'text', content: coalesce(array_to_string(json_extract_string(j, '$[*].text'), ''), '')}
    WHEN starts_with(j::VARCHAR, '[') THEN {
        kind: 'unsupported',
        content: format('part {}: {}', bad_part(j) - 1, part_kind(json_extract(j, '$[*]')[bad_part(j)]))
    }
    ELSE {kind: 'unsupported', content: 'not text but ' || CASE json_type(j) WHEN 'OBJECT' THEN 'an object'
        WHEN 'BOOLEAN' THEN 'a boolean' ELSE 'a number' END}
END;

-- The text of one turn (1-based) of a conversation.
CREATE OR REPLACE TEMP MACRO said_in(list, contents, turn) AS content_of(turn_text(list[turn]), contents[turn]).content;
CREATE OR REPLACE TEMP MACRO stripped(t) AS trim(t, e' \t\n\r');
-- A response is known by its answer, behind the thinking and without white space around.
CREATE OR REPLACE TEMP MACRO response_digest(answer) AS hash(stripped(answer));

-- Rows whose conversation does not stand in its place: a JSON string, an Alpaca row, a `system` field beside the list.
-- They are written as {"messages": […]} and read again, so that there is one way to read turns.

CREATE OR REPLACE TEMP MACRO decoded_list(json_text, path) AS CASE json_type(json_text, path)
    WHEN 'ARRAY' THEN json_extract(json_text, path)::VARCHAR
    WHEN 'VARCHAR' THEN CASE WHEN json_valid(json_extract_string(json_text, path))
        AND json_type(json_extract_string(json_text, path)) = 'ARRAY' THEN json_extract_string(json_text, path) END
END;

CREATE OR REPLACE TEMP MACRO turn_list(json_text) AS
    coalesce(decoded_list(json_text, '$.messages'), decoded_list(json_text, '$.conversations'));

CREATE OR REPLACE TEMP MACRO turn_json(who, said) AS
    CASE WHEN said IS NOT NULL THEN json_object('role', who, 'content', said)::VARCHAR END;

CREATE OR REPLACE TEMP MACRO alpaca_list(r) AS CASE
    WHEN r.instruction IS NOT NULL AND NOT is_given(r.history) THEN '[' || concat_ws(
        ',',
        turn_json('system', nullif(r.system, '')),
        turn_json('user', concat_ws(chr(10), r.instruction, nullif(r.input, ''))),
        turn_json('assistant', r.output)
    ) || ']'
END;

CREATE OR REPLACE TEMP MACRO with_system(system_text, turns_text) AS CASE
    WHEN nullif(system_text, '') IS NULL OR turns_text IS NULL THEN turns_text
    ELSE '[' || turn_json('system', system_text)
        || CASE WHEN json_array_length(turns_text) > 0 THEN ',' ELSE '' END || substring(ltrim(turns_text), 2)
END;

CREATE OR REPLACE TEMP MACRO reread_text(r, json_text) AS
    '{"messages": ' || coalesce(with_system(r.system, turn_list(json_text)), alpaca_list(r)) || '}';

-- Beside a list of turns under one key, is there anything under the other?
CREATE OR REPLACE TEMP MACRO has_both_keys(r, json_text) AS CASE
    WHEN r.messages IS NOT NULL AND r.conversations IS NOT NULL THEN TRUE
    WHEN r.messages IS NOT NULL AND contains(json_text, '"conversations"')
        THEN coalesce(json_type(json_text, '$.conversations'), 'NULL') <> 'NULL'
    WHEN r.conversations IS NOT NULL AND contains(json_text, '"messages"')
        THEN coalesce(json_type(json_text, '$.messages'), 'NULL') <> 'NULL'
    ELSE FALSE
END;

-- What a turn is, in one letter (see conversation.sql). A user turn that only wraps a tool result is one.
CREATE OR REPLACE TEMP MACRO turn_letter(t, base, said, marked) AS CASE base
    WHEN 'f' THEN 'c'
    WHEN 'a' THEN CASE WHEN is_given(t.tool_calls) OR is_given(t.function_call)
        OR (marked AND contains(said, '<tool_call>')) THEN 'c' ELSE 'a' END
    WHEN 'u' THEN CASE WHEN marked AND contains(said, '<tool_response>')
        AND regexp_full_match(said, '(?s)\s*<tool_response>.*</tool_response>\s*') THEN 't' ELSE 'u' END
    WHEN '?' THEN CASE WHEN speaker(t) IS NULL THEN '-' ELSE '?' END
    ELSE base
END;

-- What a role is called in a letter, before the turn's content is looked at; `f` is a ShareGPT function_call.
CREATE OR REPLACE TEMP MACRO base_letter(t) AS coalesce(getvariable('letters')[speaker(t)], '?');

CREATE OR REPLACE TEMP MACRO has_tags(t) AS contains(coalesce(t, ''), '<think>') OR contains(coalesce(t, ''), '</think>');
CREATE OR REPLACE TEMP MACRO has_field(t) AS
    t.reasoning_content IS NOT NULL OR t.reasoning IS NOT NULL OR t.thinking IS NOT NULL;
CREATE OR REPLACE TEMP MACRO filled_fields(t) AS CASE WHEN has_field(t) THEN list_distinct(
        list_filter([t.reasoning_content, t.reasoning, t.thinking], lambda x: NOT is_blank(x))) END;

-- The narrow facts of one turn. `kind` and `said` are what content_of made of its content; `base` is its role's
-- letter; `marked` says whether it holds a `<`, without which no token of the target's format can stand in it, and
-- `reasons` whether it has a field for reasoning.
CREATE OR REPLACE TEMP MACRO turn_facts(t, base, kind, said, marked, reasons) AS {
    letter: turn_letter(t, base, said, marked),
    openai: t.role IS NOT NULL OR t.content IS NOT NULL,
    sharegpt: t."from" IS NOT NULL OR t.value IS NOT NULL,
    kind: kind,
    what: CASE WHEN kind = 'unsupported' THEN said END,
    chars: CASE WHEN kind = 'text' THEN length(said) ELSE 0 END,
    blank: kind <> 'unsupported' AND is_blank(said),
    forged: CASE WHEN marked AND kind = 'text' THEN nullif(regexp_extract(said, getvariable('turn_pattern')), '') END,
    -- What makes or ends a turn is no *other* control token.
    control: CASE WHEN marked AND kind = 'text' AND regexp_matches(said, getvariable('control_pattern')) THEN nullif(
        regexp_extract(regexp_replace(said, getvariable('turn_pattern'), '', 'g'), getvariable('control_pattern')), '') END,
    forged_thinking: CASE WHEN reasons THEN nullif(
        regexp_extract(concat(t.reasoning_content, t.reasoning, t.thinking), getvariable('turn_pattern')), '') END,
    thinks: CASE WHEN marked AND has_tags(said) THEN len(filled_blocks(said)) > 0 ELSE FALSE END
        OR CASE WHEN reasons THEN len(filled_fields(t)) > 0 ELSE FALSE END,
    digest: CASE WHEN kind <> 'unsupported' THEN hash(said) END
};

-- What a turn holds that ends or begins one, and what it must not hold of the target's other tokens.
CREATE OR REPLACE TEMP MACRO forged_in(x) AS coalesce(x.forged, x.forged_thinking);
CREATE OR REPLACE TEMP MACRO control_in(x) AS CASE WHEN x.letter IN ('u', 's', 'd', 't') THEN x.control END;

-- What is true of any turn of a conversation, for all turns at once: 1 OpenAI keys, 2 ShareGPT keys, 4 something that
-- asks for a closer look, 8 thinking.
CREATE OR REPLACE TEMP MACRO turn_flags(x) AS
    x.openai::TINYINT | (x.sharegpt::TINYINT << 1) | (x.thinks::TINYINT << 3)
    | ((x.blank OR x.kind = 'unsupported' OR x.forged IS NOT NULL OR x.forged_thinking IS NOT NULL OR x.control IS NOT NULL)
        ::TINYINT << 2);

-- A digest of the turns before the response, and of the tools that were offered. `hash` is DuckDB's: fast, 64 bits,
-- the same for one DuckDB version (which is part of a facts file's key); nothing outside facts may hold it.
CREATE OR REPLACE TEMP MACRO context_digest(digests, tools) AS CASE WHEN len(digests) > 0 THEN hash(
    digests,
    CASE WHEN is_given(tools) THEN as_json(tools)::VARCHAR END
) END;

-- An id made of the content: cryptographic, and the same for ever.
CREATE OR REPLACE TEMP MACRO content_id(list, prompt_turns, tools) AS 'md5-' || md5(concat(
    array_to_string(list_transform(list[:prompt_turns], lambda t: md5(concat(speaker(t), chr(31), turn_text(t)))), ''),
    CASE WHEN is_given(tools) THEN md5(as_json(tools)::VARCHAR) END
));

-- Thinking inside text. `</think>` ends a block; a block without `<think>` begins where the text (or the last block) did.
CREATE OR REPLACE TEMP MACRO closed_pieces(t) AS string_split(t, '</think>')[:-2];
CREATE OR REPLACE TEMP MACRO filled_blocks(t) AS list_filter(
    list_append(
        list_transform(closed_pieces(t), lambda p: string_split(p, '<think>')[-1]),
        CASE WHEN contains(string_split(t, '</think>')[-1], '<think>')
            THEN string_split(string_split(t, '</think>')[-1], '<think>')[-1] END
    ),
    lambda b: b IS NOT NULL AND NOT is_blank(b)
);
CREATE OR REPLACE TEMP MACRO is_unopened(t) AS
    list_bool_or(list_transform(closed_pieces(t), lambda p: NOT contains(p, '<think>')));
CREATE OR REPLACE TEMP MACRO is_unclosed(t) AS contains(string_split(t, '</think>')[-1], '<think>');
CREATE OR REPLACE TEMP MACRO answer_of(t) AS CASE
    WHEN NOT has_tags(t) THEN t
    WHEN is_unclosed(t) THEN ''
    ELSE string_split(t, '</think>')[-1]
END;

-- The first turn (0-based) of which a list says TRUE, -1 if none.
CREATE OR REPLACE TEMP MACRO first_true(flags, added) AS
    (CASE WHEN list_position(flags, TRUE) > 0 THEN list_position(flags, TRUE) - 1 - added ELSE -1 END)::INTEGER;
-- The same of letters: where a pattern begins in the code, plus an offset.
CREATE OR REPLACE TEMP MACRO first_match(code, pattern, added) AS (CASE
    WHEN regexp_matches(code, pattern) THEN length(regexp_extract(code, '^(.*?)' || pattern, 1)) - added ELSE -1
END)::INTEGER;

-- Tool calls of one turn as JSON texts, in every form they come in.
CREATE OR REPLACE TEMP MACRO json_array(j) AS CASE
    WHEN json_type(j) = 'ARRAY' THEN json_extract(j, '$[*]')::VARCHAR[]
    WHEN json_type(j) = 'OBJECT' THEN [j::VARCHAR]
END;
CREATE OR REPLACE TEMP MACRO as_json(j) AS CASE
    WHEN json_type(j) = 'VARCHAR' THEN CASE WHEN json_valid(j ->> '$') THEN (j ->> '$')::JSON END ELSE j END;
CREATE OR REPLACE TEMP MACRO field_calls(j) AS CASE
    WHEN is_given(j) THEN coalesce(json_array(as_json(j)), ['broken']) ELSE [] END;
CREATE OR REPLACE TEMP MACRO calls_of(t, said) AS
    field_calls(t.tool_calls) || field_calls(t.function_call)
    || CASE WHEN getvariable('letters')[speaker(t)] = 'f'
        THEN CASE WHEN json_valid(turn_text(t)) THEN coalesce(json_array(turn_text(t)::JSON), ['broken']) ELSE ['broken'] END
        ELSE [] END
    || CASE WHEN contains(coalesce(said, ''), '<tool_call>')
        THEN regexp_extract_all(said, '(?s)<tool_call>\s*(.*?)\s*(?:</tool_call>|$)', 1) ELSE [] END;
CREATE OR REPLACE TEMP MACRO arguments_of(call_text) AS coalesce(
    json_extract(call_text, '$.function.arguments'), json_extract(call_text, '$.arguments'));
CREATE OR REPLACE TEMP MACRO is_bad_call(call_text) AS CASE
    WHEN starts_with(call_text, '<function=') THEN FALSE
    WHEN NOT json_valid(call_text) THEN TRUE
    WHEN json_type(arguments_of(call_text)) = 'OBJECT' THEN FALSE
    WHEN json_type(arguments_of(call_text)) = 'VARCHAR' AND json_valid(arguments_of(call_text) ->> '$')
        THEN json_type(arguments_of(call_text) ->> '$') <> 'OBJECT'
    ELSE TRUE
END;
-- What the tools of a conversation are about, one entry a turn: only for rows that have any.
CREATE OR REPLACE TEMP MACRO tool_facts(list, contents) AS list_transform(list, lambda t, i: {
    bad_call: getvariable('letters')[speaker(t)] IN ('a', 'f') AND coalesce(list_bool_or(list_transform(
        calls_of(t, content_of(turn_text(t), contents[i]).content), lambda k: is_bad_call(k))), FALSE),
    call_ids: CASE WHEN is_given(t.tool_calls) THEN list_filter(list_transform(
        field_calls(t.tool_calls), lambda k: CASE WHEN json_valid(k) THEN json_extract_string(k, '$.id') END
    ), lambda k: k IS NOT NULL) ELSE [] END,
    answers: t.tool_call_id
});
CREATE OR REPLACE TEMP MACRO all_call_ids(tools) AS flatten(list_transform(tools, lambda x: x.call_ids));
CREATE OR REPLACE TEMP MACRO orphan_by_id(tools, code, added) AS CASE WHEN len(all_call_ids(tools)) > 0
    THEN first_true(list_transform(tools, lambda x, i: code[i] = 't' AND x.answers IS NOT NULL
        AND NOT list_contains(all_call_ids(tools), x.answers)), added) ELSE -1 END;
CREATE OR REPLACE TEMP MACRO unanswered_by_id(tools, code, added) AS
    CASE WHEN list_bool_or(list_transform(tools, lambda x: x.answers IS NOT NULL))
    THEN first_true(list_transform(tools, lambda x, i: i < len(tools) AND len(x.call_ids) > 0
        AND NOT list_has_all(list_transform(tools, lambda y: y.answers), x.call_ids)), added) ELSE -1 END;
CREATE OR REPLACE TEMP MACRO lower_turn(a, b) AS CASE WHEN a < 0 THEN b WHEN b < 0 THEN a ELSE least(a, b) END;

-- A server's error that was saved as if it were an answer.
CREATE OR REPLACE TEMP MACRO is_error_body(t) AS CASE
    WHEN starts_with(t, '{') AND json_valid(t)
        THEN is_given(json_extract(t, '$.error')) OR json_extract_string(t, '$.object') = 'error'
    WHEN starts_with(t, '<') THEN regexp_matches(t, '(?i)^<(!doctype html|html|\?xml)')
    ELSE FALSE
END;

-- Which model, which sampling and which chat template.
CREATE OR REPLACE TEMP MACRO generator_is_whole(g) AS
    is_given(json_extract(g, '$.model')) AND is_given(json_extract(g, '$.sampling'))
    AND is_given(coalesce(json_extract(g, '$.chat_template_sha256'), json_extract(g, '$.chat_template')));

-- A loop that covers 60 % of a text covers its middle fifth, and its phrase (at most 15 % of the text) comes again in it.
-- White space is made alike, so that a phrase may be repeated on new lines.
CREATE OR REPLACE TEMP MACRO middle(t) AS
    trim(regexp_replace(substring(t, (0.4 * length(t))::BIGINT, (0.2 * length(t))::BIGINT), '\s+', ' ', 'g'));
CREATE OR REPLACE TEMP MACRO may_loop(t) AS CASE
    WHEN length(t) >= getvariable('loop_min_chars') THEN contains(middle(t)[2:], middle(t)[:12]) ELSE FALSE END;
