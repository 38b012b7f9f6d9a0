"""The Job that formats a cluster's metadata once (metadataService.initialize: IfAbsent).

A Job, not an init container: an init container would format again on each pod start, also after the metadata store
had lost everything, and a new instance id would hide that (spec/operator.md#K26).
"""

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.resources import common, metadata_access, pod


def metadata_job(cluster: Cluster, image: str) -> common.Manifest:
    want = cluster.spec
    pod_spec = pod.common_spec(cluster) | {
        "restartPolicy": "OnFailure",  # the store may come up later than we do
        "containers": [
            {
                "name": "format",
                "image": image,
                "imagePullPolicy": want.image_pull_policy,
                "terminationMessagePolicy": "FallbackToLogsOnError",
                "command": ["bookie"],
                "args": ["cluster", "init", "--if-missing", "--metadata-service-uri", want.metadata_service.uri],
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                "securityContext": pod.container_security(),
                "env": metadata_access.environment(want),
                "volumeMounts": [{"name": "bookie-tmp", "mountPath": "/tmp"}, *metadata_access.mounts(want)],
            }
        ],
        "volumes": [{"name": "bookie-tmp", "emptyDir": {"sizeLimit": "64Mi"}}, *metadata_access.volumes(want)],
    }
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
