"""Which cluster is meant, and where its facts are kept outside the tree.

The name comes from where the checkout lies, so two checkouts never share a cluster by accident,
and a checkout finds its own again. Nothing here may start or change anything.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from pathlib import Path

import kube_cache
import kube_errors

CHECKOUT = Path(__file__).resolve().parents[2]


class Mode(enum.Enum):
    """What the environment variable CLUSTER asks for."""

    KIND = "kind"
    EXISTING = "existing"
    NONE = "none"


def mode() -> Mode:
    """Return what CLUSTER asks for; kind when it says nothing."""
    asked = os.environ.get("CLUSTER") or Mode.KIND.value
    try:
        return Mode(asked)
    except ValueError:
        known = ", ".join(member.value for member in Mode)
        raise kube_errors.ClusterError(f"CLUSTER={asked} is not known; it is one of {known}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class Home:
    """The name of a checkout's cluster and the folder of what is known about it."""

    name: str
    folder: Path

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        return self.folder / "bin" / "kubectl"

    @property
    def made_from(self) -> Path:
        """The key of what the cluster was made from; written last, so present means whole."""
        return self.folder / "made-from"

    @property
    def made_for(self) -> Path:
        """The path of the checkout whose cluster this is, as text; written before anything is started."""
        return self.folder / "made-for"

    @property
    def volumes(self) -> Path:
        """Backing files of loop-device volumes."""
        return self.folder / "volumes"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"


def abandoned() -> list[Home]:
    """Return the homes of clusters whose checkouts are gone; none of those that do not say whose they are."""
    homes = (Home(folder.name, folder) for folder in sorted((kube_cache.root() / "clusters").glob("*")))
    return [home for home in homes if home.made_for.exists() and not Path(home.made_for.read_text()).exists()]


def of(checkout: Path) -> Home:
    """Return the home of the cluster of the checkout at `checkout`."""
    name = f"bookie-{kube_cache.key(str(checkout.resolve()))[:8]}"
    return Home(name, kube_cache.root() / "clusters" / name)


def this() -> Home:
    """Return the home of this checkout's cluster."""
    return of(CHECKOUT)
