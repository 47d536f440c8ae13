"""Rules of the whole distribution, from outside: sets whose rows are legal one by one."""

import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dflash_guard as dg
from dflash_guard.contract import gx_process
from dflash_guard.errors import JudgeError
from samples import completion, prompt, tokens, write


@pytest.fixture
def judged(tmp_path):
    """Judges rows; returns the results of rules by name, and the verdict."""

    def judged(rows, stage, **options):
        verdict = dg.check(write(tmp_path, rows, stage), stage=stage, **options)
        return {result.rule: result for result in verdict.rules}, verdict

    return judged


def of_the_whole(verdict):
    return {row["rule"]: row for row in verdict.failures.to_pylist() if row["shard"] is None}


def test_one_response_on_many_rows_is_a_collapse_and_is_printed(judged):
    rules, verdict = judged([completion(i, "Yes." if i < 6 else None) for i in range(100)], "completions")
    assert rules["response-collapse"].failed
    assert rules["response-collapse"].observed == 0.06
    said = of_the_whole(verdict)["response-collapse"]
    assert (said["level"], said["row"], said["line"]) == ("error", None, None)
    assert said["detail"] == ("one response stands on 6 rows, 6 % of those that have any; 5 % are allowed: 'Yes.'")
    assert not verdict.passed


def test_a_response_is_known_by_its_answer_not_by_its_thinking_or_white_space(judged):
    rows = [
        completion(i, f"{' ' * (i % 3)}Yes.\n" if i < 6 else None, thinking=f"Thought number {i}, a long one.")
        for i in range(100)
    ]
    rules, _ = judged(rows, "completions")
    assert rules["response-collapse"].observed == 0.06


def test_redacted_verdicts_do_not_hold_the_response(judged):
    rows = [completion(i, "Secret words." if i < 50 else None) for i in range(100)]
    _, verdict = judged(rows, "completions", redact=True)
    assert "Secret" not in str(verdict.failures.to_pylist())
    assert "Secret" not in str([result.message for result in verdict.rules])


def test_four_rows_that_share_a_response_are_no_collapse(judged):
    rules, verdict = judged([completion(i, "Yes, that is right." if i < 4 else None) for i in range(8)], "completions")
    assert not rules["response-collapse"].failed
    assert rules["response-collapse"].observed == 0.5
    assert verdict.passed


def test_old_responses_that_collapsed_are_warned_about(judged):
    rules, verdict = judged([prompt(i, response="OK.") for i in range(20)], "prompts")
    assert (rules["response-collapse"].level, rules["response-collapse"].failed) == ("warn", True)
    assert verdict.passed
    assert of_the_whole(verdict)["response-collapse"]["detail"].endswith("'OK.'")


def test_prompts_without_responses_leave_the_rule_unjudged(judged):
    rules, _ = judged([prompt(i, response="") for i in range(20)], "prompts")
    assert rules["response-collapse"].skipped == "no row has a response"
    assert not rules["response-collapse"].failed


def test_token_rows_that_supervise_the_same_ids_are_a_collapse(judged):
    rows = [tokens(i, 40 if i < 10 else 70 + i, same=i < 10) for i in range(100)]
    rules, verdict = judged(rows, "tokenized")
    assert rules["response-collapse"].observed == 0.1
    detail = of_the_whole(verdict)["response-collapse"]["detail"]
    assert (
        "10 rows, 10 % of those that have any; 5 % are allowed: ids 151667, 198, 5000, 198, 151668, 271, 9000" in detail
    )
    assert detail.endswith(", … (40 ids)")


@pytest.mark.parametrize(("share", "failed"), [(0.20, False), (0.21, True)])
def test_loss_collapse(judged, share, failed):
    rows = [tokens(i, 99 if i < 100 * share else 100 + i) for i in range(100)]
    rules, verdict = judged(rows, "tokenized")
    assert rules["loss-collapse"].observed == share
    assert rules["loss-collapse"].failed is failed
    if failed:
        assert "21 rows, 21 %, supervise exactly 99 tokens" in of_the_whole(verdict)["loss-collapse"]["detail"]


@pytest.mark.parametrize(("middle", "failed"), [(64, False), (63, True)])
def test_low_median_loss(judged, middle, failed):
    rows = [tokens(i, middle + (i - 10)) for i in range(21)]
    rules, _ = judged(rows, "tokenized")
    assert (rules["low-median-loss"].observed, rules["low-median-loss"].failed) == (middle, failed)


