"""The Deployment that runs auto-recovery (spec.autorecovery): `bookie autorecovery run`, set up as the bookies of the
cluster are, with the same settings and Secrets.

It holds no data, so its controller may restart it as it likes: no pod of it is a bookie, and none has a turn.
"""

from bookie_operator.model import names
from bookie_operator.model.cluster import Cluster
from bookie_operator.model.values import parse_duration, parse_quantity
from bookie_operator.resources import common, data_security, metadata_access, pod, settings

_STARTUP_SECONDS = 120
_TERMINATION_GRACE_S = 30  # it gives its locks and its vote back


def deployment(cluster: Cluster, image: str) -> common.Manifest:
    """Return the Deployment; with no pod while the fleet sleeps: all its bookies would look lost."""
    want = cluster.spec.autorecovery
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": common.metadata(cluster, names.autorecovery(cluster.name), names.COMPONENT_AUTORECOVERY),
        "spec": {
            "replicas": 0 if cluster.spec.lifecycle.hibernate else want.replicas,
            "revisionHistoryLimit": 2,
            "selector": {
                "matchLabels": {
                    names.LABEL_CLUSTER: cluster.name,
                    names.LABEL_COMPONENT: names.COMPONENT_AUTORECOVERY,
                }
            },
            "template": {
                "metadata": {"labels": common.labels(cluster, names.COMPONENT_AUTORECOVERY)},
                "spec": _pod(cluster, image),
            },
        },
    }


def _pod(cluster: Cluster, image: str) -> common.Manifest:
    want = cluster.spec
    container = {
        "name": names.COMPONENT_AUTORECOVERY,
        "image": image,
        "imagePullPolicy": want.image_pull_policy,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "command": ["bookie"],
        "args": _arguments(cluster),
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"name": "metrics", "containerPort": want.network.ports.metrics, "protocol": "TCP"}],
        "resources": want.autorecovery.resources.dump(),
        "securityContext": pod.container_security(),
        "startupProbe": _probe(period=2, failures=_STARTUP_SECONDS // 2),
        "livenessProbe": _probe(period=30, failures=4),
        "readinessProbe": _probe(period=10, failures=3),
        "volumeMounts": [
            {"name": "bookie-settings", "mountPath": names.SETTINGS_DIR, "readOnly": True},
            {"name": "bookie-tmp", "mountPath": "/tmp"},
            *metadata_access.mounts(want),
            *data_security.mounts(want),
        ],
    }
    return pod.common_spec(cluster) | {
        "terminationGracePeriodSeconds": _TERMINATION_GRACE_S,
        "containers": [container],
        "volumes": [
            {"name": "bookie-settings", "configMap": {"name": settings.name(cluster)}},
            {"name": "bookie-tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            *metadata_access.volumes(want),
            *data_security.volumes(cluster),
        ],
    }


def _arguments(cluster: Cluster) -> list[str]:
    want = cluster.spec
    out = ["autorecovery", "run", f"--config={names.SETTINGS_DIR}/{names.SETTINGS_FILE}", "--name=$(POD_NAME)"]
    out += [f"--metrics=[::]:{want.network.ports.metrics}"]
    out += [f"--loss-delay={parse_duration(want.autorecovery.loss_delay) // 1000}"]
    if want.repair.copy_rate is not None:
        out += [f"--bytes-per-second={int(parse_quantity(want.repair.copy_rate))}"]
    return out


def _probe(*, period: int, failures: int) -> common.Manifest:
    return {
        "httpGet": {"path": "/metrics", "port": "metrics"},
        "periodSeconds": period,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
