"""Rows for tests that look at whole data sets."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

BEGIN, USER, ASSISTANT, NEWLINE, END, THINK, THOUGHT, BLANK = 151644, 872, 77091, 198, 151645, 151667, 151668, 271
GENERATOR = {"model": "Qwen3-8B", "sampling": {"temperature": 0.6}, "chat_template_sha256": "0" * 64}


def completion(i, answer=None, *, thinking="It is asked for a number, so I count.", finish="stop", prompt=None, **more):
    turn = {
        "role": "assistant",
        "content": answer if answer is not None else f"The answer to this one is {i}, I think.",
    }
    if thinking is not None:
        turn["reasoning_content"] = thinking
    messages = [{"role": "user", "content": prompt or f"What is number {i}?"}, turn]
    row = {"id": str(i), "source": "sums", "messages": messages, "finish_reason": finish, "generator": GENERATOR}
    return {**row, **more}


def prompt(i, text=None, *, source="sums", response="An old answer, number {}, long enough."):
    messages = [{"role": "user", "content": text or f"What is number {i}?"}]
    messages += [{"role": "assistant", "content": response.format(i)}] if response else []
    return {"id": str(i), "source": source, "messages": messages}


def tokens(i, loss=80, *, thinks=True, before=20, same=False):
    """A row that supervises `loss` tokens."""
    opening = [THINK, NEWLINE, 5000, NEWLINE, THOUGHT, BLANK] if thinks else [THINK, BLANK, THOUGHT, BLANK]
    said = [*opening, *((9000 + (0 if same else i * 7 + k) % 4000) for k in range(loss - len(opening) - 1)), END]
    ids = [
        BEGIN,
        USER,
        NEWLINE,
        *(1000 + (i + k) % 500 for k in range(before)),
        END,
        NEWLINE,
        BEGIN,
        ASSISTANT,
        NEWLINE,
    ]
    mask = [0] * len(ids) + [1] * len(said)
    return {"id": str(i), "source": "sums", "input_ids": ids + said, "loss_mask": mask}


def write(folder, rows, stage, name="shard"):
    if stage == "tokenized":
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
