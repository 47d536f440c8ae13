"""The rules of the shard itself, and of one row as text."""

from typing import Final

from dflash_guard.contract.rule import STAGES, Rule

__all__ = ["SHARD_RULES", "TEXT_RULES"]

SHARD_RULES: Final = (
    Rule(
        name="unreadable-shard",
        table="shard",
        scope="shard",
        stages=STAGES,
        locked=True,
        fact="fault",
        says="The bytes of a shard are what its format says they are.",
        why="A loader that skips what it cannot parse trains on less data than you counted, and nobody is told. "
        "UTF-16 text and junk behind a gzip member often parse as zero rows instead of failing.",
        fix="Fetch or write the shard again and compare its sha256 with the one in the manifest. "
        "Convert UTF-16 text with `iconv -f UTF-16 -t UTF-8 in.jsonl > out.jsonl`.",
        passing="part-0.parquet begins with `PAR1`, ends with `PAR1`, and every row group decodes.",
        failing="part-0.parquet is 0 bytes long; or notes.jsonl is UTF-16, beginning with the bytes FF FE.",
    ),
    Rule(
        name="truncated-shard",
        table="shard",
        scope="shard",
        stages=STAGES,
        locked=True,
        fact="fault",
        says="A shard is whole: streams end where they say, checksums hold, footers and closing brackets are there.",
        why="Several readers take a cut-off zstd file or Arrow stream for a shorter good one. The drafter then "
        "trains on the head of every shard, and a source that sorts last goes missing.",
        fix="Copy the shard again and compare sizes (`gzip -t`, `zstd -t`). If its writer died, let the writer resume "
        "or make the shard anew; the rows before the break are not published as the whole.",
        passing="`zstd -t part-3.jsonl.zst` reads to the end of the last frame and its checksum agrees.",
        failing="part-3.arrow is an IPC stream that stops after 41 record batches with no end-of-stream marker.",
    ),
    Rule(
        name="unfetched-shard",
        table="shard",
        scope="shard",
        stages=STAGES,
        locked=True,
        fact="fault",
        says="A shard is the data, not a pointer to it or a server's error page in its place.",
        why="A Git LFS pointer or a saved HTML page is a small, readable text file. A lenient loader counts it as a "
        "shard with no usable rows, so the data set shrinks without an error.",
        fix="`git lfs pull` for pointers. For an error page, look at the credentials and the URL, then download again.",
        passing="part-0.jsonl begins with a JSON row that holds a conversation.",
        failing="part-0.jsonl holds `version https://git-lfs.github.com/spec/v1` and two more lines.",
    ),
    Rule(
        name="empty-shard",
        table="shard",
        scope="shard",
        stages=STAGES,
        level="warn",
        fact="rows",
        says="A shard has at least one row.",
        why="One empty shard among many is usually a worker that crashed before its first write: its share of the "
        "prompts is not in the data, and the counts still look plausible.",
        fix="Look in the log of the job that wrote the shard and run its part again, or delete the file if nothing "
        "belongs in it.",
        passing="part-0.jsonl with 1 row.",
        failing="part-7.jsonl with 0 bytes; part-8.json with `[]`; part-9.parquet with zero rows.",
    ),
    Rule(
        name="missing-column",
        table="shard",
        scope="shard",
        stages=STAGES,
        fact="schema",
        example_stage="tokenized",
        says="A columnar shard has every column that its stage needs.",
        why="A reader that unites shards by name fills an absent loss_mask with nulls: those rows are loaded, padded, "
        "paid for, and teach the drafter nothing.",
        fix="Write the shard again with the column, or rename it: at tokenized `input_ids`, and `loss_mask` or "
        "`labels`, in exactly this case; at the text stages `messages` or `conversations`.",
        passing="Columns: id, source, input_ids, loss_mask.",
        failing="Columns: id, source, input_ids, attention_mask. There is neither loss_mask nor labels.",
    ),
    Rule(
        name="column-type",
        table="shard",
        scope="shard",
        stages=STAGES,
        fact="schema",
        example_stage="tokenized",
        says="A column can be read as what its stage needs, without guessing.",
        why="Token ids that passed through pandas come back as floats, and masks that passed through CSV as text. "
        "A cast that truncates or rounds gives ids that look right and are not.",
        fix="Cast where the data is made: lists of int32 for input_ids, lists of int8 or bool for loss_mask. "
        "Any integer width and any list type is accepted.",
        passing="input_ids: large_list<uint32>, loss_mask: list<bool>.",
        failing='input_ids: list<double>; or loss_mask: list<string>, holding "0" and "1".',
    ),
    Rule(
        name="schema-drift",
        table="shard",
        scope="shard",
        stages=STAGES,
        fact="schema",
        example_stage="tokenized",
        says="All shards of a data set name and type the needed columns alike.",
        why="Where one shard says labels and the others loss_mask, most loaders keep the columns of the first shard "
        "and fill the rest with nulls: a whole shard of unsupervised rows.",
        fix="Write the odd shards again with the schema that most of them have. Extra columns and other integer or "
        "string widths are no drift.",
        passing="All shards: input_ids list<int32> or list<int64>, loss_mask list<int8>.",
        failing="part-0 to part-8 have loss_mask; part-9 has labels instead.",
    ),
)

