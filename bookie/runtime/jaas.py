"""Reads JAAS login configurations, where Java fleets keep the names and passwords of SASL: sections of options.

    Bookie {
      org.apache.zookeeper.server.auth.DigestLoginModule required
          user_writer="PASSWORD" user_reader="PASSWORD";
    };

Option values come back as secrets. Only the DIGEST-MD5 use of these files is known here; login modules do not run.
"""

import re

from bookie.base import errors
from bookie.base.secret import Secret
from bookie.runtime import text_file

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/)|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<mark>[{};=])|(?P<word>[^\s{};="]+)""",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


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
