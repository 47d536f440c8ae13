"""A profile, as data."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["Distribution", "Figures", "Group", "HistogramBin", "Profile", "TopResponse"]


@dataclass(frozen=True, slots=True)
class Figures:
    """One fact over many rows. Quantiles interpolate between neighbours, as NumPy's do by default.

    Attributes:
        count, nulls: Rows that have the fact, and that have not.
        min, mean, median, p90, p99, max, sum: Of the rows that have it; None where there are none.
    """

    count: int
    nulls: int
    min: float | None
    mean: float | None
    median: float | None
    p90: float | None
    p99: float | None
    max: float | None
    sum: float | None


@dataclass(frozen=True, slots=True)
class Group:
    """The rows of one source, of one shard, or of the whole data set.

    Attributes:
        name: The source or the shard.
        rows: All of them.
        share: Of the data set's rows; None where it has none.
        system_rows: Rows with a system turn; None where the stage does not tell.
        thinking_rows: Rows with thinking that is not blank; None where the stage does not tell.
        facts: Figures by fact.
    """

    name: str
    rows: int
    share: float | None
    system_rows: int | None
    thinking_rows: int | None
    facts: Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class TopResponse:
    """One response, and on how many rows it stands.

    Attributes:
        rows, share: How many, and of the rows that have a response.
        shard, row, line: Where it stands first.
        chars: Characters of the answer; None for tokens.
        loss_tokens: Supervised ids of it; None for text.
        text: The answer behind the thinking; for tokens what a tokenizer makes of the ids; None where nothing does.
        ids: The supervised ids of the last assistant turn; empty for text.
    """

    rows: int
    share: float
    shard: int
    row: int
    line: int | None
    chars: int | None
    loss_tokens: int | None
    text: str | None = None
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """Rows whose fact is from `start` (inclusive) to `end` (exclusive)."""

    start: float
    end: float
    rows: int


@dataclass(frozen=True, slots=True)
class Distribution:
    """The figures that distribution rules bound; None where no row holds the evidence.

    Attributes:
        rows: All rows.
        top_response_rows, top_response_share: Rows with the most common response, and their share of the rows
            that have one. A response is the stripped answer behind the thinking; for tokens the supervised ids of
            the last assistant turn, thinking included.
        top_response_shard, top_response_row: Where that response stands first.
        top_loss_tokens, top_loss_tokens_rows, top_loss_tokens_share: The most common count of supervised tokens.
        median_loss_tokens: Of all token rows.
        mean_loss_fraction: Mean over rows of supervised tokens / length.
        thinking_share: Rows with thinking that is not blank, of the rows that were to think.
        rarer_thinking_share: Of thinking and non-thinking rows, the share of the rarer kind.
        truncated_share: Rows whose finish_reason is length, of those that have one.
        duplicate_share: Rows whose prompt stands on an earlier row, of those that have a prompt.
        source_shares: Share of all rows by source.
    """

    rows: int
    top_response_rows: int | None = None
    top_response_share: float | None = None
    top_response_shard: int | None = None
    top_response_row: int | None = None
    top_loss_tokens: int | None = None
    top_loss_tokens_rows: int | None = None
    top_loss_tokens_share: float | None = None
    median_loss_tokens: float | None = None
    mean_loss_fraction: float | None = None
    thinking_share: float | None = None
    rarer_thinking_share: float | None = None
    truncated_share: float | None = None
    duplicate_share: float | None = None
    source_shares: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """What a data set looks like.

    Attributes:
        stage: What its rows were read as.
        shards: How many.
        whole: The data set.
        sources, by_shard: Its parts, the largest source first, shards in order.
        roles: Sequences of roles as the rows name them, with their rows, the most common first.
        finish_reasons: The same of finish reasons; empty where the stage has none.
        top_responses: The ten most common responses.
        histograms: Bins by fact; empty bins at the ends are left out.
        distribution: What distribution rules bound.
    """

    stage: str
    shards: int
    whole: Group
    sources: tuple[Group, ...]
    by_shard: tuple[Group, ...]
    roles: tuple[tuple[str, int], ...]
    finish_reasons: tuple[tuple[str, int], ...]
    top_responses: tuple[TopResponse, ...]
    histograms: Mapping[str, tuple[HistogramBin, ...]]
    distribution: Distribution

    def groups(self) -> Iterator[tuple[str, Group]]:
        """Every group with its level: `data set`, `source` or `shard`."""
        yield "data set", self.whole
        yield from (("source", group) for group in self.sources)
        yield from (("shard", group) for group in self.by_shard)
