"""Settings of a bookie: a properties file, then the environment, then flags; each value remembers where it came from.

A Java bookie's bk_server.conf can be given as it is: names that have no meaning here are reported once and ignored,
names that ask for something unsafe are refused (`java_names`). Unknown flags are errors.
"""

import argparse
import functools
import os
from collections.abc import Iterator, Mapping, Sequence

from bookie.base import ids
from bookie.ports.tls import PROTOCOLS
from bookie.runtime import properties
from bookie.settings.table import BY_NAME, DIRECTORIES, SETTINGS, split_list
from bookie.settings.values import DEFAULT, Line, Settings, Value, default_values, judge_foreign, take

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


class SettingsFile(str):
    """The path that `--config` names."""

    @functools.cached_property
    def lines(self) -> Sequence[Line]:
        """What is in the file. It is read once a command: a pipe (`<(command)`) gives its content only once, and a file
        that is replaced meanwhile must not name one cluster, and our identity for another. Raises BadInput."""
        return properties.read(self)


def add_config(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--config", type=SettingsFile, metavar="FILE", help=text)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add a flag for the settings file and one for every setting to `parser`."""
    add_config(parser, "properties file, as Java's bk_server.conf")
    group = parser.add_argument_group("settings", "each also in the file, or as BOOKIE_... in the environment")
    for setting in SETTINGS:
        group.add_argument(setting.flag, dest=setting.key, metavar="VALUE", help=setting.help)


def load(arguments: argparse.Namespace, environment: Mapping[str, str] | None = None) -> Settings:
    """Put together the settings of file, environment and flags; later ones win. Raises BadInput for an unusable
    file."""
    environment = os.environ if environment is None else environment
    values = default_values()
    if environment.get("POD_UID"):
        # In a pod an unmounted volume looks like an empty one: nothing else may be assumed there.
        values["volumeProof"] = Value(BY_NAME["volumeProof"], "kubernetes", f"{DEFAULT} where POD_UID is set")
    file: SettingsFile | None = getattr(arguments, "config", None)
    foreign = take(values, file.lines if file else ())
    for setting in SETTINGS:
        if environment.get(setting.variable, "") != "":
            values[setting.key] = Value(setting, environment[setting.variable], setting.variable)
        # Of commands that have no flag for each setting: the one that names the cluster (`where.add_cluster`).
        named = "metadata_service_uri" if setting.key == "metadataServiceUri" else setting.key
        given = getattr(arguments, setting.key, None) or getattr(arguments, named, None)
        if given is not None:
            values[setting.key] = Value(setting, given, setting.flag)
    warnings, problems = judge_foreign(foreign, str(file), is_told=not values["regeneration"].is_default)
    warnings += _doubts(values)
    return Settings(values, environment, tuple(warnings), tuple(problems))


def _doubts(values: Mapping[str, Value]) -> Iterator[str]:
    """Return warnings about values that may not be what the person meant."""
    for key, consequence in _IF_SECONDS_ARE_MEANT.items():
        value = values[key]
        number = ids.decimal(value.text)
        if number is not None and number < _DOUBTED_BELOW_MS:
            yield f"{value.origin}: {key}={value.text} is milliseconds: {consequence}"
    if not values["tlsProviderFactoryClass"].text:
        for key in ("tlsKeyStore", "tlsTrustStore", "tlsClientAuthentication"):
            if values[key].text not in ("", "false"):
                yield f"{values[key].origin}: {key} does nothing without tlsProviderFactoryClass: nothing is encrypted"
    asked = split_list(values["tlsEnabledProtocols"].text)
    gone = [name for name in asked if name not in PROTOCOLS]
    if values["tlsProviderFactoryClass"].text and gone and len(gone) < len(asked):
        yield (
            f"{values['tlsEnabledProtocols'].origin}: tlsEnabledProtocols: {', '.join(gone)} is not spoken here, left"
            f" out; it speaks {' and '.join(name for name in PROTOCOLS if name in asked)}"
        )
    directories = [path for key in DIRECTORIES for path in split_list(values[key].text)]
    shared = values["allowSharedFilesystem"]
    for path in split_list(shared.text):
        if path not in directories:
            yield f"{shared.origin}: allowSharedFilesystem names {path}, which is written like that in no other setting"
