"""`profile`: what a data set looks like as a whole."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dflash_guard.chat.tokenizer import Decoder, load_tokenizer
from dflash_guard.facts.samples import Sample, read_samples
from dflash_guard.profile.measure import empty_profile, measure, prepare_profile
from dflash_guard.profile.model import Profile, TopResponse
from dflash_guard.verbs.opening import Opened, Reading, open_data

__all__ = ["profile", "profile_opened"]


def profile(
    data: str | Path | Sequence[str | Path], reading: Reading | None = None, *, tokenizer: str | None = None
) -> Profile:
    """Profile a data set: by source and shard, with its most common responses.

    Args:
        data: Files, folders or globs.
        reading: How to read it.
        tokenizer: Of the target, to show the ids of responses as text: a folder or a `tokenizer.json`.

    Raises:
        UsageError: An option, path or contract is wrong.
        JudgeError: The data could not be read.
        NothingToJudgeError: There is no shard, or no row in any.
    """
    decoder = load_tokenizer(tokenizer) if tokenizer is not None else None
    given = [data] if isinstance(data, str | Path) else list(data)
    with open_data(given, reading or Reading()) as opened:
        return profile_opened(opened, decoder)


def profile_opened(opened: Opened, decoder: Decoder | None = None) -> Profile:
    """The profile of a data set that is open."""
    stage = opened.contract.stage
    if not opened.has_rows:
        return empty_profile(stage, opened.shard_names)
    prepare_profile(opened.connection, stage)
    measured = measure(opened.connection, stage, opened.shard_names)
    places = [(top.shard, top.row) for top in measured.top_responses]
    samples = read_samples(opened.listing.shards, places, opened.contract)
    return replace(
        measured,
        top_responses=tuple(
            _with_text(top, samples[place], decoder) for top, place in zip(measured.top_responses, places, strict=True)
        ),
    )


def _with_text(top: TopResponse, sample: Sample, decoder: Decoder | None) -> TopResponse:
    if sample.ids:
        text = decoder.decode(sample.response) if decoder is not None else None
        return replace(top, ids=sample.response, text=text)
    return replace(top, text=sample.answer, chars=None if sample.answer is None else len(sample.answer))
