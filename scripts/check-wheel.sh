#!/usr/bin/env bash
# Builds the wheel and the sdist, and tries the wheel in an empty environment: beside Airflow, with what constraints.txt lists, and nothing of this folder.
#
#   PYTHON=/path/to/python3   the Python to try it on, with its venv module; otherwise that of .venv, or python3 where there is none
#   SOURCE=.                  the folder to build from
#   DIST=dist                 the folder that gets the wheel and the sdist
#   WORK=/path/to/folder      an empty folder that keeps both environments, build and empty; otherwise they are deleted
#
# pip itself installs, so pip's configuration (index, proxy, certificates) holds. About two minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-${VENV:-.venv}/bin/python}
[ -x "$PYTHON" ] || PYTHON=$(command -v "$PYTHON" || echo python3)
"$PYTHON" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || {
    echo "$PYTHON is no Python of version 3.10 or newer with its venv module; name one: make wheel PYTHON=/path/to/python3" >&2
    exit 1
}
SOURCE=${SOURCE:-.}
DIST=${DIST:-dist}
ROOT=$PWD
if [ -z "${WORK:-}" ]; then
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
unset PYTHONPATH
export AIRFLOW_HOME=$WORK/airflow PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '== %s\n' "$*"; }

say "Building the sdist, and the wheel from it, with $("$PYTHON" --version)"
rm -rf "$DIST"
"$PYTHON" -m venv "$WORK/build"
"$WORK/build/bin/python" -m pip install --quiet --upgrade "pip>=25"
"$WORK/build/bin/python" -m pip install --quiet -c constraints.txt build
# The builder (hatchling) has the version of constraints.txt, too: another one could write other bytes.
PIP_CONSTRAINT=$ROOT/constraints.txt "$WORK/build/bin/python" -m build --outdir "$DIST" "$SOURCE" >"$WORK/build.log" 2>&1 || { cat "$WORK/build.log"; exit 1; }
WHEEL=$(cd "$DIST" && echo "$PWD"/*.whl)

say "Installing $(basename "$WHEEL") into an empty environment"
"$PYTHON" -m venv --without-pip "$WORK/empty"
pip_there() { "$WORK/build/bin/python" -m pip --python "$WORK/empty/bin/python" "$@"; }
pip_there install --quiet -c constraints.txt "$WHEEL"
pip_there check

say "Trying it"
cd "$WORK"  # where no airflow_samza lies that could be imported instead
empty/bin/python -I "$ROOT/scripts/check_wheel.py" "$WHEEL"
echo "$WHEEL"
