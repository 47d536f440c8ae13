"""What only a process of its own shows: what is imported, how it ends, and what becomes of a closed pipe."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dflash_guard.cli

PACKAGE = Path(dflash_guard.cli.__file__).parents[1]
HEAVY = {"pandera", "great_expectations", "torch", "transformers", "sglang"}
HELP_NEEDS_NONE_OF = HEAVY | {"polars", "duckdb", "pyarrow", "numpy", "pandas", "boto3", "rich", "yaml"}

LOADED = """
import sys
from dflash_guard.cli import run
code = run(sys.argv[1:])
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""


def loaded(process, *arguments):
    code, *modules = process("-c", LOADED, *arguments).stderr.split()
    assert code == "0"
    return set(modules)


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("check", "--help"), ("rules", "-h"), ("explain", "-h")])
def test_help_is_light(process, arguments):
    assert loaded(process, *arguments) & HELP_NEEDS_NONE_OF == set()


@pytest.mark.parametrize("arguments", [("rules",), ("rules", "--format", "json"), ("explain", "few-loss-tokens")])
def test_the_catalog_is_light(process, arguments):
    assert loaded(process, *arguments) & HELP_NEEDS_NONE_OF == set()


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_a_heavy_library_at_its_top(path):
    def imported(nodes):
        for node in nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield node.module.partition(".")[0]
            elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                yield from imported(node.orelse)
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                yield from imported(ast.iter_child_nodes(node))

    is_class_of_torch = path == PACKAGE / "stages/dataset.py"  # imported by name alone
    allowed = {"torch"} if is_class_of_torch else set()
    assert set(imported(ast.parse(path.read_text(encoding="utf-8")).body)) & HEAVY <= allowed


def test_python_m_is_the_command(process):
    done = process("-m", "dflash_guard", "rules", "--stage", "prompts")
    assert (done.returncode, done.stderr) == (0, "")
    assert "unknown-role" in done.stdout


def test_a_usage_error_ends_the_process_with_2(process):
    done = process("-m", "dflash_guard", "chek")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == ["error: No such command 'chek'.", "hint: Did you mean 'check'?"]


ABORTS = """
import atexit, os, sys
from dflash_guard import cli
class Native:
    def __del__(self): os.abort()
native = Native()
atexit.register(print, "exit functions run")
cli.run = lambda: 1
sys.stdout.write("verdict ")
cli.main()
"""


def test_an_abort_at_interpreter_exit_does_not_replace_the_code(process):
    done = process("-c", ABORTS)
    assert (done.returncode, done.stdout, done.stderr) == (1, "verdict exit functions run\n", "")


@pytest.mark.parametrize("arguments", ["rules", "rules --format json", "--help"])
def test_a_reader_that_goes_away_is_no_error(arguments):
    command = f"{sys.executable} -m dflash_guard {arguments}"
    done = subprocess.run(
        ["bash", "-c", f"( sleep 1; {command}; echo code $? >&2 ) | true"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == "code 0\n"


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "</dev/null >/dev/null 2>&1"])
def test_closed_streams_do_not_change_the_code(redirection):
    for arguments, code in (("rules", 0), ("chek", 2)):
        command = f"{sys.executable} -m dflash_guard {arguments} {redirection}; exit $?"
        assert subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False).returncode == code


def test_a_full_disk_is_told(process):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m dflash_guard rules > /dev/full"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr.startswith("error: No space left on device")


def test_a_narrow_encoding_is_no_error(process):
    done = process("-m", "dflash_guard", "rules", env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert "\\xb7" in done.stdout
