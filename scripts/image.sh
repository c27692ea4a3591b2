#!/usr/bin/env bash
# Builds the image of docker/Dockerfile with the container engine that answers, Docker or Podman.
#
#   IMAGE=airflow-samza   its name
set -euo pipefail
cd "$(dirname "$0")/.."
IMAGE=${IMAGE:-airflow-samza}

for engine in docker podman; do
    if command -v "$engine" >/dev/null && "$engine" info >/dev/null 2>&1; then
        exec "$engine" build --file docker/Dockerfile --tag "$IMAGE" .
    fi
done
echo "No container engine answers here (docker info, podman info): start Docker or Podman, then make image builds $IMAGE." >&2
exit 1
