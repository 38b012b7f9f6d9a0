#!/bin/bash
# A pod network in a page: every node gives its pods addresses of its own range and routes the
# other nodes' ranges to them. Policies are stored by Kubernetes, but nothing here enforces them.
set -euo pipefail

account=/var/run/secrets/kubernetes.io/serviceaccount
api="https://${KUBERNETES_SERVICE_HOST}:${KUBERNETES_SERVICE_PORT}"

nodes() {
  curl --silent --fail --max-time 5 --cacert "$account/ca.crt" \
    --header "Authorization: Bearer $(cat "$account/token")" "$api/api/v1/nodes" |
    jq --raw-output '.items[] | select(.spec.podCIDR) | [.metadata.name, .spec.podCIDR,
      (.status.addresses[]? | select(.type == "InternalIP") | .address)] | @tsv'
}

write_configuration() {
  local configuration
  configuration=$(jq --null-input --arg range "$1" '{cniVersion: "0.4.0", name: "pods", plugins: [
    {type: "ptp", mtu: 1500, ipam: {type: "host-local", dataDir: "/run/cni-ipam-state",
      ranges: [[{subnet: $range}]], routes: [{dst: "0.0.0.0/0"}]}},
    {type: "portmap", capabilities: {portMappings: true}}]}')
  if [ "$configuration" != "$(cat /etc/cni/net.d/10-pods.conflist 2>/dev/null)" ]; then
    echo "$configuration" >/etc/cni/net.d/.new
    mv /etc/cni/net.d/.new /etc/cni/net.d/10-pods.conflist
  fi
}

# What leaves the pod network leaves it under the node's address.
masquerade() {
  local rule=(POSTROUTING --source "$1" ! --destination "$POD_SUBNET" --jump MASQUERADE)
  iptables --wait --table nat --check "${rule[@]}" 2>/dev/null ||
    iptables --wait --table nat --append "${rule[@]}"
}

while true; do
  if known=$(nodes); then
    while IFS=$'\t' read -r name range address; do
      if [ "$name" = "$NODE_NAME" ]; then
        write_configuration "$range"
        masquerade "$range"
      else
        ip route replace "$range" via "$address"
      fi
    done <<<"$known"
    sleep 5
  else
    sleep 1
  fi
done
