-- What is said of a failing completion, by rule (see details_text.sql).

-- missing-generator
'neither the row nor a manifest says which model, sampling and chat template made it'

-- wrong-model
format('made by {}, the target is {}', shown(generator_model), shown(getvariable('target')))

-- no-response
CASE WHEN ends_on_assistant THEN 'the answer is blank' ELSE 'the row ends on another role: ' || roles[:100] END

-- short-response
format('{} characters of thinking and answer, at least {}', answer_chars + thinking_chars, bound('short-response.min')::BIGINT)

-- missing-thinking
'no thinking in the last assistant turn'

-- empty-thinking
'the thinking of the last assistant turn is blank'

-- unopened-thinking
'</think> without <think>'

-- unclosed-thinking
'<think> without </think>'

-- repeated-thinking
format('{} filled thinking blocks in one turn', filled_blocks)

-- residual-thinking
CASE WHEN filled_thinking THEN 'thinking in the last assistant turn' ELSE 'think tags in the last assistant turn' END

-- truncated-response
'finish_reason is length'

-- unknown-finish
'no finish_reason'

-- failed-response
coalesce(failure, 'finish_reason is ' || finish_reason)

-- repetition-loop
format('one phrase on end covers {:.0f} % of {} characters', 100 * loop_share, greatest(answer_chars, thinking_chars))

-- unknown-prompt
format('id {} is not upstream', shown(id))

-- changed-prompt
format('id {} is upstream with another prompt', shown(id))

-- lost-turns
format('{} user turns, {} upstream', user_turns, upstream_user_turns)