def test_low_loss_fraction_is_a_mean_over_rows(judged):
    rows = [tokens(i, 70 + i, before=600) for i in range(20)]
    rules, _ = judged(rows, "tokenized")
    want = sum(sum(r["loss_mask"]) / len(r["input_ids"]) for r in rows) / 20
    assert rules["low-loss-fraction"].observed == pytest.approx(want)
    assert rules["low-loss-fraction"].failed


@pytest.mark.parametrize("stage", ["completions", "tokenized"])
@pytest.mark.parametrize(("bare", "failed"), [(1, False), (2, True)])
def test_thinking_share_and_mixed_thinking(judged, stage, bare, failed):
    make = (
        completion
        if stage == "completions"
        else lambda i, **k: tokens(i, 70 + i, thinks=k.get("thinking", "") is not None)
    )
    rows = [make(i, thinking=None) if i < bare else make(i) for i in range(20)]
    rules, _ = judged(rows, stage)
    for rule, observed in (("thinking-share", 1 - bare / 20), ("mixed-thinking", bare / 20)):
        assert rules[rule].observed == pytest.approx(observed)
        assert rules[rule].failed is failed


def test_blank_thinking_is_none(judged):
    rules, _ = judged(
        [completion(i, thinking=" \n" if i < 10 else "So it is, I think.") for i in range(20)], "completions"
    )
    assert rules["thinking-share"].observed == 0.5


def test_without_thinking_the_share_is_not_asked_and_a_mixture_is(judged):
    rows = [completion(i, thinking=None if i < 10 else "So it is, I think.") for i in range(20)]
    rules, _ = judged(rows, "completions", mode="off")
    assert "thinking-share" not in rules
    assert rules["mixed-thinking"].failed


def test_in_mode_row_neither_is_judged(judged):
    rows = [completion(i, thinking=None, enable_thinking=False) if i % 2 else completion(i) for i in range(20)]
    rules, verdict = judged(rows, "completions", mode="row")
    assert not {"thinking-share", "mixed-thinking"} & set(rules)
    assert verdict.passed


def test_truncated_and_duplicate_shares_warn(judged):
    rows = [
        completion(i, finish="length" if i < 2 else "stop", prompt="The same?" if i < 7 else None) for i in range(100)
    ]
    rules, verdict = judged(rows, "completions", ignore=["truncated-response"])
    assert (rules["truncated-share"].observed, rules["truncated-share"].failed) == (0.02, True)
    assert (rules["duplicate-share"].observed, rules["duplicate-share"].failed) == (0.06, True)
    assert verdict.passed
    assert not dg.check(verdict.data[0], stage="completions", ignore=["truncated-response"], fail_on="warn").passed


def test_a_source_outside_its_share_of_the_mix_is_drift(judged, tmp_path):
    contract = tmp_path / "mine.yaml"
    contract.write_text(
        "extends: prompts\nname: mine\nstage: prompts\nmix: {math: [0.2, 0.4], code: [0, 0.5], chat: [0.1, 1]}\n"
    )
    rows = [prompt(i, source="math" if i < 8 else "code") for i in range(100)]
    rules, verdict = judged(rows, "prompts", contract=str(contract))
    assert rules["source-drift"].observed == {"math": 0.08, "code": 0.92, "chat": 0.0}
    detail = of_the_whole(verdict)["source-drift"]["detail"]
    assert detail == (
        "'math' is 8 % of the rows, 20 % to 40 % is asked for; 'code' is 92 % of the rows, 0 % to 50 % is asked for; "
        "'chat' is 0 % of the rows, 10 % to 100 % is asked for"
    )


def test_without_a_mix_drift_is_not_judged(judged):
    rules, _ = judged([prompt(i) for i in range(3)], "prompts")
    assert rules["source-drift"].skipped == "the contract declares no mix"


def test_bounds_are_the_contracts(judged):
    rows = [completion(i, "Yes, that is right." if i < 6 else None) for i in range(100)]
    assert judged(rows, "completions", sets=["response-collapse.max=0.06"])[1].passed
    assert judged(rows, "completions", ignore=["response-collapse"])[1].passed


def test_rows_that_cannot_be_read_count_towards_no_share(tmp_path):
    path = write(tmp_path, [completion(i) for i in range(20)], "completions")
    path.write_text(path.read_text() + "{broken\n" * 30)
    rules = {r.rule: r for r in dg.check(path, stage="completions").rules}
    assert rules["thinking-share"].observed == 1.0
    assert not rules["thinking-share"].failed


answers = st.lists(
    st.tuples(st.sampled_from(["Yes.", "No.", " Yes.", "", "Perhaps"]), st.sampled_from(["I think so.", " ", None]),
              st.sampled_from(["stop", "length", None]), st.integers(0, 6)),
    min_size=1, max_size=30,
)  # fmt: skip


