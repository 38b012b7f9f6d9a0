#!/bin/bash
# A pod network in a page: every node gives its pods addresses of its own range and routes the
# other nodes' ranges to them. Policies are stored by Kubernetes, but nothing here enforces them.
set -euo pipefail

account=/var/run/secrets/kubernetes.io/serviceaccount
api="https://${KUBERNETES_SERVICE_HOST}:${KUBERNETES_SERVICE_PORT}"

# A line for each node and family: its name, the range of its pods, its own address of that family.
nodes() {
  curl --silent --fail --max-time 5 --cacert "$account/ca.crt" \
    --header "Authorization: Bearer $(cat "$account/token")" "$api/api/v1/nodes" |
    jq --raw-output '.items[] | .metadata.name as $name
      | [.status.addresses[]? | select(.type == "InternalIP") | .address] as $addresses
      | .spec.podCIDRs[]? | contains(":") as $is_six
      | [$name, ., ($addresses | map(select(contains(":") == $is_six)) | first)] | @tsv'
}

# A pod has an address of each range that is given.
write_configuration() {
  local configuration
  configuration=$(jq --null-input '{cniVersion: "0.4.0", name: "pods", plugins: [
    {type: "at-once"},
    {type: "ptp", mtu: 1500, ipam: {type: "host-local", dataDir: "/run/cni-ipam-state",
      ranges: [$ARGS.positional[] | [{subnet: .}]],
      routes: [$ARGS.positional[] | {dst: (if contains(":") then "::/0" else "0.0.0.0/0" end)}]}},
    {type: "portmap", capabilities: {portMappings: true}}]}' --args "$@")
  if [ "$configuration" != "$(cat /etc/cni/net.d/10-pods.conflist 2>/dev/null)" ]; then
    echo "$configuration" >/etc/cni/net.d/.new
    mv /etc/cni/net.d/.new /etc/cni/net.d/10-pods.conflist
  fi
}

# What leaves the pod network leaves it under the node's address.
masquerade() {
  local range=$1 tables=iptables within
  case "$range" in *:*) tables=ip6tables ;; esac
  for within in ${POD_SUBNET//,/ }; do
    case "$range$within" in *:*.* | *.*:*) continue ;; esac # the other family
    local rule=(POSTROUTING --source "$range" ! --destination "$within" --jump MASQUERADE)
    "$tables" --wait --table nat --check "${rule[@]}" 2>/dev/null ||
      "$tables" --wait --table nat --append "${rule[@]}"
  done
}

# The node's side of a pod's link serves at once too (see at-once); without IPv6 there is no such file.
echo 0 2>/dev/null >/proc/sys/net/ipv6/conf/default/accept_dad || true
while true; do
  if known=$(nodes); then
    ours=()
    while IFS=$'\t' read -r name range address; do
      if [ "$name" = "$NODE_NAME" ]; then
        ours+=("$range")
        masquerade "$range"
      elif [ -n "$address" ]; then
        ip route replace "$range" via "$address"
      fi
    done <<<"$known"
    if [ ${#ours[@]} -gt 0 ]; then
      write_configuration "${ours[@]}"
    fi
    sleep 5
  else
    sleep 1
  fi
done
