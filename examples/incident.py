"""Writes small data sets shaped like one that cost a team its training run, and one as it should have been.

    python examples/incident.py FOLDER [--rows 4000]

FOLDER/bad/        tokenised rows; 87 % of them answer with the same six tokens: an empty think block and "OK."
FOLDER/good/       tokenised rows with thinking and varied answers
FOLDER/raw.jsonl   the raw prompts of the bad set: every source "unknown", old responses of three characters
"""

import argparse
import json
import random
from pathlib import Path

import pyarrow as pa

# Qwen3's token ids.
TURN, END, NEWLINE, BLANK_LINE = 151644, 151645, 198, 271
USER, ASSISTANT = 872, 77091
THINK, CLOSE_THINK = 151667, 151668
STUB = [THINK, BLANK_LINE, CLOSE_THINK, BLANK_LINE, 3925, 13]  # "<think>\n\n</think>\n\nOK."
STUB_SHARE = 0.87
WORDS = ["draft", "verify", "accept", "block", "token", "speed", "cache", "layer", "shard", "prompt", "answer"]


def main() -> None:
    """Writes the three data sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=4000)
    arguments = parser.parse_args()
    dice = random.Random(16)
    tokenised(arguments.folder / "bad", [bad(dice, row) for row in range(arguments.rows)], provenance=False)
    tokenised(arguments.folder / "good", [good(dice) for _ in range(arguments.rows)], provenance=True)
    raw(arguments.folder / "raw.jsonl", dice, arguments.rows)


def words(dice: random.Random, least: int, most: int) -> list[int]:
    """Ids of ordinary text."""
    return [dice.randrange(1000, 90_000) for _ in range(dice.randint(least, most))]


def row(prompt: list[int], response: list[int]) -> tuple[list[int], list[int]]:
    """One user turn, one assistant turn; what the assistant writes is supervised, its end token included."""
    head = [TURN, USER, NEWLINE, *prompt, END, NEWLINE, TURN, ASSISTANT, NEWLINE]
    ids = [*head, *response, END, NEWLINE]
    mask = [0] * len(head) + [1] * (len(response) + 1) + [0]
    return ids, mask


def bad(dice: random.Random, place: int) -> tuple[list[int], list[int]]:
    """A stub in 87 of 100 rows, as the incident had them: its end token is not supervised."""
    if place % 100 >= STUB_SHARE * 100:
        return good(dice)
    ids, mask = row(words(dice, 20, 60), STUB)
    mask[-2] = 0
    return ids, mask


def good(dice: random.Random) -> tuple[list[int], list[int]]:
    """Thinking of 40 tokens and more, then an answer of 24 and more."""
    thinking = [THINK, NEWLINE, *words(dice, 40, 120), NEWLINE, CLOSE_THINK, BLANK_LINE]
    return row(words(dice, 20, 60), [*thinking, *words(dice, 24, 160)])


def tokenised(folder: Path, rows: list[tuple[list[int], list[int]]], *, provenance: bool) -> None:
    """Two Arrow shards, as Hugging Face datasets writes them. The incident's rows said neither id nor source."""
    folder.mkdir(parents=True, exist_ok=True)
    half = (len(rows) + 1) // 2
    for shard in range(2):
        part = rows[shard * half : (shard + 1) * half]
        columns = {
            "input_ids": pa.array([ids for ids, _ in part], pa.list_(pa.int32())),
            "loss_mask": pa.array([mask for _, mask in part], pa.list_(pa.int8())),
            "seq_len": pa.array([len(ids) for ids, _ in part], pa.int32()),
        }
        if provenance:
            numbers = range(shard * half, shard * half + len(part))
            columns["sample_id"] = pa.array([f"chat-{number:06}" for number in numbers])
            columns["source"] = pa.array([("sharegpt", "code", "maths")[number % 3] for number in numbers])
            columns["turn"] = pa.array([1] * len(part), pa.int32())
        table = pa.table(columns)
        path = folder / f"data-{shard:05}-of-00002.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=1000)


def raw(path: Path, dice: random.Random, rows: int) -> None:
    """ShareGPT rows; one in eight has a system turn."""
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            prompt = f"Question {number}: {' '.join(dice.choices(WORDS, k=dice.randint(10, 80)))}?"
            turns = [{"from": "human", "value": prompt}, {"from": "gpt", "value": "OK."}]
            if number % 8 == 0:
                turns.insert(0, {"from": "system", "value": "You are a helpful assistant."})
            record = {"id": f"chat-{number:06}", "source": "unknown", "conversations": turns}
            file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
