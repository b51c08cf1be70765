#!/usr/bin/env bash
#
# Bring what this machine needs from its package manager, and nothing else.
#
#     tools/setup.sh python java             what `make demo` needs
#     tools/setup.sh python java postgres    what `make test` needs
#
# Whatever is there already is left alone. Whatever is missing is installed by apt when this runs as
# root on Debian or Ubuntu; otherwise one list says what is missing and how to get it, and the exit
# code is 1. PYTHON names the interpreter (python3).
set -euo pipefail

PYTHON=${PYTHON:-python3}
PG_VERSION=15
PG_LIB=/usr/lib/postgresql/$PG_VERSION
CLUSTER_CONF=/etc/postgresql-common/createcluster.d/pgsluice-setup.conf

# --- one check per part: silent, true when it is there -----------------------------------------

has_python() { "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
has_venv() { "$PYTHON" -c 'import ensurepip, venv' 2>/dev/null; }
has_postgres() { [ -x "$PG_LIB/bin/postgres" ]; }
has_wal2json() { [ -e "$PG_LIB/lib/wal2json.so" ]; }

has_java() {
  local java=java version
  [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java # the order in which Spark looks
  version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1) || return 1
  [ "${version:-0}" -ge 17 ]
}

# --- part -> Debian package, and what to say when it can't be had ---------------------------------

parts_of() {
  case $1 in
    python) echo python venv ;;
    java) echo java ;;
    postgres) echo postgres wal2json ;;
    *) echo "tools/setup.sh: unknown part $1 (python, java, postgres)" >&2 && return 2 ;;
  esac
}

package_of() {
  case $1 in
    python) echo python3 ;;
    venv) "$PYTHON" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])' 2>/dev/null || echo python3-venv ;;
    java) echo openjdk-17-jre-headless ;;
    postgres) echo postgresql-$PG_VERSION ;;
    wal2json) echo postgresql-$PG_VERSION-wal2json ;;
  esac
}

describe() {
  case $1 in
    python) echo "Python 3.11 or newer as '$PYTHON' (name another one with PYTHON=...)" ;;
    venv) echo "the venv and ensurepip modules of '$PYTHON'" ;;
    java) echo "Java 17 or newer, on the PATH or in JAVA_HOME${JAVA_HOME:+ (now $JAVA_HOME)}" ;;
    postgres) echo "the PostgreSQL $PG_VERSION server, in $PG_LIB" ;;
    wal2json) echo "wal2json for PostgreSQL $PG_VERSION, the output plugin some tests compare with" ;;
  esac
}

missing_of() {
  local part
  for part in "$@"; do "has_$part" || echo "$part"; done
}

# --- installing ---------------------------------------------------------------------------------

# Debian's server package makes and starts a cluster when it is installed. The tests make their own,
# so where no PostgreSQL was configured before, none is made; the setting goes away again afterwards.
prevent_main_cluster() {
  [ ! -e /etc/postgresql-common ] || return 0
  trap 'rm -f "$CLUSTER_CONF"' EXIT
  mkdir -p "${CLUSTER_CONF%/*}"
  echo "create_main_cluster = false" >"$CLUSTER_CONF"
}

install_packages() {
  local apt=(apt-get -qq -y -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0)
  export DEBIAN_FRONTEND=noninteractive
  echo "Installing by apt: $*"
  prevent_main_cluster
  quietly "${apt[@]}" update && quietly "${apt[@]}" install --no-install-recommends "$@"
}

# What a command prints is worth reading only when it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || { echo "$output" >&2 && return 1; }
}

explain() {
  local part
  {
    echo
    echo "This machine lacks:"
    for part in "$@"; do echo "  - $(describe "$part")"; done
    echo
    echo "On Debian or Ubuntu:"
    echo "  sudo apt-get install --no-install-recommends $(packages_of "$@")"
    echo "Elsewhere install them by the system's own means; then run make again."
  } >&2
}

packages_of() {
  local part names=()
  for part in "$@"; do names+=("$(package_of "$part")"); done
  echo "${names[*]}"
}

main() {
  local part parts=() missing
  for part in "$@"; do
    # shellcheck disable=SC2207 # words without spaces
    parts+=($(parts_of "$part"))
  done
  missing=$(missing_of "${parts[@]}")
  [ -n "$missing" ] || return 0

  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    # shellcheck disable=SC2046,SC2086 # words without spaces
    install_packages $(packages_of $missing) || echo "apt could not install everything" >&2
    missing=$(missing_of "${parts[@]}")
    [ -n "$missing" ] || return 0
  fi
  # shellcheck disable=SC2086
  explain $missing
  return 1
}

main "$@"
