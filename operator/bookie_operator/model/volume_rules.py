"""CEL rules about volumes: of spec.storage, of each pool's, and at the root those that look at the status besides."""

from collections.abc import Callable

from bookie_operator.model.cel import CelRule
from bookie_operator.model.reserved import RESERVED_VOLUMES

# At the root, because there alone a rule sees the status: a growth that Kubernetes cannot do is taken back in the spec,
# as far as no claim has got that size already (spec/operator.md#X1).
_REBUILT = "{storage}.layoutChange == 'RollingRebuild'"
_SIZES = {
    role: CelRule(
        f"self.spec.storage.{role}.volumes.all(n,"
        f" !isQuantity(n.size) || oldSelf.spec.storage.{role}.volumes.all(o, o.name != n.name"
        " || !quantity(n.size).isLessThan(quantity(o.size)))"
        " || (has(self.status) && has(self.status.expansion) && has(self.status.expansion.volumes)"
        " && self.status.expansion.volumes.exists(v, v.name == n.name"
        " && !quantity(n.size).isLessThan(quantity(v.size)))))"
        f" || {_REBUILT.format(storage='self.spec.storage')}",
        f"spec.storage.{role}.volumes: a size cannot be lowered, since no volume can shrink: keep it (while volumes"
        " expand, it may be set back to what status.expansion.volumes says), or set spec.storage.layoutChange:"
        " RollingRebuild, which moves the data of one bookie after the other",
        field=f".spec.storage.{role}",
        reason="FieldValueForbidden",
    )
    for role in ("journal", "ledgers", "index")
}

# The same of pools with volumes of their own. Pools are few and `_POOLS_ROW` is outermost: the API server's estimate of
# the cost is the product of all bounds.
_POOLS_ROW = "!has(self.spec.pools) || !has(oldSelf.spec.pools) || self.spec.pools.all(p, !has(p.storage){has}"


def _of_all(role: str, cel: str, message: str) -> CelRule:
    """Return a rule at the root about the volumes of a role."""
    return CelRule(
        cel,
        f"spec.storage.{role}.volumes: {message}",
        field=f".spec.storage.{role}",
        reason="FieldValueForbidden",
    )


def _of_pools(role: str, cel: str, message: str) -> CelRule:
    """Return the same about the volumes that pool `p` has of its own; `cel`: compares them with those that it had,
    `o`."""
    has = f" || !has(p.storage.{role})" if role == "index" else ""
    had = f" || !has(o.storage.{role})" if role == "index" else ""
    return CelRule(
        f"{_POOLS_ROW.format(has=has)} || oldSelf.spec.pools.all(o, o.name != p.name || !has(o.storage){had}"
        f" || {cel}))",
        f"spec.pools[].storage.{role}.volumes: {message}",
        field=".spec.pools",
        reason="FieldValueForbidden",
    )


def _pool_sizes(role: str) -> CelRule:
    return _of_pools(
        role,
        f"p.storage.{role}.volumes.all(n, !isQuantity(n.size)"
        f" || o.storage.{role}.volumes.all(m, m.name != n.name || !quantity(n.size).isLessThan(quantity(m.size)))"
        " || (has(self.status) && has(self.status.expansion) && has(self.status.expansion.volumes)"
        " && self.status.expansion.volumes.exists(v, v.name == n.name"
        " && !quantity(n.size).isLessThan(quantity(v.size)))))",
        "a size cannot be lowered, since no volume can shrink: keep it (while"
        " volumes expand, it may be set back to what status.expansion.volumes says)",
    )


# A bookie refuses directories in another order than its cookie has them. At the root, for the way back of a fleet that
# is in the midst of it (releases before took such an edit): nobody is stopped for it any more once it was refused.
_IS_UNDER_WAY = (
    "(has(self.status) && ((has(self.status.heldBookies) && self.status.heldBookies > 0)"
    " || (has(self.status.rollout) && has(self.status.rollout.changed)"
    " && self.status.rollout.changed.exists(c, c == 'spec.storage.{role}.volumes'))))"
)
_ORDER = (
    "the order of volumes cannot change, since each bookie's cookie has it, and a bookie that finds another one holds"
    " itself: put them in the order that they had"
)


# How many volumes of a role a bookie may have (model/storage.py).
VOLUMES_MAX = {"journal": 4, "ledgers": 16, "index": 4}


def _keeps_order(role: str, new: str, old: str) -> str:
    """Return the CEL of: the volumes of one list are the first of the other's, in the same order. Place by place: the
    API server's estimate of whatever makes another list of a list is far beyond its limits."""
    places = list(range(VOLUMES_MAX[role]))
    return f"{places}.all(i, i >= {new}.size() || i >= {old}.size() || {new}[i].name == {old}[i].name)"


def _has_none_added(storage: str) -> str:
    return f"!{storage}.volumes.exists(v, has(v.added))"


