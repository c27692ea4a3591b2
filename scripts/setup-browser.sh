#!/usr/bin/env bash
# Makes sure that a Chromium is there for the tests that open Airflow's pages. Does nothing when one is found.
#
#   CHROMIUM=/path/to/chromium   the browser to use; otherwise chromium, google-chrome or Playwright's own is looked for
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}

found() { "$VENV/bin/python" -m demo.browser >/dev/null 2>&1; }

found && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "There is no Chromium; installing one with apt-get." >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null || true
else
    echo "There is no Chromium; Playwright fetches one." >&2
    "$VENV/bin/python" -m playwright install chromium >&2 || true
fi
# It says what is missing when neither way has worked.
"$VENV/bin/python" -m demo.browser
