#!/usr/bin/env bash
# Builds the wheel and the sdist, and tries the wheel in an empty environment: beside Airflow, with what constraints.txt lists, and nothing of this folder.
#
#   PYTHON=/path/to/python3   the Python to try it on; otherwise that of .venv
#   DIST=dist                 the folder that gets the wheel and the sdist
#
# pip itself installs, so pip's configuration (index, proxy, certificates) holds. About two minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-${VENV:-.venv}/bin/python}
DIST=${DIST:-dist}
ROOT=$PWD
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
unset PYTHONPATH
export AIRFLOW_HOME=$WORK/airflow PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '== %s\n' "$*"; }

new_environment() {
    "$PYTHON" -m venv "$WORK/$1"
    "$WORK/$1/bin/python" -m pip install --quiet --upgrade "pip>=25"
}

say "Building the sdist, and the wheel from it, with $("$PYTHON" --version)"
rm -rf "$DIST"
new_environment build
"$WORK/build/bin/python" -m pip install --quiet "build>=1.2"
"$WORK/build/bin/python" -m build --outdir "$DIST" . >"$WORK/build.log" || { cat "$WORK/build.log"; exit 1; }
WHEEL=$(cd "$DIST" && echo "$PWD"/*.whl)

say "Installing $(basename "$WHEEL") into an empty environment"
new_environment empty
"$WORK/empty/bin/python" -m pip install --quiet -c constraints.txt "$WHEEL"
"$WORK/empty/bin/python" -m pip check

say "Trying it"
cd "$WORK"  # where no airflow_samza lies that could be imported instead
empty/bin/python -I "$ROOT/scripts/check_wheel.py" "$WHEEL"
echo "$WHEEL"
