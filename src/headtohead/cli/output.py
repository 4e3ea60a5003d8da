"""Standard output and standard error of a command: closed pipes, full disks, and control characters of other people."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from headtohead.display.visible import visible


class Raw:
    """A stream that survives a closed pipe (`h2h … | head -1`).

    The rest of the output is discarded. The command runs to its end, writes its files and returns its own exit code.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.reader_closed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        with self._discarding():
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        self.write("".join(lines))

    def flush(self) -> None:
        with self._discarding():
            self.stream.flush()

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.reader_closed = True
            self.discard()
        except OSError as error:
            self.discard()
            self.failed(error)

    def discard(self) -> None:
        """Write nothing more: text that is still buffered is lost too."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.stream.fileno())
        os.close(nowhere)

    def failed(self, error: OSError) -> None:
        from headtohead.errors import Unavailable

        raise Unavailable(
            f"the output cannot be written ({error.strerror or error}): free some space, or raise ulimit -f"
        )


class Output(Raw):
    """Standard output for `print`, with control characters made visible. Rich writes its colours to the stream below,
    and a `Console` of headtohead makes its own text visible."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.rich_proxied_file: Any = Raw(stream)  # where rich looks for the stream to write to

    def write(self, text: str) -> int:
        super().write(visible(text))
        return len(text)


class Errors(Output):
    """Standard error. What cannot be written is lost: there is no other place to report it."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.rich_proxied_file: Any = stream

    def write(self, text: str) -> int:
        bar = text.strip("\r")  # progress bars of other packages start and end with a carriage return
        before, _, after = text.partition(bar) if bar else (text, "", "")
        Raw.write(self, before + visible(bar) + after)
        return len(text)

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # `h2h … 2>&1 | head` ends the command
            raise
        except OSError:
            self.discard()


@contextmanager
def own_streams() -> Iterator[None]:
    """Replace standard output and standard error for a command. They are None where they were closed."""
    before = sys.stdout, sys.stderr
    output: Any = before[0] and Output(before[0])
    errors: Any = before[1] and Errors(before[1])
    sys.stdout, sys.stderr = output, errors
    try:
        yield
    finally:
        _end(output, errors)
        sys.stdout, sys.stderr = before


def _end(output: Output | None, errors: Errors | None) -> None:
    from headtohead.errors import Unavailable

    try:
        if output is not None:
            output.flush()
    except Unavailable as error:
        with suppress(OSError):
            print(f"h2h: {error}", file=errors)
        sys.exit(error.exit_code)


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """What foreign code prints goes to standard error, so that standard output has the result alone."""
    before = sys.stdout
    sys.stdout = sys.stderr
    kept = None
    with suppress(OSError, ValueError, AttributeError):  # a stream of a test or a notebook has no file
        if before.fileno() == 1:
            before.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stdout = before
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)
