#!/usr/bin/env bash
# Writes the versions of all dependencies, for every supported Python and platform, into three files that say the same:
#
#   constraints.txt           all extras, for pip install -c
#   requirements.txt          what make setup installs, with hashes
#   docker/requirements.txt   what the image installs, with hashes
#
#   UPGRADE=--upgrade         take the newest versions that fit, not those that constraints.txt has
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${VENV:-.venv}/bin/python

compile() {
    "$(dirname "$PYTHON")/uv" pip compile pyproject.toml "$@" --universal --python-version 3.10 \
        --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
}
compile --all-extras ${UPGRADE:+"$UPGRADE"} --output-file constraints.txt
# Written anew, and not into the former file: uv would keep hashes of files that have been withdrawn.
rm -f requirements.txt docker/requirements.txt
compile --extra dev --constraints constraints.txt --generate-hashes --output-file requirements.txt
compile docker/requirements.in --extra avro --extra s3 --extra kafka \
    --constraints constraints.txt --generate-hashes --output-file docker/requirements.txt
