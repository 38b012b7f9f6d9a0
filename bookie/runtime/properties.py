"""Reads properties files like Java's bk_server.conf: `name=value` lines, `#` comments, `\\` at the end to go on."""

import re
from collections.abc import Iterator

from bookie.base import errors
from bookie.runtime import given_file

# As java.util.Properties splits: the first '=' or ':'.
_LINE = re.compile(r"([^=:\s]+)\s*[=:]\s*(.*)")
# Of a line that is not understood only the first word is shown, and so much of that: the rest may be a password.
_SHOWN_CHARACTERS = 40


def read(path: str) -> list[tuple[str, str, str]]:
    """Return (name, text, origin) of each line; `origin` is "file:line". Raises BadInput with all problems."""
    text = _text(path)
    found: list[tuple[str, str, str]] = []
    before: dict[str, tuple[str, str]] = {}
    problems: list[str] = []
    for number, line in _logical_lines(text):
        origin = f"{path}:{number}"
        match = _LINE.fullmatch(line)
        if match is None:
            shown, *more = line.split(None, 1)
            shown = f"{shown[:_SHOWN_CHARACTERS]!r}{' ...' if more or len(shown) > _SHOWN_CHARACTERS else ''}"
            problems.append(f"{origin}: {shown} is not of the form name=value")
            continue
        name, value = match.group(1), match.group(2)
        if "${" in value:
            # Java's reader would put another value in here; taken literally it would become a directory of that name.
            problems.append(f"{origin}: {name} refers to another value ({value}): write the value itself")
        elif before.setdefault(name, (value, origin))[0] != value:
            problems.append(f"{origin}: {name} is set again, and differently ({before[name][1]}): keep one of them")
        else:
            found.append((name, value, origin))
    if problems:
        raise errors.BadInput("; ".join(problems))
    return found


def _text(path: str) -> str:
    """Return the text of the file, without a byte order mark. Raises BadInput."""
    try:
        data = given_file.read(path)
    except OSError as error:
        raise errors.BadInput(f"settings file {path} cannot be read: {error.strerror}: name the right file") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise errors.BadInput(
            f"settings file {path} is no text in UTF-8 (line {line}, byte {data[error.start]:#04x}): save it as that,"
            " or name the right file"
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise errors.BadInput(f"settings file {path} has a zero byte in line {line}: name the right file")
    return text


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, without comments and blank ones; join those that end in a backslash."""
    began, held = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not held and (not line or line[0] in "#!"):
            continue
        began = began if held else number
        if line.endswith("\\"):
            held += line[:-1].rstrip()
            continue
        yield began, held + line
        held = ""
    if held:
        yield began, held
