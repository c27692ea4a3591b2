#!/usr/bin/env bash
# The first process of a node's own namespaces (network, mounts, processes): when it ends, all that it has started ends.
#
#   FOLDER    where the node keeps its files, made by demo/kubernetes/node.py
#   PROGRAM   the program with all parts
#   PYTHON, DNS   what answers names
#   ADDRESS   the node's address
set -u
cd "$FOLDER"
mount --make-rshared /

# The kubelet insists on these values; files in their place leave the machine's own as they are.
mkdir -p sys
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    file=sys/${pair//\//-}
    echo "${pair#*=}" > "$file"
    mount --bind "$file" "/proc/sys/${pair%=*}"
done
for folder in /run/containerd /run/netns /var/log/containers; do
    mkdir -p "$folder"
    mount -t tmpfs tmpfs "$folder"
done
mkdir -p /var/run/netns /var/log/pods
echo "nameserver $ADDRESS" > resolv.conf
mount --bind resolv.conf /etc/resolv.conf

# The kernel may have no dummy device: a bridge without ports has the node's address as well.
ip link set lo up
ip link add node0 type bridge
ip addr add "$ADDRESS/24" dev node0
ip link set node0 up
ip route replace default via "${ADDRESS%.*}.254" dev node0
sysctl -qw net.ipv4.ip_forward=1
sysctl -qw net.bridge.bridge-nf-call-iptables=1 2>/dev/null

part() {
    local log=log/$1.log
    shift
    "$@" > "$log" 2>&1 &
}
ready() {
    for _ in $(seq 600); do "$@" > /dev/null 2>&1 && return; sleep 0.1; done
}
part containerd containerd --config containerd.toml
part etcd "$PROGRAM" etcd --unsafe-no-fsync --name node --data-dir "$FOLDER/etcd" \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
    --initial-cluster node=http://127.0.0.1:2380
part kube-apiserver "$PROGRAM" kube-apiserver --etcd-servers http://127.0.0.1:2379 --advertise-address "$ADDRESS" \
    --secure-port 6443 --tls-cert-file keys/api.pem --tls-private-key-file keys/api.key --cert-dir keys \
    --token-auth-file keys/tokens.csv --service-account-key-file keys/accounts.pub \
    --service-account-signing-key-file keys/accounts.key --service-account-issuer https://kubernetes.default.svc \
    --kubelet-preferred-address-types InternalIP --authorization-mode Node,RBAC \
    --service-cluster-ip-range 10.96.0.0/16 --allow-privileged \
    --audit-policy-file audit.yaml --audit-log-path log/audit.log
ready ctr --address containerd.sock version
for image in images/*.tar; do
    ctr --address containerd.sock --namespace k8s.io images import "$image"
done
ready "$KUBECTL" --kubeconfig admin.conf get --raw /readyz
part kube-controller-manager "$PROGRAM" kube-controller-manager --kubeconfig controller-manager.conf --leader-elect=false \
    --use-service-account-credentials --service-account-private-key-file keys/accounts.key --root-ca-file keys/ca.pem \
    --cert-dir keys
part kube-scheduler "$PROGRAM" kube-scheduler --kubeconfig scheduler.conf --leader-elect=false --cert-dir keys
part kubelet "$PROGRAM" kubelet --kubeconfig kubelet.conf --config kubelet.yaml --root-dir "$FOLDER/kubelet" \
    --cert-dir keys --hostname-override node --node-ip "$ADDRESS"
part kube-proxy "$PROGRAM" kube-proxy --kubeconfig proxy.conf --proxy-mode iptables --cluster-cidr 10.88.0.0/16 \
    --hostname-override node --conntrack-max-per-core 0 --conntrack-min 0 --conntrack-tcp-timeout-established 0 \
    --conntrack-tcp-timeout-close-wait 0
part dns "$PYTHON" "$DNS" "https://$ADDRESS:6443" keys/admin.token keys/ca.pem "$ADDRESS"
while true; do wait -n || sleep 1; done
