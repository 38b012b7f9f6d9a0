"""Values of settings: a text, where it came from, and what is wrong with it. Pure: the command line reads the files.

The operator judges a cluster's `config` by this module before any bookie gets it.
"""

import dataclasses
import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bookie.base import errors
from bookie.settings import java_names
from bookie.settings.table import BY_NAME, SETTINGS, Setting

DEFAULT = "default"
Line = tuple[str, str, str]  # name, text, where it stands
_WANTED: Mapping[Callable[[str], object], str] = {int: "a whole number", float: "a number"}


@dataclass(frozen=True, slots=True)
class Value:
    """One setting's text and where it came from: "default", a file and line, a variable, a flag."""

    setting: Setting
    text: str
    origin: str

    @property
    def is_default(self) -> bool:
        return self.origin.startswith(DEFAULT)

    def parsed(self) -> object:
        """Return the value that the text means; None where no text is given and the default is None. Raises
        BadInput."""
        if not self.text and not self.setting.default and self.setting.parse in (int, float):
            return None
        try:
            # Python reads more than Java does: 1_000, and the digits of other scripts.
            if self.setting.parse in (int, float) and (not self.text.isascii() or "_" in self.text):
                raise ValueError("a number")
            parsed = self.setting.parse(self.text)
            if isinstance(parsed, float) and not math.isfinite(parsed):
                raise ValueError("a number")
        except ValueError as error:
            raise self._refused(f"not {_WANTED.get(self.setting.parse, str(error))}") from None
        least, most = self.setting.least, self.setting.most
        if isinstance(parsed, int | float) and least is not None and parsed < least:
            raise self._refused(f"at least {least}")
        if isinstance(parsed, int | float) and most is not None and parsed > most:
            raise self._refused(f"at most {most}")
        return parsed

    def _refused(self, why: str) -> errors.BadInput:
        is_remarked = " #" in self.text
        remark = "; a remark stands on a line of its own, behind a value it belongs to that" if is_remarked else ""
        return errors.BadInput(f"{self.setting.key} is {self.text!r} ({self.origin}), {why}{remark}")

    def problem(self) -> str:
        """Return the sentence of the error that `parsed` would raise; "" when it raises none."""
        try:
            self.parsed()
        except errors.BadInput as error:
            return str(error)
        return ""


@dataclass(frozen=True, slots=True)
class Settings:
    """All values of one process. `problems`: errors with which no bookie may start; reported together with all
    others."""

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
        """Return these settings with one value added that was derived from others."""
        value = Value(BY_NAME[key], text, origin)
        return dataclasses.replace(self, values={**self.values, key: value})

    def sound(self) -> "Settings":
        """Return these settings with the default in place of each text of the wrong kind, so that a search for other
        errors can go on."""
        defaults = default_values()
        values = {key: defaults[key] if value.problem() else value for key, value in self.values.items()}
        return dataclasses.replace(self, values=values)

    def type_problems(self) -> list[str]:
        """Return one sentence for each text of the wrong kind or size."""
        return [problem for value in self.values.values() if (problem := value.problem())]


def default_values() -> dict[str, Value]:
    """Return every setting with its default."""
    return {setting.key: Value(setting, setting.default, DEFAULT) for setting in SETTINGS}


def take(values: dict[str, Value], lines: Iterable[Line]) -> list[Line]:
    """Put what `lines` say into `values`; return the lines whose names are not settings of ours."""
    foreign = []
    # An older name (journalDirectory) never wins over the newer one, wherever they stand.
    for name, text, origin in sorted(lines, key=lambda line: line[0] in values):
        found = BY_NAME.get(name)
        if found is None:
            foreign.append((name, text, origin))
        elif text:  # nothing after '=' is nothing said, as in Java
            values[found.key] = Value(found, text, origin)
    return foreign


def is_known(name: str) -> bool:
    """False for a name that is neither ours nor Java's: most often a slip."""
    return name in BY_NAME or name in java_names.REFUSED or name in java_names.WITHOUT_MEANING


def meant(name: str) -> str:
    """Return "; is X meant?" when `name` is nearly the name X of a setting; else ""."""
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.85)
    return f"; is {near[0]} meant?" if near else ""


def judge_foreign(lines: Iterable[Line], path: str, *, is_told: bool) -> tuple[list[str], list[str]]:
    """Return (warnings, problems) about the names that are not ours. `is_told`: the settings say who may regenerate."""
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
            warnings.append(f"{origin}: {name} is not a setting known here, ignored{meant(name)}")
    if ignored:
        warnings.append(f"{path}: without meaning here, ignored: {', '.join(ignored)}")
    return warnings, problems
