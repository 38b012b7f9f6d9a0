"""The Job that formats a cluster's metadata once (metadataService.initialize: IfAbsent).

A Job, not an init container: an init container would format again on each pod start, also after the metadata store
had lost everything, and a new instance id would hide that (operators.md 1.B, row 22).
"""

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common, pod


def metadata_job(cluster: Cluster, image: str) -> common.Manifest:
    want = cluster.spec
    pod_spec = {
        "serviceAccountName": names.service_account(cluster.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "OnFailure",  # the store may come up later than we do
        "securityContext": pod.pod_security(),
        "containers": [
            {
                "name": "format",
                "image": image,
                "imagePullPolicy": want.image_pull_policy,
                "command": ["bookie"],
                "args": ["cluster", "init", "--if-missing", "--metadata-service-uri", want.metadata_service.uri],
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                "securityContext": pod.container_security(),
                "volumeMounts": [{"name": "bookie-tmp", "mountPath": "/tmp"}],
            }
        ],
        "volumes": [{"name": "bookie-tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    if want.image_pull_secrets:
        pod_spec["imagePullSecrets"] = [{"name": secret.name} for secret in want.image_pull_secrets]
    if want.placement.tolerations:
        pod_spec["tolerations"] = [toleration.dump() for toleration in want.placement.tolerations]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": common.metadata(cluster, names.metadata_job(cluster.name), names.COMPONENT_METADATA),
        "spec": {
            "backoffLimit": 30,
            "template": {
                "metadata": {"labels": common.labels(cluster, names.COMPONENT_METADATA)},
                "spec": pod_spec,
            },
        },
    }
