#!/usr/bin/env bash
# Builds .venv with everything that the demo and the tests need, and looks for Java. Does nothing when all is up to date.
#
#   PYTHON=/path/to/python3   the Python to build .venv with; otherwise the first usable one of python3, python3.12, …
#   VENV=.venv-3.13           another folder than .venv, for another Python
#
# uv installs, in half of pip's time, from where pip's configuration says (index, certificates, proxy); pip does when uv
# cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv}
STAMP=$VENV/.set-up

say() { printf '%s\n' "$*" >&2; }

fail() {
    say "$1"
    say "  Hint: $2"
    exit 1
}

is_usable_python() {
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_usable_python "$PYTHON" || fail "PYTHON=$PYTHON is not a Python of version 3.10 or newer with its venv module." "name another one."
        echo "$PYTHON"
        return
    fi
    # A command of this name may be a version manager's placeholder that only prints an error, so each candidate is tried.
    for candidate in python3 python3.12 python3.11 python3.10 python3.13; do
        if is_usable_python "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "There is no Python of version 3.10 or newer with its venv module on the PATH." \
        "install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name it: make setup PYTHON=/path/to/python3"
}

# What .venv was made from. The folder is part of it, because a virtual environment that was moved or copied is broken.
fingerprint() {
    { pwd -P; "$VENV/bin/python" -VV; cat pyproject.toml requirements.txt; grep __version__ airflow_samza/__init__.py; } 2>/dev/null | cksum
}

build_venv() {
    if [ -e "$VENV" ] && ! "$VENV/bin/python" -c '' >/dev/null 2>&1; then
        say "The Python of $VENV is gone; building it again."
        rm -rf "$VENV"
    fi
    if [ ! -e "$VENV" ]; then
        local python
        python=$(find_python)
        say "Building $VENV with $("$python" --version) ($python)."
        "$python" -m venv "$VENV"
    fi
    "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || "$VENV/bin/python" -m ensurepip --upgrade >/dev/null
    say "Installing the $(grep -c '==' requirements.txt) packages of requirements.txt, about 1 GB: one to two minutes the first time."
    # An old pip builds packages in a way that newer Pythons no longer know.
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25"
    # Each file that comes from an index has a hash in requirements.txt; any other is rejected.
    # Modules are compiled when they are imported first; compiling all of them ahead of time takes a minute.
    install_with_uv || {
        say "uv has not installed them; pip does, in two to four minutes."
        "$VENV/bin/python" -m pip install --disable-pip-version-check --quiet --no-compile --require-hashes -r requirements.txt
    }
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -e .
}

# On a terminal uv shows what is being loaded; elsewhere it names the large files.
install_with_uv() {
    local only_uv
    only_uv=$(mktemp)
    sed -n '/^uv==/,/[^\\]$/p' requirements.txt >"$only_uv"
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$only_uv" || return
    rm "$only_uv"
    (
        while IFS='=' read -r key value; do
            value=${value#\'} value=${value%\'}
            case ${key##*.} in
                index-url) export UV_DEFAULT_INDEX=$value ;;
                extra-index-url) export UV_INDEX=$value ;;
                find-links) export UV_FIND_LINKS=$value ;;
                cert) export SSL_CERT_FILE=$value ;;
                trusted-host) export UV_INSECURE_HOST=$value ;;
                timeout | default-timeout) export UV_HTTP_TIMEOUT=$value ;;
            esac
        done < <("$VENV/bin/python" -m pip config list)
        installing=("$VENV/bin/uv" pip install --python "$VENV/bin/python" --require-hashes -r requirements.txt)
        if [ -t 2 ]; then "${installing[@]}"; else "${installing[@]}" 2>&1 | grep -v '^ + ' || [ "${PIPESTATUS[0]}" = 0 ]; fi
    ) >&2
}

java_version() {
    local java=java
    [ -z "${JAVA_HOME:-}" ] || java=$JAVA_HOME/bin/java
    "$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1
}

check_java() {
    local version
    version=$(java_version || true)
    if [ -z "$version" ] && [ -z "${JAVA_HOME:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "There is no Java; installing one with apt-get."
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless >/dev/null
        version=$(java_version || true)
    fi
    local place="there is none on the PATH"
    [ -z "${JAVA_HOME:-}" ] || place="JAVA_HOME=$JAVA_HOME has none"
    [ -n "$version" ] || fail "Spark needs Java 17 or newer, and $place." \
        "install one (Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME."
    [ "$version" -ge 17 ] || fail "Spark needs Java 17 or newer, and this one is Java $version." "install a newer one, or set JAVA_HOME to it."
}

if [ ! -e "$STAMP" ] || [ "$(cat "$STAMP")" != "$(fingerprint)" ]; then
    build_venv
    fingerprint >"$STAMP"
    say "$VENV is ready."
fi
check_java