TEXT_RULES: Final = (
    Rule(
        name="malformed-row",
        table="text",
        scope="row",
        stages=("prompts", "completions", "tokenized"),
        fact="fault",
        says="Each line is exactly one standard JSON object.",
        why="Loaders either die on such a line in the middle of an epoch or skip it. NaN, Infinity and two values on a "
        "line are accepted by some parsers and refused by others, so two stages disagree on how many rows there are.",
        fix="Write rows with a JSON library (`json.dumps(row, allow_nan=False)`), one a line. Set the bad rows aside.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}], "score": NaN}',
    ),
    Rule(
        name="torn-last-line",
        table="text",
        scope="row",
        stages=("prompts", "completions", "tokenized"),
        fact="fault",
        says="The last line of a shard is whole.",
        why="A line that stops inside a value is the mark of a writer that was killed: everything it had still to "
        "write is missing as well, not only this row.",
        fix="Resume the job that wrote the shard, or drop the torn line and generate the prompts again that have no "
        "completion; `unaccounted-rows` counts them.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "cont',
    ),
    Rule(
        name="invalid-text",
        table="text",
        scope="row",
        stages=("prompts", "completions", "tokenized"),
        fact="fault",
        says="Text is valid UTF-8 without lone surrogates.",
        why="Each library repairs broken text in its own way: the engine and the tokenizer then see different "
        "characters, and the completion no longer belongs to the prompt that is trained on.",
        fix="Find where the text was cut or decoded wrongly (a Latin-1 file read as UTF-8, a string cut inside an "
        "emoji) and write the row again.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "caf\\u00e9 \\ud83d\\ude00"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "cut emoji: \\ud83d"}]}',
    ),
    Rule(
        name="duplicate-key",
        table="text",
        scope="row",
        stages=("prompts", "completions", "tokenized"),
        fact="fault",
        says="No JSON object names a key twice.",
        why="Some parsers keep the first value and some the last. The text that was checked is then not the text that "
        "is generated from or trained on.",
        fix="Write the row again with one value a key. The cause is mostly string pasting or a merge of two records.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "Hi"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "Hi", "content": "Bye"}]}',
    ),
    Rule(
        name="stray-bytes",
        table="text",
        scope="row",
        stages=("prompts", "completions", "tokenized"),
        level="warn",
        fact="stray",
        says="Rows are free of byte-order marks, CR line ends and control characters.",
        why="They become tokens that no user types. A drafter that is trained on them learns noise, and two copies of "
        "a prompt that differ by such a byte are no longer recognised as duplicates.",
        fix="Strip them where the data is made: `sed -i '1s/^\\xEF\\xBB\\xBF//; s/\\r$//' part.jsonl` takes out a "
        "byte-order mark and CR line ends.",
        passing='{"id": "a", "messages": [{"role": "user", "content": "one\\ttwo\\nthree"}]}',
        failing='{"id": "a", "messages": [{"role": "user", "content": "bell \\u0007 in the text"}]}',
    ),
)