_IS_TAKEN = (
    "(has(self.status) && has(self.status.addedVolumes) && self.status.addedVolumes.exists(name, name == v.name))"
)
_TAKEN = (
    "an added volume cannot be taken back any more, since a bookie may have data on it (status.addedVolumes): put it"
    " back as it was"
)


def _gives_back(role: str) -> CelRule:
    return _of_all(
        role,
        f"oldSelf.spec.storage.{role}.volumes.all(v, self.spec.storage.{role}.volumes.exists(n, n.name == v.name)"
        f" || !{_IS_TAKEN})",
        _TAKEN,
    )


def _pool_gives_back(role: str) -> CelRule:
    return _of_pools(
        role,
        f"o.storage.{role}.volumes.all(v, p.storage.{role}.volumes.exists(n, n.name == v.name) || !{_IS_TAKEN})",
        _TAKEN,
    )


def _in_order(role: str, new: str, old: str) -> str:
    """Return the CEL of: the order of volumes is kept, or put back. `new`, `old`: the storage of both."""
    kept = _keeps_order(role, f"{new}.{role}.volumes", f"{old}.{role}.volumes")
    is_put_back = f"{_IS_UNDER_WAY.format(role=role)} && {_has_none_added(f'{new}.{role}')}"
    return f"{kept} || ({is_put_back} && {_has_none_added(f'{old}.{role}')})"


def _order(role: str) -> CelRule:
    return _of_all(role, _in_order(role, "self.spec.storage", "oldSelf.spec.storage"), _ORDER)


def _pool_order(role: str) -> CelRule:
    return _of_pools(role, _in_order(role, "p.storage", "o.storage"), _ORDER)


# Those that stand at the root (`rules.ROOT`).
AT_ROOT = (
    *(_SIZES[role] for role in ("journal", "ledgers", "index")),
    *(_pool_sizes(role) for role in ("journal", "ledgers", "index")),
    *(_order(role) for role in ("journal", "ledgers", "index")),
    *(_pool_order(role) for role in ("journal", "ledgers", "index")),
    *(_gives_back(role) for role in ("ledgers", "index")),
    *(_pool_gives_back(role) for role in ("ledgers", "index")),
)

_FIXED = (
    "cannot change so (names and kind are fixed at creation, and so is their number, but for ledger volumes, with their"
    " indexes, that are added at the end with `added: true`; sizes may grow; class and access mode change by name, with"
    " spec.storage.layoutChange: RollingRebuild, which moves the data of one bookie after the other): set that, or make"
    " a pool (spec.pools) with the volumes that you want, then set the replicas of the old pools to 0"
)


def _is_kept(field: str) -> str:
    """Return the CEL that lets a field of a volume be as it was."""
    return f"(has(n.{field}) == has(o.{field}) && (!has(n.{field}) || n.{field} == o.{field}))"


def _is_kept_or_named(field: str) -> str:
    """Return the same; or another one that is named, where bookies are rebuilt. What is not named is the cluster's
    default, which no claim can be compared with."""
    return f"({_is_kept(field)} || (has(n.{field}) && {_REBUILT.format(storage='self')}))"


def _is_same_layout(role: str, is_kept: Callable[[str], str] = _is_kept) -> str:
    """Return the CEL of: no volume comes or goes but those that are added (where: `_keeps_order`; which may go:
    `_gives_back`), and none changes."""
    return (
        f"self.{role}.volumes.all(n, has(n.added) || oldSelf.{role}.volumes.exists(o, o.name == n.name))"
        f" && oldSelf.{role}.volumes.all(o,"
        f" (has(o.added) && !self.{role}.volumes.exists(n, n.name == o.name))"
        f" || self.{role}.volumes.exists(n, n.name == o.name"
        " && (has(n.kind) ? n.kind : 'Claim') == (has(o.kind) ? o.kind : 'Claim')"
        f" && {_is_kept('added')} && {is_kept('storageClassName')} && {is_kept('accessMode')}))"
    )


_IS_EPHEMERAL = "has(v.kind) && v.kind == 'Ephemeral'"


def _all_or_none_ephemeral(index: str) -> str:
    """Return the CEL of: all volumes of a bookie go with its pod, or none does. `index`: the guard of its index."""
    lists = (("journal", ""), ("ledgers", ""), ("index", index))
    all_of = " && ".join(f"({guard}self.{role}.volumes.all(v, {_IS_EPHEMERAL}))" for role, guard in lists)
    none_of = " && ".join(f"({guard}!self.{role}.volumes.exists(v, {_IS_EPHEMERAL}))" for role, guard in lists)
    return f"({all_of}) || ({none_of})"


def _plain_ephemeral(index: str) -> str:
    """Return the CEL of: what goes with the pod has nothing that only claims have."""
    lists = (("journal", ""), ("ledgers", ""), ("index", index))
    return " && ".join(
        f"({guard}self.{role}.volumes.all(v, !({_IS_EPHEMERAL})"
        " || (!has(v.storageClassName) && !has(v.accessMode) && !has(v.allowSharedFilesystem) && !has(v.added))))"
        for role, guard in lists
    )


