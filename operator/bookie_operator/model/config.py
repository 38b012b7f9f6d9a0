"""Checks spec.config against the bookie's own table of settings, before the operator rolls it out.

A bookie ignores a wrong name, and a wrong value would be a crash loop, pod by pod. A problem stops the roll-out and
nothing else: the operator observes, protects and heals a running fleet as before.
"""

import re
from collections.abc import Iterator, Mapping

from bookie.base.errors import BadInput
from bookie.settings import classes, contradictions, java_names, values
from bookie.settings.table import SETTINGS
from bookie.settings.values import Settings, Value
from bookie_operator.model import reserved
from bookie_operator.model.spec import BookieClusterSpec
from bookie_operator.model.values import parse_quantity

_ORIGIN = "spec.config"
_NAME = re.compile(r"[A-Za-z0-9._]+")
# What a properties file would take for something else than a value: the end of a line, one that goes on in the next,
# a reference to another value.
_TORN = re.compile(r"[\x00-\x1f\x7f\x85\u2028\u2029]|\\$|\$\{|^\s|\s$")
_NEXT = "correct spec.config; the operator rolls nothing of it out meanwhile"


def problems(spec: BookieClusterSpec) -> tuple[str, ...]:
    """Return one sentence for each error in `spec.config`, with the setting and what to try."""
    found = [*_of_lines(spec.config or {}), *_of_security(spec)]
    if not found:
        found = list(_of_values(spec))
    return (*found, _NEXT) if found else ()


def without_meaning(spec: BookieClusterSpec) -> tuple[str, ...]:
    """Return the settings of `spec.config` and of the pools' that Java's bookies have and ours do without: they are
    taken, so that a Java fleet's settings may stay, and change nothing."""
    said = {name for config in (spec.config, *(pool.config for pool in spec.pools or ())) for name in config or ()}
    return tuple(sorted(said & java_names.WITHOUT_MEANING))


def _of_lines(config: Mapping[str, str]) -> Iterator[str]:
    for name, text in sorted(config.items()):
        if not _NAME.fullmatch(name):
            yield f"{_ORIGIN}: {name!r} cannot be the name of a setting: write letters, digits, dots and underscores"
        elif name in reserved.DENIED_CONFIG:
            yield f"{_ORIGIN}: {name} has a field of its own or belongs to the operator: remove it and use the field"
        elif _TORN.search(text):
            yield (
                f"{_ORIGIN}: the value of {name} cannot stand in a properties file: one line, no blanks around it, no"
                " backslash at its end, no ${...}"
            )
        elif not values.is_known(name):
            hint = values.meant(name)
            yield f"{_ORIGIN}: {name} is not a setting of bookies{hint or ': remove it, or look at its spelling'}"


def _of_security(spec: BookieClusterSpec) -> Iterator[str]:
    security = spec.security
    for mode, field, settings in (
        (security.tls.mode, "tls", reserved.TLS_CONFIG),
        (security.authentication.mode, "authentication", reserved.AUTHENTICATION_CONFIG),
    ):
        for name in sorted(set(settings) & set(spec.config or {})):
            if mode != "Disabled":
                yield f"{_ORIGIN}: {name} is set by spec.security.{field}, which is {mode}: remove it"


def _of_values(spec: BookieClusterSpec) -> Iterator[str]:
    ports = spec.network.ports
    own = {"bookiePort": ports.data, "adminPort": ports.admin, "metricsPort": ports.metrics}
    said = {setting.key: Value(setting, setting.default, values.DEFAULT) for setting in SETTINGS}
    lines = [(name, str(port), "spec.network.ports") for name, port in own.items()]
    if spec.repair.copy_rate is not None:
        lines.append(
            ("copyRateBytesPerSecond", str(int(parse_quantity(spec.repair.copy_rate))), "spec.repair.copyRate")
        )
    lines += [(name, text, _ORIGIN) for name, text in (spec.config or {}).items()]
    foreign = values.take(said, lines)
    _, refused = values.judge_foreign(foreign, _ORIGIN, is_told=True)
    settings = Settings(said, {})
    wrong = [*refused, *settings.type_problems()]
    yield from wrong
    if wrong:
        return
    yield from contradictions.find(settings, user="")
    yield from contradictions.of_compaction(settings)
    for key in classes.MEANINGS:
        try:
            classes.meaning(settings, key)
        except BadInput as error:
            yield str(error)
