"""What tests of stages share: a small target, and a working folder that knows its family."""

import shutil

import chat_samples
import pytest


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tokenizer with its chat template and family."""
    return chat_samples.make_tokenizer(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def here(tmp_path, tiny, monkeypatch):
    """A working folder that knows the family of the tests' tokenizer."""
    (tmp_path / "contracts/families").mkdir(parents=True)
    shutil.copy(tiny / "tiny.yaml", tmp_path / "contracts/families/tiny.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path
