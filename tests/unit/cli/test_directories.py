"""Directories that can never be a bookie's are refused by what the system says of them, before anything is begun."""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.cli import directories
from bookie.runtime import place
from bookie.runtime.place import PathFacts
from settings_support import NEEDED, build, load


def problems(folder: Path, seen: dict[str, PathFacts] | None = None, **changed: str) -> list[str]:
    """What is told of three directories below `folder` ("@"), or others. `seen`: not as they really are, but so."""
    values = {"journalDirectories": "@/j", "ledgerDirectories": "@/l", "indexDirectories": "@/i", **changed}
    text = "".join(f"{name}={value}\n" for name, value in values.items()).replace("@", str(folder))

    def look(path: str) -> PathFacts:
        return (seen or {}).get(path) or place.look(path, inside="current", lock="LOCK")

    before = sorted(folder.rglob("*"))
    found = list(directories.problems(load(text, folder=folder), look, "bookie"))
    assert [path for path in sorted(folder.rglob("*")) if path not in before] == [folder / "bk.conf"]
    return found


def make_file(path: Path) -> None:
    path.write_text("in the way", encoding="utf-8")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def make_with_a_file_inside(path: Path) -> None:
    path.mkdir()
    (path / "current").write_text("in the way")


@pytest.mark.parametrize(
    ("make", "path", "reason"),
    [
        (make_file, "@/l", "can be no directory (Not a directory): move what is in the way"),
        (make_file, "@/l/below", "can be no directory (Not a directory): move what is in the way"),
        (make_with_a_file_inside, "@/l", "can be no directory (Not a directory): move what is in the way"),
        (make_loop, "@/l", "can be no directory (Too many levels of symbolic links)"),
        (make_dangling, "@/l", "goes by the link @/l, whose target is not there: mount or make it"),
        (make_dangling, "@/l/below", "goes by the link @/l, whose target is not there: mount or make it"),
        (None, f"@/{'x' * 300}", "can be no directory (File name too long)"),
        (None, "/proc/bookie", "is on proc, a file system that keeps no files: name a directory on a disk"),
        (None, "/proc", "is on proc, a file system that keeps no files"),
        (None, "/sys/bookie", "is on sysfs, a file system that keeps no files"),
        (None, "/dev/null", "can be no directory (Not a directory)"),
        (None, "/", "is the root of the file system: name a directory of its own"),
        (None, "ledgers", "is not an absolute path: write it in full"),
        (None, "~/ledgers", "is not an absolute path: write it in full"),
    ],
)
def test_what_can_be_no_directory_is_told_with_its_setting(
    tmp_path: Path, make: Callable[[Path], None] | None, path: str, reason: str
) -> None:
    if make is not None:
        make(tmp_path / "l")

    (said,) = problems(tmp_path, ledgerDirectories=path)

    named, expected = path.replace("@", str(tmp_path)), reason.replace("@", str(tmp_path))
    assert said.startswith(f"ledgerDirectories {named} ({tmp_path}/bk.conf:2) {expected}")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (PathFacts("/r", is_read_only=True), "is on a file system that is mounted read-only: look at its disk"),
        (
            PathFacts("/r/x", is_there=False, above="/r", is_read_only=True),
            "is not there, and /r is on a file system that is",
        ),
        (PathFacts("/r", above="/r", denied="/r/current/LOCK"), "may not write to /r/current/LOCK: chown -R"),
        (
            PathFacts("/r/x", is_there=False, above="/r", denied="/r"),
            "user 'bookie' may not make it in /r: mount its volume",
        ),
        (PathFacts("/r", is_there=False, denied="/r"), "may not write to /r"),
        (PathFacts("/r", is_there=False, leads_nowhere="/l"), "whose target is not there"),
    ],
)
def test_what_is_not_ours_to_write_is_told_unless_it_may_be_a_volume_that_is_not_mounted_yet(
    tmp_path: Path, facts: PathFacts, reason: str
) -> None:
    seen = {f"{tmp_path}/l": facts}

    (tmp_path / "pod").mkdir()

    (said,) = problems(tmp_path, seen)

    assert reason in said
    assert problems(tmp_path / "pod", seen, volumeProof="kubernetes", ledgerDirectories=f"{tmp_path}/l") == []