@settings(max_examples=60)
@given(answers)
def test_verdicts_equal_those_of_plain_python(tmp_path_factory, rows):
    path = write(
        tmp_path_factory.mktemp("rows"),
        [completion(i, a, thinking=t, finish=f, prompt=f"Number {p}?") for i, (a, t, f, p) in enumerate(rows)],
        "completions",
    )
    verdict = dg.check(path, stage="completions")
    got = {r.rule: (r.observed, r.failed) for r in verdict.rules if r.rule in PLAIN}
    for rule, (observed, failed) in {rule: judge(rows) for rule, judge in PLAIN.items()}.items():
        assert got[rule][1] is failed, rule
        assert (got[rule][0] is None) == (observed is None), rule
        assert observed is None or got[rule][0] == pytest.approx(float(observed)), rule


def plain_collapse(rows):
    said = Counter(a.strip() for a, *_ in rows if a.strip())
    if not said:
        return None, False
    top = max(said.values())
    share = Fraction(top, said.total())
    return share, top >= 5 and share > Fraction(5, 100)


def plain_thinking(rows):
    share = Fraction(sum(bool(t and t.strip()) for _, t, *_ in rows), len(rows))
    return share, share < Fraction(95, 100)


def plain_mixed(rows):
    share = plain_thinking(rows)[0]
    return min(share, 1 - share), min(share, 1 - share) > Fraction(5, 100)


def plain_truncated(rows):
    told = [f for _, _, f, _ in rows if f]
    share = Fraction(told.count("length"), len(told)) if told else None
    return share, bool(told) and share > Fraction(1, 100)


def plain_duplicates(rows):
    share = Fraction(len(rows) - len({p for *_, p in rows}), len(rows))
    return share, share > Fraction(5, 100)


PLAIN = {
    "response-collapse": plain_collapse,
    "thinking-share": plain_thinking,
    "mixed-thinking": plain_mixed,
    "truncated-share": plain_truncated,
    "duplicate-share": plain_duplicates,
}


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(33, 120), st.integers(0, 300)), min_size=1, max_size=25))
def test_token_figures_equal_those_of_plain_python(tmp_path_factory, shapes):
    rows = [tokens(i, loss, before=before) for i, (loss, before) in enumerate(shapes)]
    verdict = dg.check(write(tmp_path_factory.mktemp("rows"), rows, "tokenized"), stage="tokenized")
    rules = {r.rule: r for r in verdict.rules}
    losses = [sum(row["loss_mask"]) for row in rows]
    fractions = [Fraction(sum(row["loss_mask"]), len(row["input_ids"])) for row in rows]
    top = max(Counter(losses).values())
    assert rules["low-median-loss"].observed == median(losses)
    assert rules["low-median-loss"].failed is (median(losses) < 64)
    mean = sum(fractions) / len(rows)
    assert rules["low-loss-fraction"].observed == pytest.approx(float(mean))
    assert abs(mean - Fraction(1, 5)) < 1e-9 or rules["low-loss-fraction"].failed is (mean < Fraction(1, 5))
    assert rules["loss-collapse"].observed == pytest.approx(top / len(rows))
    assert rules["loss-collapse"].failed is (top >= 5 and Fraction(top, len(rows)) > Fraction(1, 5))


def test_a_library_that_cannot_be_imported_is_no_verdict(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "great_expectations.py").write_text("raise ImportError('broken on purpose')")
    path = write(tmp_path, [completion(0)], "completions")
    words = [sys.executable, "-m", "dflash_guard", "check", str(path), "--stage", "completions"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "lib"), "NO_COLOR": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert done.returncode == 3
    assert "Great Expectations could not judge the distribution: its process ended: ImportError: broken" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("*.verdict.json"))


def test_a_file_in_the_working_folder_cannot_stand_in_for_a_library(tmp_path):
    (tmp_path / "great_expectations.py").write_text("raise SystemExit('taken over')")
    path = write(tmp_path, [completion(0)], "completions")
    words = [sys.executable, "-P", "-m", "dflash_guard", "check", str(path), "--stage", "completions"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_process_that_was_killed_is_no_verdict_and_the_next_check_has_a_new_one(tmp_path, monkeypatch):
    path = write(tmp_path, [completion(0)], "completions")
    asked = gx_process.GxProcess.ask

    def killed(self, *args):
        self._process.kill()
        return asked(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(gx_process.GxProcess, "ask", killed)
        with pytest.raises(JudgeError, match="its process ended"):
            dg.check(path, stage="completions")
    assert dg.check(path, stage="completions").passed