_ALL_OR_NONE = (
    "of one bookie are in part of kind Ephemeral: what goes with the pod would be lost at each stop, and the rest kept"
    " for nothing. Set kind: Ephemeral for all volumes, or for none"
)
_PLAIN = (
    "have a volume of kind Ephemeral with storageClassName, accessMode, allowSharedFilesystem or added, which only"
    " claims have: leave them out"
)

_ADDED_JOURNAL = "a volume is added, and bookies that live get further ledger and index volumes only: leave it out"

STORAGE = (
    CelRule(
        _all_or_none_ephemeral(""),
        f"spec.storage: the volumes {_ALL_OR_NONE}",
        name="ephemeralInPart",
    ),
    CelRule(_plain_ephemeral(""), f"spec.storage: the volumes {_PLAIN}", name="ephemeralClaim"),
    CelRule(
        "self.journal.volumes.all(v, !has(v.added))",
        f"spec.storage.journal.volumes: {_ADDED_JOURNAL}",
        field=".journal",
        name="addedJournal",
    ),
    CelRule(
        "self.index.volumes.size() == 0 || self.index.volumes.size() == self.ledgers.volumes.size()",
        "spec.storage.index.volumes must be none, or as many as spec.storage.ledgers.volumes: each has an index of"
        " its own",
        field=".index",
        name="indexVolumes",
    ),
    CelRule(
        "self.journal.volumes.all(j, !self.ledgers.volumes.exists(l, l.name == j.name)"
        " && !self.index.volumes.exists(i, i.name == j.name))"
        " && self.ledgers.volumes.all(l, !self.index.volumes.exists(i, i.name == l.name))",
        "spec.storage: a volume name is used in two roles, and claims are named after volumes: give each its own name",
        name="volumeNames",
    ),
    CelRule(
        # One by one: to the API server the three lists are of three types, and no list holds them together.
        " && ".join(
            f"self.{role}.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}'))"
            for role in ("journal", "ledgers", "index")
        ),
        f"spec.storage: a volume's name begins with {RESERVED_VOLUMES}, as the operator's own volumes in the pod do:"
        " choose another name",
        name="reservedVolumes",
    ),
    *(
        CelRule(
            _is_same_layout(role, _is_kept_or_named),
            f"spec.storage.{role}.volumes {_FIXED}",
            field=f".{role}",
            reason="FieldValueForbidden",
        )
        for role in ("journal", "ledgers", "index")
    ),
)

POOL_STORAGE = (
    CelRule(
        _all_or_none_ephemeral("!has(self.index) || "),
        f"spec.pools[].storage: the volumes {_ALL_OR_NONE}",
        name="poolEphemeralInPart",
    ),
    CelRule(
        _plain_ephemeral("!has(self.index) || "),
        f"spec.pools[].storage: the volumes {_PLAIN}",
        name="poolEphemeralClaim",
    ),
    CelRule(
        "self.journal.volumes.all(v, !has(v.added))",
        f"spec.pools[].storage.journal.volumes: {_ADDED_JOURNAL}",
        field=".journal",
        name="poolAddedJournal",
    ),
    CelRule(
        "!has(self.index) || self.index.volumes.size() == self.ledgers.volumes.size()",
        "spec.pools[].storage.index.volumes must be as many as its ledgers.volumes, or index must be absent: each has"
        " an index of its own",
        field=".index",
        name="poolIndexVolumes",
    ),
    CelRule(
        "self.journal.volumes.all(j, !self.ledgers.volumes.exists(l, l.name == j.name)"
        " && (!has(self.index) || !self.index.volumes.exists(i, i.name == j.name)))"
        " && (!has(self.index) || self.ledgers.volumes.all(l, !self.index.volumes.exists(i, i.name == l.name)))",
        "spec.pools[].storage: a volume name is used in two roles, and claims are named after volumes: give each its"
        " own name",
        name="poolVolumeNames",
    ),
    CelRule(
        " && ".join(
            f"({guard}self.{role}.volumes.all(v, !v.name.startsWith('{RESERVED_VOLUMES}')))"
            for role, guard in (("journal", ""), ("ledgers", ""), ("index", "!has(self.index) || "))
        ),
        f"spec.pools[].storage: a volume's name begins with {RESERVED_VOLUMES}, as the operator's own volumes in the"
        " pod do: choose another name",
        name="poolReservedVolumes",
    ),
    *(
        CelRule(
            guard + _is_same_layout(role) + ("))" if guard else ""),
            f"spec.pools[].storage.{role}.volumes cannot change (class and names are fixed at creation, and so is"
            " their number, but for ledger volumes, with their indexes, that are added at the end with `added: true`;"
            " sizes may grow): make another pool, then set the replicas of this one to 0",
            field=f".{role}",
            reason="FieldValueForbidden",
        )
        for role, guard in (
            ("journal", ""),
            ("ledgers", ""),
            ("index", "has(self.index) == has(oldSelf.index) && (!has(self.index) || ("),
        )
    ),
)
