"""Settings of a bookie: a properties file, then the environment, then flags; each value remembers where it came from.

A Java bookie's bk_server.conf can be given as it is: names that have no meaning here are told once and ignored, names
that ask for something unsafe are refused (`java_names`). Unknown flags are errors.
"""

import argparse
import dataclasses
import difflib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bookie.base import errors
from bookie.cli import java_names
from bookie.cli.setting_table import BY_NAME, SETTINGS, Setting, split_list
from bookie.runtime import properties

DEFAULT = "default"
MASK = "********"
_WANTED: Mapping[Callable[[str], object], str] = {int: "a whole number", float: "a number"}
_DIRECTORIES = ("journalDirectories", "ledgerDirectories", "indexDirectories")
# So short in milliseconds that seconds may be meant: what comes of it when they are.
_DOUBTED_BELOW_MS = 1_000
_IF_SECONDS_ARE_MEANT: Mapping[str, str] = {
    "zkTimeout": "no metadata store answers in so short a time",
    "gcWaitTime": "the metadata store is asked for every ledger that often",
    "openLedgerRereplicationGracePeriod": (
        "a writer that pauses for longer loses its ledger to a repair (the file that comes with Java's bookie says"
        " seconds, and is wrong)"
    ),
}


@dataclass(frozen=True, slots=True)
class Value:
    """One setting's text and where it came from: "default", a file and line, a variable, a flag."""

    setting: Setting
    text: str
    origin: str

    @property
    def is_default(self) -> bool:
        return self.origin.startswith(DEFAULT)

    @property
    def shown(self) -> str:
        """The text as people may see it."""
        return MASK if self.setting.is_secret and self.text else self.text

    def parsed(self) -> object:
        """None where nothing is said and the default is nothing. Raises BadInput."""
        if not self.text and not self.setting.default and self.setting.parse in (int, float):
            return None
        try:
            parsed = self.setting.parse(self.text)
            if isinstance(parsed, float) and not math.isfinite(parsed):
                raise ValueError("a number")
        except ValueError as error:
            raise self._refused(f"not {_WANTED.get(self.setting.parse, str(error))}") from None
        least, most = self.setting.least, self.setting.most
        if isinstance(parsed, int) and least is not None and parsed < least:
            raise self._refused(f"at least {least}")
        if isinstance(parsed, int) and most is not None and parsed > most:
            raise self._refused(f"at most {most}")
        return parsed

    def _refused(self, why: str) -> errors.BadInput:
        return errors.BadInput(f"{self.setting.key} is {self.shown!r} ({self.origin}), {why}")