@contextlib.contextmanager
def as_a_user() -> Iterator[None]:
    """Root may do everything: look as somebody else does."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("closed", "denied"),
    [((), ""), ((".",), "."), (("current",), "current"), (("current/LOCK",), "current/LOCK")],
)
def test_what_somebody_else_keeps_to_himself_is_seen(closed: tuple[str, ...], denied: str) -> None:
    """As after a first start by root: the directory is this user's, the files in it are not."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "current").mkdir()
        (folder / "current" / "LOCK").touch()
        for path in (folder, folder / "current", folder / "current" / "LOCK"):
            path.chmod(0o777)
        for name in closed:
            (folder / name).chmod(0o555 if (folder / name).is_dir() else 0o444)

        with as_a_user():
            seen = place.look(str(folder), inside="current", lock="LOCK")
            below = place.look(f"{folder}/below/it", inside="current", lock="LOCK")

        assert seen == PathFacts(str(folder), above=str(folder), denied=str(folder / denied) if denied else "")
        assert (below.is_there, below.above) == (False, str(folder))
        assert below.denied == (str(folder) if denied == "." else "")
        folder.chmod(0o777)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"ledgerDirectories": "@/l,@/l"},
            "ledgerDirectories @/l (@/bk.conf:2) is the same directory as @/l: name each",
        ),
        ({"ledgerDirectories": "@/l,@/l/"}, "ledgerDirectories @/l/ (@/bk.conf:2) is the same directory as @/l: name"),
        ({"ledgerDirectories": "@/l,@/a/../l"}, "@/a/../l (@/bk.conf:2) is the same directory as @/l: name each once"),
        ({"ledgerDirectories": "@/l,@/link"}, "@/link (@/bk.conf:2) is the same directory as @/l: name each once"),
        (
            {"journalDirectories": "@/link"},
            "is the same directory as journalDirectories @/link (@/bk.conf:1): write both",
        ),
        ({"indexDirectories": "@/l/"}, "is the same directory as ledgerDirectories @/l (@/bk.conf:2): write both the"),
        ({"ledgerDirectories": "@/j/current"}, "is inside journalDirectories @/j (@/bk.conf:1), among the files it"),
        ({"journalDirectories": "@/l/current/x"}, "is inside ledgerDirectories @/l (@/bk.conf:2), among the files it"),
    ],
)
def test_two_that_are_one_are_told(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    (tmp_path / "l").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "l")

    (said,) = problems(tmp_path, **changed)

    assert told.replace("@", str(tmp_path)) in said


@pytest.mark.parametrize(
    "changed",
    [
        {"journalDirectories": "@/l"},  # two duties, one name: one directory with both
        {"indexDirectories": "@/l"},
        {"ledgerDirectories": "@/disk-1/ledgers,@/disk-2/ledgers", "indexDirectories": ""},
        {"ledgerDirectories": "@/j/ledgers"},  # beside `current`
        {"ledgerDirectories": "@/link"},
    ],
)
def test_what_is_not_there_yet_and_can_be_made_is_fine(tmp_path: Path, changed: dict[str, str]) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")

    assert problems(tmp_path, **changed) == []


def test_a_directory_is_held_while_somebody_has_its_lock(tmp_path: Path) -> None:
    lock = tmp_path / "current" / "LOCK"
    lock.parent.mkdir()
    loaded = load(f"journalDirectories=/j\nledgerDirectories={tmp_path}\n", folder=tmp_path)

    def held() -> str:
        return directories.held(loaded, lambda path: place.look(path, inside="current", lock="LOCK"))

    assert held() == ""
    with lock.open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        assert held().startswith(f"held by another process: ledgerDirectories {tmp_path} ({tmp_path}/bk.conf:2); one")
        fcntl.flock(owner, fcntl.LOCK_SH)  # who only asks holds nobody off
        assert held() == ""
    assert held() == ""


def test_wrong_directories_are_told_with_all_other_problems(tmp_path: Path) -> None:
    text = NEEDED.replace("/a,/b", "/a,/a") + "minorCompactionThreshold=0.9\nadminPort=3181\n"

    with pytest.raises(errors.BadInput) as caught:
        build(load(text, folder=tmp_path))

    for part in ("is the same directory as /a", "minorCompactionThreshold must be less", "are both 3181"):
        assert part in str(caught.value)
