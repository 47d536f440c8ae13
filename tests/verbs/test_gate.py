"""`gate` from outside: what opens it, and everything that must keep it shut."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import DISTRIBUTION, IGNORED, command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dflash_guard as dg
import samples
from dflash_guard.errors import GateError, UsageError
from dflash_guard.verdict.canonical import canonical, canonical_digest
from dflash_guard.verdict.folder import GuardFolder

ROWS = 12


def judge(data, stage, **options):
    verdict = dg.check(data, stage=stage, ignore=[*IGNORED, *options.pop("ignore", ())], **options)
    assert verdict.passed, verdict.failures.to_pylist()
    return verdict


def opened(data, **options):
    return dg.gate(data, ignore=[*IGNORED, *options.pop("ignore", ())], **options)


def settle():
    """Let file times be older than any clock tick, so that the file system can vouch for them."""
    time.sleep(0.12)


@pytest.fixture
def chain(tmp_path):
    """Prompts, completions and tokens of two shards each, judged in turn."""
    prompts, completions, tokens = (tmp_path / name for name in ("prompts", "completions", "tokens"))
    for folder in (prompts, completions, tokens):
        folder.mkdir()
    for part in range(2):
        ids = range(part * ROWS, (part + 1) * ROWS)
        samples.write(prompts, [samples.prompt(i) for i in ids], "prompts", f"part-{part}")
        samples.write(
            completions,
            [samples.completion(i, thinking="I count up to the number that is asked for. " * 6) for i in ids],
            "completions",
            f"part-{part}",
        )
        samples.write(tokens, [samples.tokens(i) for i in ids], "tokenized", f"part-{part}")
    settle()
    judge(prompts, "prompts")
    judge(completions, "completions", upstream=str(prompts))
    judge(tokens, "tokenized", upstream=str(completions))
    return tokens


def edit(path, change):
    """Change a verdict as a forger would who keeps its integrity in order."""
    said = json.loads(path.read_bytes())
    said["predicate"].pop("integrity")
    change(said)
    said["predicate"]["integrity"] = canonical_digest(said)
    path.write_bytes(canonical(said))


def keep_times(path, change):
    status = path.stat()
    change(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def flip(path, at=200):
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(bytes(data))


def swap(tokens):
    first, second = sorted(tokens.glob("*.parquet"))
    first.rename(tokens / "aside")
    second.rename(first)
    (tokens / "aside").rename(second)


def link_elsewhere(tokens):
    path = tokens / "part-0.parquet"
    other = tokens.parent / "other.parquet"
    samples.write(tokens.parent, [samples.tokens(i + 500) for i in range(ROWS)], "tokenized", "other")
    path.unlink()
    path.symlink_to(other)


def replace_parent(tokens):
    folder = tokens.parent / "completions"
    samples.write(
        folder,
        [samples.completion(i, "Another answer, as long as it has to be.") for i in range(ROWS)],
        "completions",
        "part-0",
    )


def rejudge_parent(tokens):
    """The parent is another data set now, and has a verdict of its own."""
    replace_parent(tokens)
    dg.check(tokens.parent / "completions", stage="completions", ignore=IGNORED)


def fail_parent(tokens):
    dg.check(tokens.parent / "completions", stage="completions", ignore=IGNORED, sets=["short-response.min=5000"])


def verdict_of(tokens):
    return tokens / "__guard__" / "tokenized.verdict.json"


# What is done to a judged data set, and what its gate must say.
MUTATIONS = {
    "a byte flipped": (lambda t: flip(t / "part-0.parquet"), "was changed"),
    "a byte flipped, mtime kept": (lambda t: keep_times(t / "part-0.parquet", flip), "was changed"),
    "a shard added": (lambda t: shutil.copy(t / "part-0.parquet", t / "part-2.parquet"), "was not judged"),
    "a shard removed": (lambda t: (t / "part-1.parquet").unlink(), "not there any more"),
    "a shard renamed": (lambda t: (t / "part-1.parquet").rename(t / "part-9.parquet"), "was not judged"),
    "two shards swapped": (swap, "was changed"),
    "a shard truncated": (lambda t: os.truncate(t / "part-0.parquet", 900), "was changed"),
    "a shard emptied": (lambda t: os.truncate(t / "part-0.parquet", 0), "was changed"),
    "a shard grown": (
        lambda t: (t / "part-0.parquet").write_bytes((t / "part-0.parquet").read_bytes() + b"x"),
        "was changed",
    ),
    "a shard behind a link to another": (link_elsewhere, "was changed"),
    "no verdict": (lambda t: verdict_of(t).unlink(), "has no verdict"),
    "the guard folder gone": (lambda t: shutil.rmtree(t / "__guard__"), "has no verdict"),
    "the verdict cut short": (lambda t: os.truncate(verdict_of(t), 700), "damaged"),
    "the verdict empty": (lambda t: os.truncate(verdict_of(t), 0), "damaged"),
    "the verdict of another shape": (lambda t: verdict_of(t).write_text("[1]\n"), "damaged"),
    "fail turned into pass": (
        lambda t: edit(verdict_of(t), lambda v: v["predicate"]["rules"][0].update(failed=True, level="error")),
        "damaged",
    ),
    "the list of failures gone": (
        lambda t: [shutil.rmtree(each) for each in (t / "__guard__/runs").iterdir()],
        "list of failing rows",
    ),
    "the parent replaced": (replace_parent, "upstream part-0.jsonl was changed"),
    "the parent replaced and judged": (rejudge_parent, "upstream part-0.jsonl was changed"),
    "the parent failed since": (fail_parent, "failed its contract since"),
    "the parent's verdict lost": (lambda t: shutil.rmtree(t / "__guard__/upstream"), "not to be found"),
    "the grandparent changed": (
        lambda t: flip(t.parent / "prompts" / "part-0.jsonl", 60),
        "upstream part-0.jsonl was changed",
    ),
    "a manifest that came later": (lambda t: (t / "__guard__/manifest.json").write_text(MANIFEST), "manifest"),
}
MANIFEST = json.dumps(
    {
        "schema": "dflash-guard/manifest/1",
        "stage": "tokenized",
        "maker": "by hand",
        "format": "parquet",
        "shards": [],
        "parents": [],
        "split_from": None,
        "generator": None,
        "tokenizer": None,
        "mode": "thinking",
        "family": "qwen3",
        "parameters": {},
        "set_aside": {},
        "version": "0",
        "created": "",
        "evidence": {},
    }
)


def test_an_open_gate_runs_the_command_in_its_place(chain):
    script = "import os, sys; print(os.environ['DFLASH_GUARD_VERDICT']); sys.exit(7)"
    ran = command("gate", chain, "--ignore", DISTRIBUTION, "--", sys.executable, "-c", script)
    assert (ran.returncode, ran.stdout.strip()) == (7, str(verdict_of(chain)))
    assert ran.stderr.startswith("gate open: tokenized ← completions ← prompts · 24 rows · 2 shards · judged")


def test_a_command_has_its_own_signals(chain):
    """Python ignores SIGPIPE; what it starts must not."""
    ran = command(
        "gate",
        chain,
        "--ignore",
        DISTRIBUTION,
        "--",
        "sh",
        "-c",
        "yes | head -1; kill -TERM $$",
    )
    assert ran.stdout == "y\n"
    assert ran.returncode == -signal.SIGTERM


def test_a_shut_gate_never_runs_the_command(chain, tmp_path):
    flip(chain / "part-0.parquet")
    ran = command("gate", chain, "--ignore", DISTRIBUTION, "--", "touch", tmp_path / "ran")
    assert ran.returncode == 5
    assert not (tmp_path / "ran").exists()
    assert len(ran.stderr.strip().splitlines()) == 2
    assert "hint: judge it: dflash-guard check" in ran.stderr


@pytest.mark.parametrize(("args", "said"), [(["--"], "no command"), (["--", "no-such-command"], "can't be run")])
def test_a_command_that_is_none(chain, args, said):
    ran = command("gate", chain, "--ignore", DISTRIBUTION, *args)
    assert ran.returncode == 2
    assert said in ran.stderr


def test_two_data_are_never_a_command(chain, tmp_path):
    ran = command("gate", chain, tmp_path / "nothing")
    assert ran.returncode == 2
    assert "does not exist" in ran.stderr


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_keeps_the_gate_shut(chain, name):
    opened(chain)
    change, said = MUTATIONS[name]
    change(chain)
    with pytest.raises(GateError) as shut:
        opened(chain)
    assert said in shut.value.what, shut.value
    assert shut.value.hint
    assert shut.value.exit_code == 5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sets": ["few-loss-tokens.min=40"]}, "few-loss-tokens was judged with min 32, and 40 is asked for"),
        ({"mode": "off"}, "for mode thinking, and off is asked for"),
        ({"family": "qwen3_5"}, "family file"),
        ({"upstream": "somewhere"}, "was not compared with somewhere"),
    ],
)
def test_a_contract_that_asks_for_more(chain, options, said):
    with pytest.raises(GateError, match=said):
        opened(chain, **options)


def test_rules_that_were_ignored_do_not_open_a_gate_that_asks_for_them(chain):
    with pytest.raises(GateError, match="response-collapse was ignored"):
        dg.gate(chain)


def test_a_contract_that_asks_for_less(chain):
    opened(chain, sets=["few-loss-tokens.min=16"], ignore=["missing-id"])


def test_a_contract_file_that_became_stricter(chain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    opened(chain)
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts/tokenized.yaml").write_text(
        "extends: tokenized\nrules:\n  clipped-response: {level: error, tolerance: 0}\n  few-loss-tokens: {min: 64}\n"
    )
    with pytest.raises(GateError, match="few-loss-tokens was judged with min 32, and 64"):
        opened(chain)


def test_sources_that_the_contract_lists_now(chain, tmp_path):
    strict = tmp_path / "strict.yaml"
    strict.write_text("extends: tokenized\nsources: [sums]\n")
    with pytest.raises(GateError, match="other sources"):
        opened(chain, contract=str(strict))
    judge(chain, "tokenized", upstream=str(tmp_path / "completions"), contract=str(strict))
    opened(chain, contract=str(strict))
    opened(chain)


def test_an_upstream_without_provenance(chain, tmp_path):
    prompts, completions = tmp_path / "prompts", tmp_path / "completions"
    judge(prompts, "prompts", ignore=["unknown-source"])
    judge(completions, "completions", upstream=str(prompts))
    judge(chain, "tokenized", upstream=str(completions))
    with pytest.raises(GateError, match="without asking where its rows come from"):
        opened(chain)


def test_an_upstream_that_was_never_judged(chain, tmp_path):
    shutil.rmtree(tmp_path / "completions/__guard__")
    judge(chain, "tokenized", upstream=str(tmp_path / "completions"))
    with pytest.raises(GateError, match="had no verdict of its own"):
        opened(chain)


def test_an_upstream_that_was_taken_away_leaves_its_verdicts(chain, tmp_path):
    shutil.rmtree(tmp_path / "completions")
    shutil.rmtree(tmp_path / "prompts")
    passage = opened(chain)
    assert [link.record.stage for link in passage.chain] == ["completions", "prompts"]
    assert not any(link.is_here for link in passage.chain)


def test_a_chain_that_ends_early_is_said(chain):
    judge(chain, "tokenized")
    ran = command("gate", chain, "--ignore", DISTRIBUTION)
    assert ran.returncode == 0
    assert "note: the chain of verdicts ends at tokenized" in ran.stdout


def test_a_contract_may_require_the_whole_chain(chain, tmp_path):
    whole = tmp_path / "whole.yaml"
    whole.write_text("extends: tokenized\nupstream: required\n")
    opened(chain, contract=str(whole))
    judge(chain, "tokenized", contract=str(whole))
    with pytest.raises(GateError, match=r"ends at .*, and the contract asks that it reaches raw prompts"):
        opened(chain, contract=str(whole))


def test_data_that_was_copied_is_read_again_and_opens(chain, tmp_path):
    shutil.copytree(chain, tmp_path / "copy")
    assert opened(tmp_path / "copy").record.counts.rows == 2 * ROWS


def test_rehash_sees_what_the_file_system_hides(chain):
    path = chain / "part-0.parquet"
    flip(path)
    status = path.stat()

    def lie(said):
        shard = said["predicate"]["shards"][0]
        shard |= {"mtimeNs": status.st_mtime_ns, "ctimeNs": status.st_ctime_ns, "inode": status.st_ino}
        said["predicate"]["startedOn"] = "2100-01-01T00:00:00.000Z"

    edit(verdict_of(chain), lie)
    opened(chain)  # a deliberate forgery of an unsigned verdict: that is what --trust is for
    with pytest.raises(GateError, match="its sha256 is another"):
        opened(chain, rehash=True)


def test_rows_that_failed_within_tolerance(tmp_path):
    long = "word " * 25_000
    rows = [samples.prompt(i, long if i == 7 else None) for i in range(200)]
    path = samples.write(tmp_path, rows, "prompts")
    assert judge(path, "prompts").counts.quarantined_rows == 1
    shut = command("gate", path, "--ignore", DISTRIBUTION, "--", "true")
    assert shut.returncode == 5
    assert "dflash-guard split" in shut.stderr
    assert command("gate", path, "--ignore", DISTRIBUTION, "--allow-quarantined", "--", "true").returncode == 0
    assert command("gate", path, "--ignore", DISTRIBUTION).returncode == 0
    with dg.open_gated(path, stage="prompts", ignore=IGNORED) as data:
        texts = [text for batch in data.batches() for text in batch["text"].to_pylist()]
    assert [json.loads(text)["id"] for text in texts] == [str(i) for i in range(200) if i != 7]


def test_a_failed_verdict_names_its_rules(tmp_path):
    path = samples.write(tmp_path, [samples.tokens(i, 10) for i in range(ROWS)], "tokenized")
    assert not dg.check(path, stage="tokenized", ignore=IGNORED).passed
    with pytest.raises(GateError, match="failed its contract at stage tokenized: few-loss-tokens") as shut:
        opened(path)
    assert "dflash-guard autopsy" in shut.value.hint


def test_check_judges_first(tmp_path):
    path = samples.write(tmp_path, [samples.tokens(i) for i in range(ROWS)], "tokenized")
    ran = command("gate", path, "--stage", "tokenized", "--ignore", DISTRIBUTION, "--check", "--", "true")
    assert ran.returncode == 0, ran.stderr
    samples.write(tmp_path, [samples.tokens(i, 10) for i in range(ROWS)], "tokenized")
    ran = command("gate", path, "--stage", "tokenized", "--ignore", DISTRIBUTION, "--check", "--", "true")
    assert ran.returncode == 5
    assert "few-loss-tokens" in ran.stderr


def test_a_folder_with_two_verdicts_asks_which(tmp_path):
    path = samples.write(tmp_path, [samples.completion(i) for i in range(ROWS)], "completions")
    judge(path, "prompts")
    judge(path, "completions")
    with pytest.raises(UsageError, match="has verdicts of prompts and completions"):
        opened(path)
    assert opened(path, stage="completions").record.stage == "completions"


def test_a_verdict_that_is_named(chain, tmp_path):
    judge(chain, "tokenized", out=tmp_path / "guard")
    shutil.rmtree(chain / "__guard__")
    assert opened(chain, verdict=tmp_path / "guard/tokenized.verdict.json").record.counts.rows == 2 * ROWS
    with pytest.raises(GateError, match="there is no verdict"):
        opened(chain, verdict=tmp_path / "guard/none.json")


def test_the_environment_cannot_open_it(chain, tmp_path):
    flip(chain / "part-0.parquet")
    loud = {
        "PYTHONOPTIMIZE": "2",
        "PANDERA_VALIDATION_ENABLED": "0",
        "DFLASH_GUARD_VERDICT": "x",
        "PANDERA_VALIDATION_DEPTH": "SCHEMA_ONLY",
    }
    assert command("gate", chain, "--ignore", DISTRIBUTION, env=loud).returncode == 5
    path = samples.write(tmp_path, [samples.tokens(i, 10) for i in range(ROWS)], "tokenized", "short")
    assert command("check", path, "-s", "tokenized", "--ignore", DISTRIBUTION, env=loud).returncode == 1


def test_an_open_gate_imports_nothing_heavy(chain):
    script = (
        "import sys; from dflash_guard.cli import run; "
        f"code = run(['gate', {str(chain)!r}, '--ignore', {DISTRIBUTION!r}]); "
        "heavy = {'pandera', 'great_expectations', 'torch', 'transformers', 'sglang', 'pyarrow', 'duckdb', 'polars', 'numpy'}; "
        "print(code, sorted(heavy & set(sys.modules)))"
    )
    settle()
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert ran.stdout.splitlines()[-1] == "0 []", ran.stderr


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), which=st.sampled_from(["shard", "verdict", "copy"])
)
def test_any_flipped_bit_shuts_it(chain, place, bit, which):
    path = {
        "shard": chain / "part-1.parquet",
        "verdict": verdict_of(chain),
        "copy": min((chain / "__guard__/upstream").iterdir()),
    }[which]
    was = path.read_bytes()
    at = int(place * len(was))
    try:
        keep_times(path, lambda p: p.write_bytes(was[:at] + bytes([was[at] ^ 1 << bit]) + was[at + 1 :]))
        with pytest.raises(GateError):
            opened(chain)
    finally:
        path.write_bytes(was)
    opened(chain)


def test_a_shard_changed_between_gate_and_read_is_refused(chain):
    data = dg.open_gated(chain, ignore=IGNORED)
    assert sum(batch.num_rows for batch in data.batches(["input_ids"])) == 2 * ROWS
    keep_times(chain / "part-1.parquet", flip)
    with pytest.raises(GateError, match=r"part-1\.parquet was changed"):
        list(data.batches(["input_ids"]))


def test_gated_rows_of_a_columnar_set_with_quarantined_rows(tmp_path):
    rows = [samples.tokens(i, 10 if i in {3, 8} else 80) for i in range(ROWS)]
    path = samples.write(tmp_path, rows, "tokenized")
    judge(path, "tokenized", sets=["few-loss-tokens.tolerance=0.5"])
    data = dg.open_gated(path, ignore=IGNORED, sets=["few-loss-tokens.tolerance=0.5"])
    ids = [each for batch in data.batches(["id"]) for each in batch["id"].to_pylist()]
    assert ids == [str(i) for i in range(ROWS) if i not in {3, 8}]
    assert data.rows == ROWS - 2


# Signing.


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """Two key pairs, made as the hint says."""
    folder = tmp_path_factory.mktemp("keys")
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    for name in ("ours", "theirs"):
        key = Ed25519PrivateKey.generate()
        (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        (folder / f"{name}.pub").write_bytes(
            key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        )
    return folder


def signed(chain, keys, name="ours"):
    return judge(chain, "tokenized", sign=keys / f"{name}.key", upstream=str(chain.parent / "completions"))


def test_a_signed_verdict_opens_to_who_trusts_its_key(chain, keys):
    signed(chain, keys)
    opened(chain, trust=[keys / "theirs.pub", keys / "ours.pub"])
    with pytest.raises(GateError, match="signed by no key that is trusted"):
        opened(chain, trust=[keys / "theirs.pub"])


def test_an_unsigned_verdict_opens_to_nobody_who_asks_for_a_key(chain, keys):
    with pytest.raises(GateError, match="is not signed"):
        opened(chain, trust=[keys / "ours.pub"])


def test_a_forgery_that_an_unsigned_gate_cannot_see(chain, keys):
    signed(chain, keys)
    edit(verdict_of(chain), lambda said: said["predicate"]["counts"].update(quarantinedRows=0, rows=25))
    opened(chain)
    with pytest.raises(GateError, match="of another verdict"):
        opened(chain, trust=[keys / "ours.pub"])


def test_a_verdict_signed_again_by_another_key(chain, keys):
    signed(chain, keys)
    edit(verdict_of(chain), lambda said: said["predicate"].update(redacted=True))
    from dflash_guard.verdict.signature import Signer

    Signer(keys / "theirs.key").sign(GuardFolder(chain / "__guard__"), "tokenized", verdict_of(chain).read_bytes())
    with pytest.raises(GateError, match="signed by no key that is trusted"):
        opened(chain, trust=[keys / "ours.pub"])


def test_a_signed_verdict_moved_to_other_data(chain, keys, tmp_path):
    signed(chain, keys)
    other = tmp_path / "other"
    other.mkdir()
    for part in range(2):
        samples.write(other, [samples.tokens(900 + i) for i in range(ROWS)], "tokenized", f"part-{part}")
    shutil.copytree(chain / "__guard__", other / "__guard__")
    with pytest.raises(GateError, match="was changed"):
        opened(other, trust=[keys / "ours.pub"])


def test_a_check_that_does_not_sign_leaves_no_signature(chain, keys):
    signed(chain, keys)
    judge(chain, "tokenized", sets=["few-loss-tokens.min=20"])
    assert not (chain / "__guard__/tokenized.verdict.dsse.json").exists()


def test_the_envelope_is_dsse(chain, keys):
    """Verified here by the protocol's own definition, with the library's key alone."""
    import base64

    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    signed(chain, keys)
    envelope = json.loads((chain / "__guard__/tokenized.verdict.dsse.json").read_bytes())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    encoded = b"DSSEv1 " + str(len(kind)).encode() + b" " + kind + b" " + str(len(payload)).encode() + b" " + payload
    key = load_pem_public_key((keys / "ours.pub").read_bytes())
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), encoded)
    assert payload == verdict_of(chain).read_bytes()


@pytest.mark.parametrize("option", ["--sign", "--trust"])
def test_a_file_that_is_no_key(chain, tmp_path, option):
    (tmp_path / "no.key").write_text("no key\n")
    verb = ["check", chain, "--stage", "tokenized"] if option == "--sign" else ["gate", chain]
    for path in (tmp_path / "no.key", tmp_path / "absent"):
        ran = command(*verb, "--ignore", DISTRIBUTION, option, path)
        assert ran.returncode == 2
        assert option in ran.stderr
        assert "hint:" in ran.stderr


# A second check of the same.


def test_an_unchanged_set_keeps_its_verdict(chain, tmp_path):
    before = verdict_of(chain).read_bytes()
    again = judge(chain, "tokenized", upstream=str(tmp_path / "completions"))
    assert verdict_of(chain).read_bytes() == before
    assert len(list((chain / "__guard__/runs").iterdir())) == 1
    assert again.counts.rows == 2 * ROWS
    assert [seal.sha256 for seal in again.seals] == [
        hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(chain.glob("*.parquet"))
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"sets": ["few-loss-tokens.min=33"]},
        {"fail_on": "warn"},
        {"redact": True},
        {"upstream": None},
        {"ignore": ["missing-id"]},
    ],
)
def test_another_question_is_judged_anew(chain, tmp_path, options):
    before = verdict_of(chain).read_bytes()
    judge(chain, "tokenized", **{"upstream": str(tmp_path / "completions"), **options})
    assert verdict_of(chain).read_bytes() != before


def test_a_changed_upstream_is_judged_anew(chain, tmp_path):
    folder = tmp_path / "completions"
    samples.write(folder, [samples.completion(i + 700) for i in range(ROWS)], "completions", "part-0")
    verdict = dg.check(chain, stage="tokenized", upstream=str(folder), ignore=IGNORED)
    assert "unknown-prompt" in {each.rule for each in verdict.rules if each.failed}


def test_a_changed_shard_never_passes_by_what_is_cached(chain):
    path = chain / "part-1.parquet"
    rows = [samples.tokens(i, 10) for i in range(ROWS, 2 * ROWS)]
    samples.write(chain, rows, "tokenized", "part-1")
    assert path.exists()
    assert not dg.check(chain, stage="tokenized", ignore=IGNORED).passed


def test_the_incidents_lineage_cannot_be(tmp_path):
    """Tokens with 89.6 supervised on the mean cannot have been made from responses of three characters."""
    raw = samples.write(tmp_path, [samples.prompt(i, response="OK.") for i in range(100)], "prompts", "raw")
    tokens = samples.write(
        tmp_path, [samples.tokens(i, 89 if i % 5 < 2 else 90, thinks=False) for i in range(100)], "tokenized", "tokens"
    )
    verdict = dg.check(tokens, stage="tokenized", upstream=str(raw), mode="row", ignore=[*IGNORED, "residual-thinking"])
    failed = {each.rule: each.failing_rows for each in verdict.rules if each.failed}
    assert failed["changed-response"] == 100
    details = [row["detail"] for row in verdict.failures.to_pylist() if row["rule"] == "changed-response"]
    assert details[0] == "89 supervised tokens, and the response upstream can make at most 28"


def test_two_checks_at_once_leave_one_whole_verdict(chain):
    def check(least):
        options = ["--ignore", DISTRIBUTION, "--set", f"few-loss-tokens.min={least}"]
        return command("check", chain, "-s", "tokenized", *options).returncode

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(check, (30, 31, 32))) == [0, 0, 0]
    assert opened(chain, sets=["few-loss-tokens.min=30"]).record.counts.rows == 2 * ROWS
    assert not list(Path(chain / "__guard__").rglob("*.tmp"))


# Faults that were found by trying to break it.


def test_a_second_name_of_a_shard_is_a_second_shard(chain):
    """A reader of the folder reads both."""
    os.link(chain / "part-0.parquet", chain / "part-2.parquet")
    with pytest.raises(GateError, match="was not judged"):
        opened(chain)
    assert dg.check(chain, stage="tokenized", ignore=IGNORED).counts.rows == 3 * ROWS


@pytest.mark.parametrize("name", ["licenses.parquet", "README-shard.parquet", "notices.parquet"])
def test_a_shard_is_no_side_file_for_its_name(chain, name):
    shutil.copy(chain / "part-0.parquet", chain / name)
    with pytest.raises(GateError, match="was not judged"):
        opened(chain)


def test_a_verdict_under_another_stages_name(chain, tmp_path):
    guard = tmp_path / "completions/__guard__"
    shutil.copy(guard / "completions.verdict.json", guard / "tokenized.verdict.json")
    with pytest.raises(GateError, match="is a verdict of stage completions, not tokenized"):
        opened(tmp_path / "completions", stage="tokenized")


def test_an_upstream_by_a_roundabout_path(chain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "prompts")
    judge(chain, "tokenized", upstream="../completions")
    opened(chain, upstream="../completions")
    opened(chain, upstream=str(tmp_path / "completions"))


def test_a_manifest_that_is_damaged(chain):
    (chain / "__guard__/manifest.json").write_text("{")
    with pytest.raises(GateError, match="is damaged"):
        opened(chain)


def test_the_verdict_that_was_written_last_counts(chain, tmp_path, monkeypatch):
    """Where the folder can't be written any more, a verdict goes to the user's state folder."""
    from dflash_guard.verdict import folder as module

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(module, "_can_write", lambda _: False)
    settle()
    assert not dg.check(chain, stage="tokenized", ignore=IGNORED, sets=["few-loss-tokens.min=5000"]).passed
    with pytest.raises(GateError, match="failed its contract"):
        opened(chain)


def test_an_empty_command(chain):
    ran = command("gate", chain, "--ignore", DISTRIBUTION, "--", "")
    assert ran.returncode == 2
    assert "no command" in ran.stderr
