"""Numbers and shares that do not lie, text that stays in its place."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_guard.report import _cells
from dflash_guard.report._cells import inert, number, percent

SHARES = [
    (None, "–"),
    (0.0, "0 %"),
    (1.0, "100 %"),
    (0.87, "87.0 %"),
    (0.00003, "0.003 %"),
    (0.0005, "0.050 %"),
    (0.004, "0.40 %"),
    (1 / 913_786, "0.0001 %"),
    (913_785 / 913_786, "99.9999 %"),
    (1e-15, "< 0.00000001 %"),
]


@pytest.mark.parametrize(("share", "text"), SHARES)
def test_percent(share, text):
    assert percent(share) == text


@given(st.integers(1, 10**9).flatmap(lambda rows: st.tuples(st.integers(0, rows), st.just(rows))))
def test_only_nothing_is_0_and_only_all_is_100(pair):
    failing, rows = pair
    text = percent(failing / rows)
    assert (text == "0 %") == (failing == 0)
    assert (text == "100 %") == (failing == rows)


@given(st.text())
def test_inert_text_stays_as_it_is(text):
    once = inert(text)
    assert inert(once) == once
    assert not once.lstrip().startswith("::")


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (913_786, "913,786"), (0.127, "0.127"), ([1, "a"], "1, a")]
)
def test_number(value, text):
    assert number(value) == text


def test_the_examples_hold():
    assert doctest.testmod(_cells).failed == 0
