"""`tokenize` against bare `encode_batch` over the same text (the limit) and a mask builder that encodes prefixes again.

    python -m benchmarks.tokenize TOKENIZER TEMPLATE [ROWS [TEXT]]

TEXT is a file whose text the rows are cut from; without it they are made of a few common words, which encode fastest.
All three in one run, alternating, on the same rows; figures are ratios of the best of three.
"""

import json
import random
import re
import sys
import tempfile
import time
from pathlib import Path

from dflash_guard.chat.template import load_template
from dflash_guard.chat.tokenizer import load_tokenizer
from dflash_guard.stages import tokenize as stage
from dflash_guard.verbs.gated import open_gated

WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "it",
    "was",
    "for",
    "on",
    "are",
    "as",
    "with",
    "his",
    "they",
    "at",
    "be",
    "this",
    "from",
    "have",
    "or",
    "by",
    "one",
    "had",
    "not",
    "but",
    "what",
    "all",
]


SOURCE = ""


def text(rng, length):
    if SOURCE:
        at = rng.randrange(len(SOURCE) - length)
        return SOURCE[at : at + length]
    return " ".join(
        rng.choice(WORDS) + rng.choice(["", "", ",", ".", "\n", f" {rng.randrange(1000)}"]) for _ in range(length // 5)
    )


def rows(count, sha):
    rng = random.Random(3)
    for i in range(count):
        messages = [
            {"role": "user", "content": text(rng, 800)},
            {"role": "assistant", "reasoning_content": text(rng, 4000), "content": text(rng, 1500)},
        ]
        generator = {"model": "m", "sampling": {"t": 1}, "chat_template_sha256": sha}
        yield {"id": str(i), "source": "bench", "messages": messages, "finish_reason": "stop", "generator": generator}


def bare(path, texts):
    """The limit: the ids and nothing else, by a tokenizer that has seen nothing yet, as that of a new run."""
    tokenizer = load_tokenizer(path)
    began = time.perf_counter()
    for at in range(0, len(texts), 256):
        tokenizer.encode_batch(texts[at : at + 256])
    return time.perf_counter() - began


def by_regex(tokenizer, texts):
    """What people write: find assistant turns with a regular expression, encode the prefix again to find each end."""
    began = time.perf_counter()
    pattern = re.compile(r"<\|im_start\|>assistant\n(.*?<\|im_end\|>)", re.DOTALL)
    for whole in texts:
        ids = tokenizer.encode(whole)
        mask = [0] * len(ids)
        for found in pattern.finditer(whole):
            start, end = len(tokenizer.encode(whole[: found.start(1)])), len(tokenizer.encode(whole[: found.end(1)]))
            mask[start:end] = [1] * (end - start)
    return time.perf_counter() - began


def ours(folder, tokenizer, template, jobs):
    """The stage up to its shards; the check that follows is measured elsewhere."""
    gated = open_gated(folder / "rows.jsonl", stage="completions", ignore=["response-collapse", "repetition-loop"])
    settings = stage._settings(gated, tokenizer, template, "all", "auto", 0, "drop")  # noqa: SLF001
    out = Path(tempfile.mkdtemp(dir=folder))
    with stage._pool(settings, jobs) as submit:  # noqa: SLF001
        list(submit([[]] * 4))  # workers are there before the clock starts
        time.sleep(1)
        began = time.perf_counter()
        run = stage._Run(gated, settings, out / "tokens")  # noqa: SLF001
        run.make(0, submit, lambda *_: None)
        return time.perf_counter() - began


def main():
    global SOURCE  # noqa: PLW0603 - a script's argument
    tokenizer, template = sys.argv[1:3]
    SOURCE = Path(sys.argv[4]).read_text() if len(sys.argv) > 4 else ""
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 4000
    loaded, chat = load_tokenizer(tokenizer), load_template(tokenizer, template)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = list(rows(count, chat.sha256))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in made))
        import dflash_guard as dg

        dg.check(folder / "rows.jsonl", stage="completions", ignore=["response-collapse", "repetition-loop"])
        texts = [chat.render(row["messages"]) for row in made]
        best = {"bare": 1e9, "regex": 1e9, "ours": 1e9}
        for _ in range(3):
            best["bare"] = min(best["bare"], bare(tokenizer, texts))
            best["ours"] = min(best["ours"], ours(folder, tokenizer, template, 2))
            best["regex"] = min(best["regex"], by_regex(loaded, texts))
    tokens = sum(len(ids) for ids in loaded.encode_batch(texts[:200])) / 200 * count
    print(f"{count:,} rows, {tokens / 1e6:.1f} M tokens")
    for name, seconds in best.items():
        print(f"{name:6} {seconds:6.2f} s  {tokens / seconds / 1e6:5.2f} M tokens/s")
    limit, regex = best["bare"] / best["ours"], best["regex"] / best["ours"]
    print(f"{limit:.0%} of the limit, {regex:.1f} times the regex builder")


if __name__ == "__main__":
    main()
