"""A small tokenizer and chat template of Qwen3's form, made by the tests, and where the real ones lie."""

from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

SHARED = Path(__file__).parents[2] / "shared"
QWEN3 = SHARED / "tokenizers/qwen3"
TEMPLATES = SHARED / "templates"

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>")

# Written for these tests; of the form that a thinking model's template has.
TEMPLATE = """\
{%- for message in messages %}
{%- if message.role == 'assistant' %}
{{- '<|im_start|>assistant\\n' }}
{%- if loop.last %}{{- '<think>\\n' + (message.reasoning_content or '').strip('\\n') + '\\n</think>\\n\\n' }}{% endif %}
{{- message.content.lstrip('\\n') + '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""


def make_tokenizer(folder, texts=()):
    """A byte-level BPE tokenizer of 600 tokens with the special tokens first, and a template beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["What is number one?\n\nIt is asked for, so I count.\n", *texts], trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    ids = {text: tokenizer.token_to_id(text) for text in SPECIAL}
    (folder / "tiny.yaml").write_text(family_file(tokenizer, ids))
    return folder


def family_file(tokenizer, ids):
    """The family of that tokenizer."""
    newline = tokenizer.encode("\n").ids[0]
    size = tokenizer.get_vocab_size()
    blank = sorted(
        i for i in range(size) if (text := tokenizer.decode([i], skip_special_tokens=False)) and not text.strip()
    )
    off = tokenizer.encode("<think>\n\n</think>\n\n").ids
    return f"""\
name: tiny
vocab_size: {size + 2}
begin_turn: {ids["<|im_start|>"]}
end_turn: {ids["<|im_end|>"]}
end_text: {ids["<|endoftext|>"]}
think_open: {ids["<think>"]}
think_close: {ids["</think>"]}
newline: {newline}
begin_ids: []
mask_token: {size}
roles:
  system: {tokenizer.encode("system").ids}
  user: {tokenizer.encode("user").ids}
  assistant: {tokenizer.encode("assistant").ids}
prompt_thinking: []
prompt_off: {off}
blank: {blank}
turn_texts: ["<|im_start|>", "<|im_end|>"]
control_texts: ["<|endoftext|>", "<tool_call>", "</tool_call>"]
thinking_tags: [<think>, </think>]
system_first: false
sampling: {{}}
"""
