"""Settings of a bookie: a properties file, then the environment, then flags; each value remembers where it came from.

A Java bookie's bk_server.conf can be given as it is: names that have no meaning here are told once and ignored, names
that ask for something unsafe are refused (`java_names`). Unknown flags are errors.
"""

import argparse
import dataclasses
import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from bookie.base import errors
from bookie.cli import java_names
from bookie.cli.setting_table import BY_NAME, SETTINGS, Setting
from bookie.runtime import properties

DEFAULT = "default"
MASK = "********"
_WANTED: Mapping[Callable[[str], object], str] = {int: "a whole number", float: "a number"}
# No writer is given up so soon.
_GRACE_DOUBTED_MS = 1_000


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
        """None where nothing is said and the default is nothing."""
        if not self.text and not self.setting.default and self.setting.parse in (int, float):
            return None
        try:
            return self.setting.parse(self.text)
        except ValueError as error:
            wanted = _WANTED.get(self.setting.parse, str(error))
            raise errors.BadInput(f"{self.setting.key} is {self.shown!r} ({self.origin}), not {wanted}") from None


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
        """One sentence for each text that is not what its setting wants."""
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
    grace = values["openLedgerRereplicationGracePeriod"]
    if grace.text.isdigit() and int(grace.text) < _GRACE_DOUBTED_MS:
        yield (
            f"{grace.origin}: {grace.setting.key}={grace.text} is milliseconds (the file that comes with Java's bookie"
            " says seconds, and is wrong): a writer that pauses for longer loses its ledger to a repair"
        )


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
