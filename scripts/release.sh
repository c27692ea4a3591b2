#!/usr/bin/env bash
# Builds a release from the commit that is checked out, into dist/: sdist, wheel, an SBOM of what the wheel installs, and checksums of the three.
#
# Nothing but the commit's files gets in, and a second build has to give the same bytes. Where the commit has a version's tag, everything
# has to be right for a release; elsewhere it is a trial that says what is missing (docs/project/releasing.md).
#
#   PYTHON=/path/to/python3   the Python to build with and to try the wheel on; otherwise that of .venv
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-${VENV:-.venv}/bin/python}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
unset PYTHONPATH

say() { printf '== %s\n' "$*"; }

say "Version, changelog, tree and tag"
"$PYTHON" scripts/release_checks.py ready

# Files in the archives get the time of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
mkdir "$WORK/source"
git archive HEAD | tar --extract --directory "$WORK/source"
PYTHON=$PYTHON SOURCE=$WORK/source DIST=dist WORK=$WORK scripts/check-wheel.sh

say "Building again: the same bytes?"
PIP_CONSTRAINT=$PWD/constraints.txt "$WORK/build/bin/python" -m build --outdir "$WORK/again" "$WORK/source" >"$WORK/again.log" 2>&1 || { cat "$WORK/again.log"; exit 1; }
for file in dist/*; do
    cmp "$file" "$WORK/again/$(basename "$file")"
done
echo "yes"

say "Metadata and contents"
"$WORK/build/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt twine cyclonedx-bom
"$WORK/build/bin/twine" check --strict dist/*
"$PYTHON" scripts/release_checks.py contents dist

say "What the wheel installs, as CycloneDX"
rm "$WORK"/empty/lib/python*/site-packages/airflow_samza-*.dist-info/direct_url.json # names a folder of this machine
NAME=$(basename dist/*.tar.gz .tar.gz)
sed "s/^dynamic = .*/version = \"${NAME##*-}\"/" pyproject.toml >"$WORK/pyproject.toml"
SBOM=dist/$NAME.cdx.json
"$WORK/build/bin/cyclonedx-py" environment --pyproject "$WORK/pyproject.toml" --mc-type library --output-reproducible --output-file "$SBOM" "$WORK/empty/bin/python"

(cd dist && sha256sum -- * >"$WORK/sums" && mv "$WORK/sums" SHA256SUMS && cat SHA256SUMS)
