"""Data sets of the incident's shape, at its size or smaller, for timing and for the demo.

    python -m benchmarks.datasets tokenized OUT.arrow [--rows N]
    python -m benchmarks.datasets prompts OUT.jsonl [--rows N]

The incident: 913,786 prompts were "regenerated", and 87 % of the answers came back as the same six tokens. What is
written here has its figures, not its text. Fewer rows keep the shares, the quantiles and the means.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["write_incident_prompts", "write_incident_tokenized"]

ROWS = 913_786
SYSTEM_ROWS = 113_786

# Tokens of Qwen3.
BEGIN, END, NEWLINE, GAP, THINK, THINK_END = 151644, 151645, 198, 271, 151667, 151668
SYSTEM, USER, ASSISTANT = 8948, 872, 77091
STUB = (THINK, GAP, THINK_END, GAP, 3925, 13)  # an empty think block and "OK."
WORDS = (1_000, 90_000)  # ids to draw text from

STUB_SHARE = 0.87
BARE_SHARE = 0.003  # answers without any think tags
LENGTH_MEAN = 284.5
LOSS_MEAN = 89.6
LOSS_FRACTION_MEAN = 0.127

# Characters of a prompt: all turns before the last assistant turn, the system turn included.
PROMPT_MEAN, PROMPT_MEDIAN, PROMPT_P90, PROMPT_MAX = 854, 300, 1_948, 212_884
PROMPT_MIN = 24
PROMPT_MANY = 150_000  # only one prompt is longer
RESPONSE = "OK."
SYLLABLES = [
    "an",
    "be",
    "co",
    "da",
    "en",
    "fi",
    "ga",
    "he",
    "in",
    "ka",
    "lo",
    "me",
    "no",
    "or",
    "pi",
    "qua",
    "re",
    "sa",
    "ver",
]

Ints = npt.NDArray[np.int64]


def write_incident_tokenized(path: str | Path, rows: int = ROWS, seed: int = 0) -> None:
    """Writes tokenized rows as one Arrow IPC stream: 1.3 GB at full size, in about 300 MB of memory.

    87 % of the rows supervise the six tokens of the stub; no row supervises its end-of-turn token, and none has an
    id or a source. Mean loss tokens 89.6, mean of loss tokens / length 0.127, mean length 284.5.
    """
    rng = np.random.default_rng(seed)
    stub = np.zeros(rows, bool)
    stub[: round(rows * STUB_SHARE)] = True
    rng.shuffle(stub)
    bare = ~stub & (rng.random(rows) < BARE_SHARE / (1 - STUB_SHARE))
    system = np.where(rng.permutation(rows) < round(rows * SYSTEM_ROWS / ROWS), rng.integers(12, 48, rows), 0)
    framing = 10 + np.where(system > 0, system + 5, 0)
    user, response = _token_lengths(rng, stub, framing)

    schema = pa.schema(
        [("input_ids", pa.list_(pa.int32())), ("loss_mask", pa.list_(pa.int8())), ("seq_len", pa.int32())]
    )
    with _new(path).open("wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
        step = 10_000
        for start in range(0, rows, step):
            part = slice(start, min(start + step, rows))
            writer.write_batch(
                _token_batch(
                    rng,
                    schema,
                    stub=stub[part],
                    bare=bare[part],
                    system=system[part],
                    user=user[part],
                    response=response[part],
                )
            )


def write_incident_prompts(path: str | Path, rows: int = ROWS, seed: int = 0) -> None:
    """Writes prompts as ShareGPT JSONL: 0.92 GB at full size.

    Characters of the prompt (system turn included): mean 854, median 300, 90th percentile 1,948, and exactly one
    prompt of 212,884 (of a quarter of all characters where rows are fewer than 1,000). Every source is
    "unknown", every response is "OK.", and one row in eight has a system turn.
    """
    rng = np.random.default_rng(seed)
    lengths = _prompt_lengths(rows)
    rng.shuffle(lengths)
    has_system = rng.permutation(rows) < round(rows * SYSTEM_ROWS / ROWS)
    system_lengths = np.where(has_system, np.minimum(rng.integers(10, 160, rows), lengths // 2), 0)
    pool = _Pool(rng)
    starts = pool.words[rng.integers(0, np.searchsorted(pool.words, pool.size - lengths.max()), (2, rows))]

    tail = f'"}},{{"from":"gpt","value":"{RESPONSE}"}}]}}\n'.encode()
    with _new(path).open("wb") as sink:
        lines: list[bytes] = []
        columns = (lengths.tolist(), system_lengths.tolist(), starts[0].tolist(), starts[1].tolist())
        for row, (length, system, at, system_at) in enumerate(zip(*columns, strict=True)):
            lines.append(b'{"id":"chat-%07d","source":"unknown","conversations":[' % row)
            if system:
                lines += (b'{"from":"system","value":"', pool.text(system_at, system), b'"},')
            lines += (b'{"from":"human","value":"', pool.text(at, length - system), tail)
            if len(lines) > 50_000:
                sink.write(b"".join(lines))
                lines.clear()
        sink.write(b"".join(lines))


def _new(path: str | Path) -> Path:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _token_lengths(rng: np.random.Generator, stub: npt.NDArray[np.bool_], framing: Ints) -> tuple[Ints, Ints]:
    """Lengths of user turns and responses that give the incident's three means."""
    rows, real = len(stub), np.flatnonzero(~stub)
    response = np.full(rows, len(STUB))
    user = _lognormal(rng.standard_normal(rows), 1.2, LENGTH_MEAN - LOSS_MEAN - framing.mean(), 2)
    if not len(real):
        return user, response
    mean = (LOSS_MEAN * rows - len(STUB) * stub.sum()) / len(real)
    draws = rng.standard_normal(len(real))
    low, high = 0.1, 3.0  # the wider responses spread, the lower is the mean of their shares
    for _ in range(30):
        spread = (low + high) / 2
        response[real] = _lognormal(draws, spread, mean, 8)
        if (response / (response + user + framing)).mean() > LOSS_FRACTION_MEAN:
            low = spread
        else:
            high = spread
    return user, response


