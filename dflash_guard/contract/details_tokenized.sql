-- What is said of a failing token row, by rule (see details_text.sql).

-- malformed-row
fault_detail

-- torn-last-line
fault_detail

-- invalid-text
fault_detail

-- duplicate-key
fault_detail

-- unknown-shape
fault_detail

-- column-type
fault_detail

-- stray-bytes
stray

-- unknown-source
source_detail(source)

-- missing-id
'no id, sample_id, uuid or conversation_id'

-- duplicate-id
concat('id ', shown(id), ' and turn ', coalesce(turn::VARCHAR, '(none)'), ' stand first at ', earlier_id)

-- length-disagreement
concat(tokens, ' input_ids, ', mask_tokens, ' mask values', ', seq_len ' || declared_len)

-- mask-not-binary
concat('position ', bad_mask_at, ': ', CASE bad_mask_kind
        WHEN 'null' THEN 'a null in the mask'
        WHEN 'label' THEN concat('label ', bad_mask_value, ' is not the id at its place')
        ELSE concat('mask value ', bad_mask_value) END)

-- no-loss-tokens
concat('none of ', tokens, ' tokens is supervised')

-- few-loss-tokens
concat(loss_tokens, ' loss tokens, at least ', bound('few-loss-tokens.min')::BIGINT)

-- no-answer-tokens
CASE WHEN response_tokens = 0 THEN 'nothing of the last assistant turn is supervised'
        ELSE 'after the thinking only blank and end tokens are supervised' END

-- missing-thinking
'no think-open token in the supervised part of the last assistant turn'

-- empty-thinking
concat('position ', empty_thinking_at, ': the thinking block is blank')

-- residual-thinking
concat('position ', think_token_at, ': a think token is supervised')

-- unclosed-thinking
concat('position ', unclosed_thinking_at, ': think-open without think-close')

-- clipped-response
concat('the supervised part runs to the end of ', tokens, ' tokens, without an end-of-turn token')

-- mask-skips-end
concat('position ', unsupervised_end_at, ': the end-of-turn token is not supervised')

-- mask-covers-prompt
concat('position ', prompt_supervised_at, ': a prompt or header token is supervised')

-- mask-boundary
concat('position ', CASE WHEN served_thinking(asks_thinking) THEN boundary_thinking_at ELSE boundary_off_at END,
        ': a supervised span does not begin right after the assistant header')

-- token-out-of-vocabulary
concat('position ', bad_id_at, ': id ', coalesce(bad_id::VARCHAR, 'null'))

-- mask-token-in-input
concat('position ', mask_token_at, ': the drafter''s mask token')

-- duplicate-bos
'two begin tokens at the start'

-- duplicate-end
concat('position ', duplicate_end_at, ': a second end token in a row')

-- supervised-padding
concat('position ', padding_supervised_at, ': supervised after the end of the last turn')

-- unknown-prompt
format('id {} is not upstream', shown(id))

-- lost-thinking
'the upstream turn has thinking, none is supervised here'

-- lossy-thinking
format('upstream has thinking on {} turns, {} are supervised here', upstream_thinking_turns, kept_thinking::BIGINT)

-- changed-prompt
format('id {} is upstream with another prompt', shown(id))

-- lost-turns
format('{} user turns, {} upstream', kept_turns, upstream_user_turns)

-- changed-response
format('{} supervised tokens, and the response upstream can make at most {}', response_tokens, response_limit)
