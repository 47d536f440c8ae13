"""Progress is for eyes: on a terminal, gone when the work is done, and never in the way of an error."""

import io

import pytest

from dflash_guard.cli._progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [None, io.StringIO()])
def test_nothing_is_shown_where_nobody_looks(stream):
    with progress(stream) as advance:
        assert advance is None
    assert stream is None or stream.getvalue() == ""


def test_bytes_are_shown_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with progress(terminal) as advance:
        advance(1_500_000)
        advance(1_000_000)
    assert "2.5 MB" in terminal.getvalue()


def test_the_cursor_comes_back_after_an_interrupt(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with pytest.raises(KeyboardInterrupt), progress(terminal):
        raise KeyboardInterrupt
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")
