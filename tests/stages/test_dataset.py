"""The gated PyTorch dataset: every row once, in one order, however many share it, from wherever it was left."""

import pytest
import torch
from torch.utils.data import DataLoader

import dflash_guard as dg
import samples
from dflash_guard.errors import GateError, UsageError
from dflash_guard.stages.dataset import GatedDataset

IGNORED = (
    "response-collapse", "loss-collapse", "low-median-loss", "low-loss-fraction", "thinking-share", "mixed-thinking",
)  # fmt: skip
SIZES = (23, 1, 40, 17)
ROWS = sum(SIZES)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    first = 0
    for part, size in enumerate(SIZES):
        rows = [samples.tokens(i, 10 if i == 5 else 80) for i in range(first, first + size)]
        samples.write(folder, rows, "tokenized", f"part-{part}")
        first += size
    sets = ["few-loss-tokens.tolerance=0.5"]
    assert dg.check(folder, stage="tokenized", ignore=IGNORED, sets=sets).passed
    return dg.open_gated(folder, stage="tokenized", ignore=IGNORED, sets=sets)


def ids(dataset):
    return [int(each["id"]) for each in dataset]


def make(data, **options):
    return GatedDataset(data, columns=("id", "input_ids", "loss_mask"), **{"window": 8, **options})


def test_every_row_that_passed_once_in_order(data):
    assert ids(make(data)) == [i for i in range(ROWS) if i != 5]


def test_samples_are_tensors(data):
    sample = next(iter(make(data)))
    row = samples.tokens(0)
    assert sample["input_ids"].dtype == torch.int64
    assert sample["input_ids"].tolist() == row["input_ids"]
    assert sample["loss_mask"].tolist() == row["loss_mask"]


def test_a_shuffle_is_a_permutation_of_its_own_for_each_epoch(data):
    dataset = make(data, shuffle=True, seed=3)
    first = ids(dataset)
    dataset.set_epoch(1)
    second = ids(dataset)
    assert first != second
    assert sorted(first) == sorted(second) == [i for i in range(ROWS) if i != 5]
    assert ids(make(data, shuffle=True, seed=3)) == first


@pytest.mark.parametrize("world", [2, 3, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_ranks_share_one_order_evenly(data, world, shuffle):
    whole = ids(make(data, shuffle=shuffle))
    parts = [ids(make(data, shuffle=shuffle, rank=rank, world_size=world)) for rank in range(world)]
    each = (ROWS - 1) // world
    assert [len(part) for part in parts] == [each] * world
    assert [part[i] for i in range(each) for part in parts] == whole[: each * world]


def test_workers_share_a_rank(data):
    loader = DataLoader(make(data, shuffle=True), batch_size=None, num_workers=2, multiprocessing_context="spawn")
    assert sorted(ids(loader)) == [i for i in range(ROWS) if i != 5]


@pytest.mark.parametrize("taken", [0, 1, 9, 24, 60, ROWS - 2])
def test_it_goes_on_where_it_was_left(data, taken):
    options = {"shuffle": True, "rank": 1, "world_size": 2} if taken < 40 else {"shuffle": True}
    whole = make(data, **options)
    rows = iter(whole)
    before = [int(next(rows)["id"]) for _ in range(taken)]
    again = make(data, **options)
    again.load_state_dict(whole.state_dict())
    assert before + ids(again) == ids(make(data, **options))


def test_a_position_in_another_order_is_refused(data):
    state = make(data, shuffle=True).state_dict()
    with pytest.raises(UsageError, match="another order"):
        make(data, shuffle=True, seed=9).load_state_dict(state)


def test_a_rank_out_of_range(data):
    with pytest.raises(UsageError, match="rank 2"):
        make(data, rank=2, world_size=2)


def test_a_shard_that_changes_stops_it(tmp_path):
    path = samples.write(tmp_path, [samples.tokens(i) for i in range(9)], "tokenized")
    assert dg.check(path, stage="tokenized", ignore=IGNORED).passed
    dataset = GatedDataset(dg.open_gated(path, ignore=IGNORED))
    samples.write(tmp_path, [samples.tokens(i + 50) for i in range(9)], "tokenized")
    with pytest.raises(GateError, match="changed"):
        list(dataset)
