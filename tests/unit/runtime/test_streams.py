"""A command whose standard streams are full, closed or left says so, and its work stays done. So does Ctrl-C."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

from bookie import __main__ as program
from bookie.cli import main
from bookie.runtime import streams
from slow_pipe_support import feed

ROOT = Path(__file__).resolve().parents[3]
COMMANDS = {
    "bookie": [sys.executable, "-m", "bookie"],
    "bookie-operator": [sys.executable, "-m", "bookie_operator"],
}


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("bookie", ["settings", "show", "--json"]),
        ("bookie", ["--help"]),
        ("bookie-operator", ["crds"]),
    ],
)
def test_a_full_disk_under_standard_output_is_one_line_and_code_1(program: str, words: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([*COMMANDS[program], *words], stdout=full, stderr=PIPE, timeout=120, check=False)

    told = done.stderr.decode()
    assert done.returncode == main.FAILED, told
    assert told.startswith(f"{program}: standard output takes no more: No space left on device\n"), told
    assert "Traceback" not in told
    assert "Exception ignored" not in told


@pytest.mark.parametrize(
    ("program", "words", "closed"),
    [
        ("bookie", ["settings", "show", "--json"], "1>&-"),
        ("bookie", ["--version"], "1</dev/null"),
        ("bookie", ["ledger", "--help"], "0<&- 1>&-"),
        ("bookie-operator", ["crds"], "1>&-"),
    ],
)
def test_a_closed_standard_output_is_told_with_what_it_did_not_take(
    program: str, words: list[str], closed: str
) -> None:
    """It ended with 0, and had told nothing: nobody knows then what a command found."""
    command = ["sh", "-c", f'exec "$0" "$@" {closed}', *COMMANDS[program], *words]
    done = subprocess.run(command, stderr=PIPE, timeout=120, check=False)

    told = done.stderr.decode()
    assert done.returncode == main.FAILED, told
    first, second, third = told.split("\n", 2)
    assert first == f"{program}: standard output takes no more: it is closed, or open only for reading"
    assert second == f"{program}: it did not take:"
    assert third
    assert "Traceback" not in told


def test_a_command_that_says_nothing_needs_no_standard_output() -> None:
    script = "from bookie.runtime import streams\nwith streams.guarded('bookie'):\n    pass"
    done = subprocess.run(["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, script], timeout=120, check=False)

    assert done.returncode == 0


def test_what_a_full_disk_did_not_take_is_told_on_stderr() -> None:
    """The id of a ledger that was made stands nowhere else."""
    script = "from bookie.runtime import streams\nwith streams.guarded('bookie'):\n    print(4711)"
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run([sys.executable, "-c", script], stdout=full, stderr=PIPE, timeout=120, check=False)

    assert done.stderr.decode().endswith("bookie: it did not take:\n4711\n"), done
    assert done.returncode == main.FAILED


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("bookie", ["--help"]),
        ("bookie-operator", ["crds"]),
        ("bookie-operator", ["render", "examples/bookiecluster.yaml"]),
    ],
)
def test_a_reader_that_went_away_ends_a_command_without_a_word(program: str, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMANDS[program], *words]
    done = subprocess.run(command, stdout=writer, stderr=PIPE, timeout=120, check=False, cwd=ROOT)
    os.close(writer)

    assert (done.returncode, done.stderr) == (main.FAILED, b"")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_what_an_encoding_cannot_write_is_escaped(encoding: str) -> None:
    """A name that somebody else chose must not end a command in a traceback, with half of what it found."""
    script = "from bookie.runtime import streams\nwith streams.guarded('bookie'):\n    print('\\u4e00 \\udcff')"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, "-c", script], stdout=PIPE, env=environment, timeout=120, check=False)

    assert (done.returncode, done.stdout.endswith(b" \\udcff\n")) == (0, True)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_pipe_that_somebody_made_non_blocking_takes_everything(stream: str) -> None:
    """Node.js and ssh do that to a pipe that they share; it was a traceback, and the rest was lost."""
    lines = 20_000
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)  # half of what Python writes at once
    script = f"""
import sys
from bookie.runtime import streams
with streams.guarded("bookie"):
    for number in range({lines}):
        print("line %07d" % number, file=sys.{stream})
