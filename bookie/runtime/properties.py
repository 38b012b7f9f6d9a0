"""Properties files, as Java's bk_server.conf: `name=value` lines, `#` comments."""

from pathlib import Path

from bookie.base import errors


def read(path: str) -> list[tuple[str, str, str]]:
    """Return (name, text, origin) of each line; `origin` is "file:line". Raises BadInput."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.BadInput(f"settings file {path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        name, separator, text = line.partition("=")
        if not separator:
            raise errors.BadInput(f"{path}:{number}: {line!r} is not of the form name=value")
        found.append((name.strip(), text.strip(), f"{path}:{number}"))
    return found
