"""The plain Python loops that people write: the same questions as the hand-written queries, a row at a time.

python -m benchmarks.plain_loops prompts|tokenized FILE
"""

import hashlib
import json
import statistics
import sys
from collections import Counter

import pyarrow as pa

_PLACEHOLDERS = {"", "unknown", "none", "null"}
_MARKS = ("<|im_start|>", "<|im_end|>")
_CONTROLS = ("<think>", "</think>", "<tool_call>", "<tool_response>")


def prompts(path: str) -> dict[str, object]:
    """Judge ShareGPT prompts with json and a loop."""
    found: Counter[str] = Counter()
    ids: set[str] = set()
    seen: set[bytes] = set()
    lengths: list[int] = []
    with open(path, encoding="utf-8") as lines:  # noqa: PTH123 - the plain way
        for line in lines:
            row = json.loads(line)
            turns = row["conversations"]
            found["rows"] += 1
            found["unknown_source"] += str(row.get("source", "")).strip().lower() in _PLACEHOLDERS
            found["duplicate_id"] += row["id"] in ids
            ids.add(row["id"])
            roles = [turn["from"] for turn in turns]
            found["system_rows"] += roles[0] == "system"
            plain = roles[1:] if roles[0] == "system" else roles
            found["bad_roles"] += plain != ["human", "gpt"] * (len(plain) // 2)
            chars = 0
            digest = hashlib.md5(usedforsecurity=False)
            for turn in turns[:-1]:
                chars += len(turn["value"])
                digest.update(turn["value"].encode())
            for turn in turns:
                text = turn["value"]
                found["empty_turn"] += not text.strip()
                found["forged_turn"] += any(mark in text for mark in _MARKS)
                found["control_token"] += any(mark in text for mark in _CONTROLS)
            found["duplicate_prompt"] += digest.digest() in seen
            seen.add(digest.digest())
            lengths.append(chars)
            found["prompt_too_long"] += chars > 100_000
            found["stub_response"] += len(turns[-1]["value"]) < 20
    return {**found, "mean": statistics.fmean(lengths), "median": statistics.median(lengths), "max": max(lengths)}


def tokenized(path: str) -> dict[str, object]:
    """Judge tokenised rows with a loop over Python lists."""
    found: Counter[str] = Counter()
    responses: Counter[tuple[int, ...]] = Counter()
    losses: list[int] = []
    fractions: list[float] = []
    for batch in pa.ipc.open_stream(path):
        for row in batch.to_pylist():
            ids, mask = row["input_ids"], row["loss_mask"]
            found["rows"] += 1
            found["length_disagreement"] += not len(ids) == len(mask) == row["seq_len"]
            found["mask_not_binary"] += not set(mask) <= {0, 1}
            loss = sum(mask)
            losses.append(loss)
            fractions.append(loss / len(ids))
            found["no_loss_tokens"] += loss == 0
            found["few_loss_tokens"] += loss < 32
            found["out_of_vocabulary"] += min(ids) < 0 or max(ids) >= 151_936
            found["mask_token"] += 151_669 in ids
            found["missing_thinking"] += 151_667 not in ids
            first = mask.index(1) if loss else -1
            found["covers_prompt"] += 0 <= first < 3
            responses[tuple(ids[first:])] += 1
    top = responses.most_common(1)[0][1]
    return {
        **found,
        "mean_loss": statistics.fmean(losses),
        "median_loss": statistics.median(losses),
        "loss_fraction": statistics.fmean(fractions),
        "top_response_rows": top,
    }


if __name__ == "__main__":
    print({"prompts": prompts, "tokenized": tokenized}[sys.argv[1]](sys.argv[2]))