"""
    out, err = (writer, PIPE) if stream == "stdout" else (PIPE, writer)
    with subprocess.Popen([sys.executable, "-c", script], stdout=out, stderr=err) as running:
        os.close(writer)
        with open(reader, "rb") as pipe:
            taken = pipe.read()
        other = running.stderr if stream == "stdout" else running.stdout
        assert other is not None
        said = other.read()

    assert (running.returncode, said) == (0, b"")
    assert taken.splitlines() == [b"line %07d" % number for number in range(lines)]


def test_a_non_blocking_standard_error_that_nobody_reads_holds_up_nothing_for_ever() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    script = (
        "import sys\nfrom bookie.runtime import streams\n"
        "with streams.guarded('bookie'):\n    print('x' * 5_000, file=sys.stderr)\n    print('done')"
    )
    done = subprocess.run([sys.executable, "-c", script], stdout=PIPE, stderr=writer, timeout=30, check=False)
    os.close(writer)
    os.close(reader)

    assert (done.returncode, done.stdout) == (0, b"done\n")


def test_a_full_disk_under_standard_error_changes_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        words = [*COMMANDS["bookie"], "ledger", "show", "no-number"]
        done = subprocess.run(words, stdout=PIPE, stderr=full, timeout=120, check=False)

    assert done.returncode == main.USAGE, done


def python(*lines: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120, check=False
    )


def test_ctrl_c_ends_a_program_with_code_130_and_one_line() -> None:
    done = python(
        "import signal",
        "from bookie.runtime import streams",
        "with streams.guarded('bookie'):",
        "    print('what was said stays said')",
        "    signal.raise_signal(signal.SIGINT)",
    )

    said = (done.returncode, done.stdout, done.stderr)
    assert said == (streams.INTERRUPTED, "what was said stays said\n", "bookie: interrupted\n")


def test_ctrl_c_ends_a_loop_with_code_130_after_what_is_cleaned_up() -> None:
    done = python(
        "import asyncio, signal, sys",
        "from bookie.runtime import loop, streams",
        "async def work():",
        "    try:",
        "        signal.raise_signal(signal.SIGINT)",
        "        await asyncio.Event().wait()",
        "    finally:",
        "        await asyncio.sleep(0)",
        "        print('cleaned up')",
        "with streams.guarded('bookie'):",
        "    loop.run(work())",
    )

    said = (done.returncode, done.stdout, done.stderr)
    assert said == (streams.INTERRUPTED, "cleaned up\n", "bookie: interrupted\n")


def test_ctrl_c_while_the_program_starts_is_no_traceback() -> None:
    done = python(
        "import signal, sys",
        "class Interrupted:",
        "    @staticmethod",
        "    def find_spec(name, *_):",
        "        if name == 'bookie.cli':",
        "            signal.raise_signal(signal.SIGINT)",
        "sys.meta_path.insert(0, Interrupted)",
        "from bookie import __main__",
        "sys.exit(__main__.main())",
    )

    assert (done.returncode, done.stdout, done.stderr) == (streams.INTERRUPTED, "", "")
    assert program.INTERRUPTED == streams.INTERRUPTED


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    ("words", "imported"),
    [
        ("serve", "bookie.cli"),
        ("serve", "bookie.cli.server_options"),
        ("local --data /dev/null/x", "bookie.cli"),
        ("local --data /dev/null/x", "bookie.local"),
        ("autorecovery run", "bookie.cli"),
        ("autorecovery run", "bookie.client"),
        ("workload run --log /dev/null/x", "bookie.workload"),
    ],
)
def test_what_runs_until_it_is_stopped_hears_a_stop_while_it_is_imported(
    words: str, imported: str, number: str
) -> None:
    done = python(
        "import signal, sys",
        "class Stopped:",
        "    @staticmethod",
        "    def find_spec(name, *_):",
        f"        if name == {imported!r}:",
        f"            signal.raise_signal(signal.{number})",
        "sys.meta_path.insert(0, Stopped)",
        "from bookie import __main__",
        f"sys.argv = ['bookie', *{words.split()!r}]",
        "sys.exit(__main__.main())",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


_READ_STDIN = "import sys; from bookie.runtime import streams; sys.stdout.buffer.write(streams.read_stdin())"


def _reads_stdin(how: str, *, given: bytes | None = None) -> "subprocess.CompletedProcess[bytes]":
    # Bounded: one that reads an endless input to its end would take the machine's memory, and others with it.
    words = ["sh", "-c", f'ulimit -v 2000000; exec "$0" -c "$1" {how}', sys.executable, _READ_STDIN]
    return subprocess.run(words, input=given, capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("<&-", b"it is closed"),
        ("0>/dev/null", b"it is open only for writing"),
        ("</dev/zero", b"it has more than 16 MiB"),
    ],
)
def test_a_standard_input_that_gives_nothing_whole_is_told(how: str, said: bytes) -> None:
    done = _reads_stdin(how)

    assert b"OSError" in done.stderr, done
    assert said in done.stderr, done


def test_standard_input_is_read_to_its_end() -> None:
    assert _reads_stdin("", given=b"kind: Pod\n").stdout == b"kind: Pod\n"


def test_standard_input_that_somebody_made_non_blocking_is_waited_for() -> None:
    pieces = [b"piece %d\n" % number for number in range(50)]

    assert feed([sys.executable, "-c", _READ_STDIN], pieces) == (b"".join(pieces), b"")
