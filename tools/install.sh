#!/bin/sh
# Makes .venv with everything, and installs what it needs from the system's packages where that is possible
# (root on Debian). Runs again only when pyproject.toml changed. `make install` calls it.
set -eu
cd "$(dirname "$0")/.."

want="$(cat pyproject.toml tools/install.sh | sha256sum | cut -d' ' -f1) $(pwd -P)"
[ "$(cat .venv/.installed 2>/dev/null || true)" = "$want" ] && exit 0

say() { printf 'install: %s\n' "$*" >&2; }

missing() {  # missing COMMAND PACKAGE: adds PACKAGE to what apt must bring when COMMAND is not there
  command -v "$1" >/dev/null 2>&1 || packages="$packages $2"
}

can_install() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

# Debian's own interpreter first: the image has it, and tests that are green on another one prove nothing about it.
find_python() {
  for one in /usr/bin/python3 python3.11 python3; do
    "$one" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    can_install || "$one" -c 'import ensurepip, venv' 2>/dev/null || continue
    command -v "$one"
    return
  done
}

python="$(find_python)"
packages=""
if [ -z "$python" ] || { can_install && [ ! -x /usr/bin/python3 ]; }; then packages="python3 python3-venv python3-dev"; fi
if [ -n "$python" ] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then packages="$packages python3-venv"; fi
missing java openjdk-17-jre-headless   # ZooKeeper, Spark
missing javac openjdk-17-jdk-headless  # the judge: our driver of the official Java BookKeeper
missing mvn maven
missing git git
missing gcc "gcc libc6-dev"            # the hot modules as C, for a test and the benchmarks
if [ -n "$python" ] && ! "$python" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))'; then packages="$packages python3-dev"; fi
if [ -n "$packages" ]; then
  if can_install; then
    say "system packages:$packages"
    export DEBIAN_FRONTEND=noninteractive
    mkdir -p /usr/share/man/man1  # Debian's slim images leave it out, and Java's packages fail without it
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $packages >/dev/null
  else
    say "missing here:$packages (install these, or run as root on Debian)"
    exit 1
  fi
  python="$(find_python)"
fi
[ -n "$python" ] || { say "Python 3.11 or newer is needed; /usr/bin/python3, python3.11 and python3 are older or not there"; exit 1; }

say "virtual environment in .venv (a few minutes the first time: Spark is 400 MB)"
[ "$(.venv/bin/python -V 2>/dev/null)" = "$("$python" -V)" ] || { rm -rf .venv; "$python" -m venv .venv; }
.venv/bin/python -m pip install --quiet --disable-pip-version-check --upgrade pip
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[bookie,operator,spark,dev]'
printf '%s\n' "$want" > .venv/.installed
say "done"
