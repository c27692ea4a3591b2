#!/usr/bin/env bash
# Makes sure that the servers of PostgreSQL and Redis are installed, for demo-month and the soak. Does nothing when they are.
set -euo pipefail
cd "$(dirname "$0")/.."
VENV=${VENV:-.venv}

"$VENV/bin/python" -m demo.databases >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "PostgreSQL or Redis is missing; installing them with apt-get." >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql redis-server >/dev/null || true
fi
# It says what is missing when that has not worked.
"$VENV/bin/python" -m demo.databases
