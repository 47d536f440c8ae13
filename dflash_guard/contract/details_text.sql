-- What is said of a failing row of text, by rule: one SQL expression over `judged` under each rule's name.

-- malformed-row
fault_detail

-- torn-last-line
fault_detail

-- invalid-text
fault_detail

-- duplicate-key
fault_detail

-- stray-bytes
stray

-- unknown-source
source_detail(source)

-- missing-id
'no id, sample_id, uuid or conversation_id that is text or an integer'

-- duplicate-id
format('id {} stands first at {}', shown(id), earlier_id)

-- duplicate-prompt
format('the same prompt stands first at {}', earlier_prompt)

-- unknown-shape
shape_detail

-- mixed-schema
'from/value and role/content, or messages and conversations, in one row'

-- empty-conversation
'no turns'

-- unknown-role
format('turn {}: role {}', unknown_role_turn, shown(unknown_role))

-- no-user-turn
format('{} turns, none that a user wrote: {}', turn_count, roles[:100])

-- empty-turn
format('turn {}: no text', empty_turn)

-- role-order
format('turn {}: roles in order are {}', role_order_turn, roles[:100])

-- late-system
format('turn {}: a system turn that is not first', late_system_turn)

-- unsupported-content
format('turn {}: {}', unsupported_turn, unsupported_what)

-- forged-turn
format('turn {}: text holds {}', forged_turn, forged_text)

-- control-token-in-text
format('turn {}: text holds {}', control_turn, control_text)

-- orphan-tool-result
format('turn {}: a tool result that answers no call', orphan_turn)

-- invalid-tool-arguments
format('turn {}: the arguments of a tool call are not one JSON object', bad_call_turn)

-- unanswered-tool-call
format('turn {}: a tool call without a result', unanswered_turn)

-- prompt-too-long
format('{:,} characters, at most {:,}', prompt_chars, bound('prompt-too-long.max')::BIGINT)

-- stub-response
format('the old response has {} characters, at least {}', response_chars, bound('stub-response.min')::BIGINT)
