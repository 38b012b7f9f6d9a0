{{- define "bookie-operator.labels" -}}
app.kubernetes.io/name: bookie-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "bookie-operator.selector" -}}
app.kubernetes.io/name: bookie-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "bookie-operator.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
{{- end }}

{{/* What the operator may do where it watches. No wildcard, no exec, no webhook, no write to spec; of secrets those
     that hold the bookies' certificates, by their names. */}}
{{- define "bookie-operator.rules" -}}
- apiGroups: [bookie.dev]
  resources: [bookieclusters] # never written: the spec is the user's
  verbs: [get, list, watch]
- apiGroups: [bookie.dev]
  resources: [bookieclusters/status] # what the operator saw and did
  verbs: [patch]
- apiGroups: [bookie.dev]
  resources: [bookieclusters/finalizers] # asked for by OwnerReferencesPermissionEnforcement; no finalizer is ever added
  verbs: [update]
- apiGroups: [bookie.dev]
  resources: [bookieoperations] # what people ask for once; their specs are never written
  verbs: [list, watch]
- apiGroups: [bookie.dev]
  resources: [bookieoperations/status] # how far each has come
  verbs: [patch]
- apiGroups: [apps]
  resources: [statefulsets] # delete: to make one anew around its pods, or an empty one whose zone left the spec
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [deployments] # of auto-recovery; delete: spec.autorecovery.enabled is false again
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions] # which settings a pod may still come back with
  verbs: [list]
- apiGroups: [batch]
  resources: [jobs] # delete: one that was made from what has been corrected
  verbs: [list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets] # delete: spec.disruption.pdb is false
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps] # get: the record by its name; delete: settings that nobody reads any more
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts] # the bookies' own
  verbs: [list, watch, create, patch]
- apiGroups: [""]
  resources: [pods] # delete: the roll-out, of a bookie that has flushed or is down
  verbs: [list, watch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims] # patch: annotations, a larger size, an owner (deletionPolicy); delete: of a lost node, of who left or never lived
  verbs: [list, watch, patch, delete]
- apiGroups: [""]
  resources: [secrets] # apply is patch, and create of what is not there, here by the same name
  resourceNames: [bookie-admin-certificates, bookie-data-certificates]
  verbs: [get, create, patch]
- apiGroups: [events.k8s.io]
  resources: [events] # list: what keeps a StatefulSet from making its pods (a quota) stands in Ready
  verbs: [list, create]
{{- end }}

{{/* Not empty when PersistentVolumes (Nodes) may be read. They belong to no namespace, so that this takes a ClusterRole: by
     default only where there is one anyway. */}}
{{- define "bookie-operator.readsVolumes" -}}
{{- include "bookie-operator.isWanted" (list . .Values.persistentVolumes.read) }}
{{- end }}

{{- define "bookie-operator.readsNodes" -}}
{{- include "bookie-operator.isWanted" (list . .Values.nodes.read) }}
{{- end }}

{{- define "bookie-operator.isWanted" -}}
{{- $values := (index . 0).Values }}{{ $read := index . 1 }}
{{- if kindIs "bool" $read }}{{ if $read }}yes{{ end }}{{ else if not $values.watch.namespaces }}yes{{ end }}
{{- end }}
