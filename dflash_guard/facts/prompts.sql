-- Facts of raw prompts: one row out for each row in.
-- `*_turn` is the index of the first turn of which something is true, -1 where there is none.

SELECT
    * EXCLUDE (list, contents, turns, r, added, prompt_turns, last_assistant),
    -- The old response is about to be replaced, so it is only measured.
    CASE WHEN prompt_turns < turn_count AND turns[turn_count].kind <> 'unsupported' THEN
        turns[turn_count].chars + length(concat(
            list[turn_count].reasoning_content, list[turn_count].reasoning, list[turn_count].thinking))
    END::BIGINT AS response_chars,
    CASE WHEN prompt_turns < turn_count AND NOT turns[turn_count].blank AND turns[turn_count].kind <> 'unsupported'
        THEN response_digest(answer_of(said_in(list, contents, turn_count))) END AS response_digest
FROM conversations