def _lognormal(draws: npt.NDArray[np.float64], spread: float, mean: float, least: int) -> Ints:
    """Whole numbers with this mean, none below `least`; the few largest are cut down."""
    values = np.minimum(np.exp(spread * draws), 60 * np.exp(spread * spread / 2))
    scale = mean / values.mean()
    for _ in range(20):
        whole = np.maximum(np.round(values * scale), least)
        scale *= (mean - least / 2) / max(whole.mean() - least / 2, 1e-9)
    lengths: Ints = np.maximum(np.round(values * scale), least).astype(np.int64)
    lengths[np.argmax(lengths)] += round(mean * len(lengths)) - lengths.sum()
    return lengths


def _token_batch(
    rng: np.random.Generator,
    schema: pa.Schema,
    *,
    stub: npt.NDArray[np.bool_],
    bare: npt.NDArray[np.bool_],
    system: Ints,
    user: Ints,
    response: Ints,
) -> pa.RecordBatch:
    has_system = system > 0
    system_part = np.where(has_system, system + 5, 0)
    lengths = system_part + user + 5 + 3 + response + 2
    ends = np.cumsum(lengths)
    starts = ends - lengths
    ids = rng.integers(*WORDS, ends[-1], dtype=np.int32)
    mask = np.zeros(ends[-1], np.int8)

    user_at = starts + system_part
    answer_at = user_at + user + 8
    answer_end = answer_at + response
    _put(ids, starts[has_system], BEGIN, SYSTEM, NEWLINE)
    _put(ids, user_at[has_system] - 2, END, NEWLINE)
    _put(ids, user_at, BEGIN, USER, NEWLINE)
    _put(ids, answer_at - 5, END, NEWLINE, BEGIN, ASSISTANT, NEWLINE)
    _put(ids, answer_end, END, NEWLINE)
    _put(ids, answer_at[stub], *STUB)
    thinking = ~stub & ~bare
    _put(ids, answer_at[thinking], THINK, NEWLINE)
    _put(ids, (answer_at + np.maximum(response * 2 // 3, 3))[thinking], THINK_END, GAP)
    edges = np.zeros(ends[-1] + 1, np.int8)
    edges[answer_at], edges[answer_end] = 1, -1
    np.cumsum(edges[:-1], out=mask, dtype=np.int8)

    offsets = pa.array(np.concatenate(([0], ends)).astype(np.int32))
    columns = [
        pa.ListArray.from_arrays(offsets, pa.array(ids)),
        pa.ListArray.from_arrays(offsets, pa.array(mask)),
        pa.array(lengths.astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _put(ids: npt.NDArray[np.int32], at: Ints, *tokens: int) -> None:
    for place, token in enumerate(tokens):
        ids[at + place] = token


def _prompt_lengths(rows: int) -> Ints:
    """Ascending lengths with the incident's mean, median, 90th percentile and maximum."""
    longest = min(PROMPT_MAX, PROMPT_MEAN * rows // 4)
    place = np.arange(rows) / max(rows - 1, 1)
    known = np.log((PROMPT_MIN, PROMPT_MEDIAN, PROMPT_P90))
    body = np.exp(np.interp(place, (0.0, 0.5, 0.9), known))
    above = np.flatnonzero(place > 0.9)

    def lengths(steepness: float) -> Ints:
        out = body.copy()
        out[above] = PROMPT_P90 * (0.1 / (1.0 - place[above] + 0.5 / rows)) ** steepness
        whole = np.minimum(np.round(out), min(PROMPT_MANY, longest)).astype(np.int64)
        for share, value in ((0.5, PROMPT_MEDIAN), (0.9, PROMPT_P90)):  # a quantile between two rows lies on both
            at = share * (rows - 1)
            whole[int(np.floor(at)) : int(np.ceil(at)) + 1] = value
        whole[-1:] = max(longest, PROMPT_MIN)
        return np.maximum.accumulate(whole) if rows > 20 else whole

    low, high = 0.0, 2.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if lengths(middle).mean() > PROMPT_MEAN else (middle, high)
    return lengths(low)


class _Pool:
    """A long text of made-up words, which is cut at character positions and comes out as JSON.

    Most of it is plain ASCII; some words are Chinese, accented, emoji or code, with quotes, tabs, line ends and
    backslashes, partly escaped as JSON allows.
    """

    def __init__(self, rng: np.random.Generator, words: int = 600_000) -> None:
        lexicon = ["".join(rng.choice(SYLLABLES, rng.integers(1, 4))) for _ in range(4_000)]
        special = ["naïve", "café", "Straße", "你好", "数据", "函数的返回值", "日本語", "\N{GRINNING FACE}", "π≈3.14"]
        special += ['"quoted"', "C:\\temp\\x", "a\tb", "x = {\n    'k': [1, 2]\n}\n", "if (a && b) {", "e\u0301"]
        common = (rng.pareto(1.0, words) * 20).astype(np.int64) % len(lexicon)
        chosen = np.where(rng.random(words) < 0.012, -1 - rng.integers(0, len(special), words), common)
        ends = rng.choice([" ", " ", " ", " ", " ", " ", ", ", ". ", "? ", ".\n\n"], words)
        text = [
            (lexicon[word] if word >= 0 else special[-1 - word]) + end for word, end in zip(chosen, ends, strict=True)
        ]
        lengths = np.array([len(word) for word in text])
        whole = "".join(text)
        self.size = len(whole)
        self.words = np.cumsum(lengths) - lengths  # where they begin
        escaped = {
            char: json.dumps(char, ensure_ascii=char in "é\N{GRINNING FACE}π")[1:-1].encode() for char in set(whole)
        }
        pieces = [escaped[char] for char in whole]
        self._bytes = b"".join(pieces)
        self._at = [0, *np.cumsum([len(piece) for piece in pieces]).tolist()]

    def text(self, start: int, length: int) -> bytes:
        """So many characters from here on, as the inside of a JSON string."""
        return self._bytes[self._at[start] : self._at[start + length]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.datasets", description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=("tokenized", "prompts"))
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write = write_incident_tokenized if args.kind == "tokenized" else write_incident_prompts
    write(args.out, args.rows, args.seed)
    print(f"{args.out}: {args.rows:,} rows, {args.out.stat().st_size / 1e9:.2f} GB")


if __name__ == "__main__":
    main()
