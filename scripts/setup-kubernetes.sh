#!/usr/bin/env bash
# Makes sure that what `make kubernetes` starts is there: containerd, and one program with all parts of a Kubernetes.
# Does nothing when they are, and with --look only says what is missing. The program is built from Go's modules once a machine: eight minutes on two free cores.
set -euo pipefail
cd "$(dirname "$0")/.."
VERSION=1.34.3
PLACE=${KUBERNETES_PLACE:-${XDG_CACHE_HOME:-$HOME/.cache}/airflow-samza/kubernetes-$VERSION}

[ "$(id -u)" = 0 ] || { echo "A node of Kubernetes needs the user root: namespaces, mounts and control groups." >&2; exit 1; }
missing=()
for pair in containerd:containerd runc:runc iptables:iptables conntrack:conntrack; do
    command -v "${pair%:*}" >/dev/null || missing+=("${pair#*:}")
done
[ -x /usr/lib/cni/bridge ] || missing+=(containernetworking-plugins)
if [ "${1:-}" = --look ]; then
    [ -x "$PLACE/onenode" ] && [ -x "$PLACE/pause" ] || missing+=("Kubernetes $VERSION")
    [ ${#missing[@]} -eq 0 ] && { echo "$PLACE"; exit 0; }
    echo "${missing[*]} is not there (make kubernetes brings it)." >&2
    exit 1
fi
if [ ${#missing[@]} -gt 0 ]; then
    echo "Installing ${missing[*]} with apt-get." >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

mkdir -p "$PLACE"
export GOFLAGS=-buildvcs=false CGO_ENABLED=0
if [ ! -x "$PLACE/onenode" ]; then
    command -v go >/dev/null || { echo "Go is missing, with which the parts of Kubernetes $VERSION are built: install Go 1.24 or newer." >&2; exit 1; }
    echo "Building Kubernetes $VERSION from Go's modules (0.7 GB): about eight minutes on two free cores, once a machine." >&2
    package=k8s.io/component-base/version
    (cd demo/kubernetes/onenode && go build -p "${JOBS:-2}" -trimpath -tags grpcnotrace,selinux_off -o "$PLACE/onenode.part" -ldflags "-s -w \
        -X $package.gitVersion=v$VERSION -X $package.gitMajor=1 -X $package.gitMinor=34 -X $package.gitTreeState=clean \
        -X $package.gitCommit=0 -X $package.buildDate=1970-01-01T00:00:00Z" .)
    mv "$PLACE/onenode.part" "$PLACE/onenode"
    ln -sf onenode "$PLACE/kubectl"
fi
if [ ! -x "$PLACE/pause" ]; then
    source=$(cd demo/kubernetes/onenode && go list -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c
    gcc -Os -static -s -o "$PLACE/pause" "$source"
fi
echo "$PLACE"
