"""`lineage` from outside: what a data set was made from, in every format, and as events to a real receiver."""

import json
import shutil
import threading
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from commands import IGNORED, command
from openlineage.client.event_v2 import RunEvent
from openlineage.client.serde import Serde

import dflash_guard as dg
import samples
from dflash_guard.verbs.split import split
from dflash_guard.verdict.lineage import trace
from dflash_guard.verdict.openlineage import events

EVIL = 'a"]:::x --> <script>alert(1)</script> ::error::\x1b[31m'


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Prompts → completions that fail → their clean part → tokens."""
    folder = tmp_path_factory.mktemp("chain")
    for name in ("prompts", "completions", "tokens"):
        (folder / name).mkdir()
    samples.write(folder / "prompts", [samples.prompt(i) for i in range(20)], "prompts")
    rows = [samples.completion(i, finish="length" if i < 2 else "stop") for i in range(20)]
    samples.write(folder / "completions", rows, "completions")
    samples.write(folder / "tokens", [samples.tokens(i) for i in range(2, 20)], "tokenized")
    dg.check(folder / "prompts", stage="prompts", ignore=IGNORED)
    options = {"upstream": str(folder / "prompts"), "stage": "completions", "ignore": IGNORED}
    split(folder / "completions", passed=folder / "clean", **options)
    dg.check(folder / "clean", stage="completions", ignore=IGNORED)
    assert dg.check(
        folder / "tokens",
        stage="tokenized",
        upstream=str(folder / "clean"),
        ignore=[*IGNORED, "lost-thinking", "changed-response"],
    ).passed
    return folder


def test_the_tree_goes_back_to_the_prompts(chain):
    ran = command("lineage", chain / "tokens")
    assert ran.returncode == 0, ran.stderr
    heads = [line.strip("│├└─ ") for line in ran.stdout.splitlines() if "·" in line]
    assert heads == [
        f"{chain}/tokens · tokenized · PASS",
        f"upstream {chain}/clean · completions · PASS",
        f"split from {chain}/completions · completions · FAIL",
        f"upstream {chain}/prompts · prompts · PASS",
        f"upstream {chain}/prompts · prompts · PASS",
    ]
    assert "made by split" in ran.stdout
    assert "broken: truncated-response" in ran.stdout


def test_json_says_it_all(chain):
    said = json.loads(command("lineage", chain / "tokens", "--format", "json").stdout)
    assert said["schema"] == "dflash-guard/lineage/1"
    clean = said["lineage"]["parents"][0]
    assert clean["result"] == "pass"
    assert clean["manifest"]["set_aside"] == {"split off": 2}
    assert [parent["via"] for parent in clean["parents"]] == ["split from", "upstream"]
    assert clean["parents"][0]["verdict"]["failed_rules"] == ["truncated-response"]


def test_a_change_and_a_loss_are_told(chain, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(chain, copy)
    assert {node.bytes for node in trace([chain / "tokens"]).walk()} == {"as judged"}
    path = copy / "tokens/shard.parquet"
    path.write_bytes(path.read_bytes() + b"x")
    assert trace([copy / "tokens"]).bytes == "changed"


def test_upstream_data_that_is_gone(tmp_path):
    prompts = samples.write(tmp_path, [samples.prompt(i) for i in range(5)], "prompts", "prompts")
    completions = samples.write(tmp_path, [samples.completion(i) for i in range(5)], "completions", "completions")
    dg.check(prompts, stage="prompts", ignore=IGNORED)
    dg.check(completions, stage="completions", upstream=str(prompts), ignore=IGNORED)
    prompts.unlink()
    parent = trace([completions]).parents[0]
    assert (parent.bytes, parent.result, parent.stage) == ("gone", "pass", "prompts")


def test_nothing_on_record(tmp_path):
    path = samples.write(tmp_path, [samples.prompt(1)], "prompts")
    ran = command("lineage", path)
    assert ran.returncode == 5
    assert "nothing is on record" in ran.stderr


class _Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)


def test_a_name_cannot_break_out(tmp_path):
    folder = tmp_path / EVIL.replace("/", "_")
    folder.mkdir()
    samples.write(folder, [samples.prompt(i) for i in range(3)], "prompts")
    dg.check(folder, stage="prompts", ignore=IGNORED)
    page = command("lineage", folder, "--format", "html").stdout
    parser = _Elements()
    parser.feed(page)
    assert "script" not in parser.tags
    for format in ("tree", "json", "mermaid", "html"):
        said = command("lineage", folder, "--format", format).stdout
        assert "\x1b" not in said
        assert not [line for line in said.splitlines() if line.lstrip().startswith("::")]
    mermaid = command("lineage", folder, "--format", "mermaid").stdout.splitlines()
    assert len([line for line in mermaid if line.strip().startswith("n")]) == 1
    assert '"]:::x' not in mermaid[1]


@pytest.fixture
def receiver():
    """A receiver of events over HTTP, on this machine only."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            got.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    thread.join()
    server.server_close()


def test_events_reach_a_receiver(chain, receiver):
    url, got = receiver
    ran = command("lineage", chain / "tokens", "--openlineage", url)
    assert ran.returncode == 0, ran.stderr
    assert {path for path, _ in got} == {"/api/v1/lineage"}
    assert [(event["job"]["name"], event["eventType"]) for _, event in got] == [
        ("check.prompts", "START"),
        ("check.prompts", "COMPLETE"),
        ("check.completions", "START"),
        ("check.completions", "FAIL"),
        ("split.completions", "START"),
        ("split.completions", "COMPLETE"),
        ("check.completions", "START"),
        ("check.completions", "COMPLETE"),
        ("check.tokenized", "START"),
        ("check.tokenized", "COMPLETE"),
    ]
    assert f"10 OpenLineage events → {url}" in ran.stderr


def test_events_say_what_was_judged(chain):
    """As the client's own classes read them; they refuse what the specification does not allow."""
    made = list(events(trace([chain / "tokens"])))
    assert all(isinstance(event, RunEvent) for event in made)
    failed = json.loads(Serde.to_json(next(event for event in made if event.eventType.value == "FAIL")))
    assert failed["run"]["facets"]["errorMessage"]["message"] == "the contract is violated: truncated-response"
    data = failed["inputs"][0]
    assert data["inputFacets"]["inputStatistics"]["rowCount"] == 20
    wrong = [
        each["assertion"] for each in data["inputFacets"]["dataQualityAssertions"]["assertions"] if not each["success"]
    ]
    assert wrong == ["truncated-response"]
    assert len(data["facets"]["version"]["datasetVersion"]) == 64
    tokens = json.loads(Serde.to_json(made[-1]))["inputs"][0]
    assert "input_ids" in [each["name"] for each in tokens["facets"]["schema"]["fields"]]


def test_events_are_the_same_each_time(chain, tmp_path):
    for name in ("a", "b"):
        assert command("lineage", chain / "tokens", "--openlineage", tmp_path / name).returncode == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    assert len((tmp_path / "a").read_text().splitlines()) == 10


@pytest.mark.parametrize("target", ["http://127.0.0.1:9", "missing/folder/events.jsonl"])
def test_a_receiver_that_is_not_there(chain, tmp_path, target):
    ran = command("lineage", chain / "tokens", "--openlineage", target if "://" in target else tmp_path / target)
    assert ran.returncode == 3
    assert "hint:" in ran.stderr
    assert "Traceback" not in ran.stderr