@dataclass(frozen=True, slots=True)
class Settings:
    """All values of one process. `problems`: what no bookie may start with; told together with all others."""

    values: Mapping[str, Value]
    environment: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def text(self, key: str) -> str:
        return self.values[key].text

    def number(self, key: str) -> int:
        value = self.values[key].parsed()
        assert isinstance(value, int)
        return value

    def fraction(self, key: str) -> float | None:
        value = self.values[key].parsed()
        assert value is None or isinstance(value, float)
        return value

    def is_true(self, key: str) -> bool:
        return self.values[key].parsed() is True

    def names(self, key: str) -> tuple[str, ...]:
        value = self.values[key].parsed()
        assert isinstance(value, tuple)
        return value

    def optional(self, key: str) -> int | None:
        value = self.values[key].parsed()
        assert value is None or isinstance(value, int)
        return value

    def with_value(self, key: str, text: str, origin: str) -> "Settings":
        """The same, with one value derived from others."""
        value = Value(BY_NAME[key], text, origin)
        return dataclasses.replace(self, values={**self.values, key: value})

    def type_problems(self) -> list[str]:
        """One sentence for each text that is not what its setting wants, in kind or in size."""
        problems = []
        for value in self.values.values():
            try:
                value.parsed()
            except errors.BadInput as error:
                problems.append(str(error))
        return problems


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Let `parser` take a file and every setting as a flag."""
    parser.add_argument("--config", metavar="FILE", help="properties file, as Java's bk_server.conf")
    group = parser.add_argument_group("settings", "each also in the file, or as BOOKIE_... in the environment")
    for setting in SETTINGS:
        group.add_argument(setting.flag, dest=setting.key, metavar="VALUE", help=setting.help)


def load(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> Settings:
    """Put together what file, environment and flags say; later ones win. Raises BadInput for a file that cannot be."""
    environment = os.environ if environment is None else environment
    values = {setting.key: Value(setting, setting.default, DEFAULT) for setting in SETTINGS}
    if environment.get("POD_UID"):
        # In a pod an unmounted volume looks like an empty one: nothing else may be assumed there.
        values["volumeProof"] = Value(BY_NAME["volumeProof"], "kubernetes", f"{DEFAULT} where POD_UID is set")
    foreign: list[tuple[str, str, str]] = []
    path = getattr(arguments, "config", None)
    # An older name (journalDirectory) never wins over the newer one, wherever they stand.
    lines = sorted(properties.read(path), key=lambda line: line[0] in values) if path else []
    for name, text, origin in lines:
        found = BY_NAME.get(name)
        if found is None:
            foreign.append((name, text, origin))
        elif text:  # nothing after '=' is nothing said, as in Java
            values[found.key] = Value(found, text, origin)
    for setting in SETTINGS:
        if environment.get(setting.variable, "") != "":
            values[setting.key] = Value(setting, environment[setting.variable], setting.variable)
        given = getattr(arguments, setting.key, None)
        if given is not None:
            values[setting.key] = Value(setting, given, setting.flag)
    warnings, problems = _judge_foreign(foreign, str(path), is_told=not values["regeneration"].is_default)
    warnings += _doubts(values)
    return Settings(values, environment, tuple(warnings), tuple(problems))


def _doubts(values: Mapping[str, Value]) -> Iterator[str]:
    """What may well not be what was meant."""
    for key, consequence in _IF_SECONDS_ARE_MEANT.items():
        value = values[key]
        if value.text.isdecimal() and int(value.text) < _DOUBTED_BELOW_MS:
            yield f"{value.origin}: {key}={value.text} is milliseconds: {consequence}"
    if not values["tlsProviderFactoryClass"].text:
        for key in ("tlsKeyStore", "tlsTrustStore", "tlsClientAuthentication"):
            if values[key].text not in ("", "false"):
                yield f"{values[key].origin}: {key} does nothing without tlsProviderFactoryClass: nothing is encrypted"
    directories = [path for key in _DIRECTORIES for path in split_list(values[key].text)]
    shared = values["allowSharedFilesystem"]
    for path in split_list(shared.text):
        if path not in directories:
            yield f"{shared.origin}: allowSharedFilesystem names {path}, which is written like that in no other setting"


def _judge_foreign(lines: Iterable[tuple[str, str, str]], path: str, *, is_told: bool) -> tuple[list[str], list[str]]:
    """Names that are not ours: (warnings, problems). `is_told`: somebody said who may regenerate."""
    warnings, problems, ignored = [], [], []
    for name, text, origin in lines:
        refused = java_names.REFUSED.get(name)
        if refused is not None:
            reason = refused.get(text.lower())
            if reason is not None and not (is_told and name == "dataIntegrityStampMissingCookies"):
                problems.append(f"{origin}: {name}={text}: {reason}")
        elif (name, text.lower()) in java_names.HOLDS_INSTEAD:
            warnings.append(f"{origin}: {name}={text}: {java_names.HOLDS_INSTEAD[name, text.lower()]}")
        elif name in java_names.WITHOUT_MEANING:
            ignored.append(name)
        else:
            near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.85)
            hint = f"; is {near[0]} meant?" if near else ""
            warnings.append(f"{origin}: {name} is not a setting known here, ignored{hint}")
    if ignored:
        warnings.append(f"{path}: without meaning here, ignored: {', '.join(ignored)}")
    return warnings, problems
