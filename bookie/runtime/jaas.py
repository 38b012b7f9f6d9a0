"""Reads JAAS login configurations, where Java fleets keep the names and passwords of SASL: sections of options.

    Bookie {
      org.apache.zookeeper.server.auth.DigestLoginModule required
          user_writer="PASSWORD" user_reader="PASSWORD";
    };

Option values come back as secrets. Only the DIGEST-MD5 use of these files is known here; login modules do not run.
"""

import logging
import re
from collections.abc import Iterator, Mapping

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.runtime import text_file

log = logging.getLogger(__name__)

_USER_PREFIX = "user_"
_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<mark>[{};=])|(?P<word>[^\s{};="]+)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class Users(Mapping[str, Secret]):
    """The passwords of users, by name, as the file has them at each look: nobody restarts for a new user.

    Each look at a user looks whether the file has changed (a `stat`, beside a proof of identity). A file that cannot be
    read, such as a half-written one, is reported once, and the former users stay.
    """

    def __init__(self, path: str, section: str) -> None:
        """Raises BadInput naming the file."""
        self._path, self._section = path, section
        self._stamp = text_file.stamp(path)
        self._users = _users(path, section)

    def __getitem__(self, name: str) -> Secret:
        return self._newest()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._newest())

    def __len__(self) -> int:
        return len(self._newest())

    def __repr__(self) -> str:
        return f"Users({self._path})"

    def _newest(self) -> dict[str, Secret]:
        stamp = text_file.stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._users = _users(self._path, self._section)
            except errors.BadInput as error:
                log.warning("new users cannot be read, the former stay reason=%s", error)
            else:
                log.info("users read anew file=%s users=%d", self._path, len(self._users))
        return self._users


def _users(path: str, section: str) -> dict[str, Secret]:
    options = read_section(path, section)
    found = {
        name.removeprefix(_USER_PREFIX): password for name, password in options.items() if name.startswith(_USER_PREFIX)
    }
    if not found:
        raise errors.BadInput(f'{path}: section {section} has no user: write user_NAME="PASSWORD"')
    return found


def read_section(path: str, section: str, *, must_exist: bool = True) -> dict[str, Secret]:
    """Return all options in the section, of all its login modules. Raises BadInput naming the file and the place.

    Without `must_exist`, a missing section has no options.
    """
    sections = _parse(text_file.read(path), path)
    if section not in sections and not must_exist:
        return {}
    if section not in sections:
        known = ", ".join(sections) or "none"
        raise errors.BadInput(f"{path} has no section {section}; there are: {known}")
    return sections[section]


def _parse(text: str, path: str) -> dict[str, dict[str, Secret]]:
    tokens = list(_tokens(text, path))
    sections: dict[str, dict[str, Secret]] = {}
    at = 0
    while at < len(tokens):
        if tokens[at + 1 : at + 2] != ["{"]:
            raise errors.BadInput(f"{path}: after the section {tokens[at]} comes no '{{'")
        options = sections[tokens[at]] = {}
        at += 2
        while at < len(tokens) and tokens[at] != "}":
            if tokens[at + 1 : at + 2] == ["="] and at + 2 < len(tokens):
                options[tokens[at]] = Secret(tokens[at + 2])
                at += 2
            at += 1  # class names, control flags and ';' between modules say nothing to us
        if tokens[at : at + 1] != ["}"]:
            raise errors.BadInput(f"{path}: a section is not closed by '}}'")
        at += 1
        if tokens[at : at + 1] == [";"]:
            at += 1
    return sections


def _tokens(text: str, path: str) -> list[str]:
    found = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise errors.BadInput(f"{path}: line {text.count(chr(10), 0, at) + 1} cannot be read (an open quote?)")
        at = match.end()
        if match["text"] is not None:
            found.append(_ESCAPED.sub(r"\1", match["text"]))
        elif match["skip"] is None:
            found.append(match["mark"] or match["word"])
    return found
