{{- define "bookie-operator.labels" -}}
app.kubernetes.io/name: bookie-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "bookie-operator.selector" -}}
app.kubernetes.io/name: bookie-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "bookie-operator.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
{{- end }}

{{/* What the operator may do where it watches. No wildcard, no exec, no webhook, no write to spec; of secrets the one
     that holds the bookies' certificates, by its name. */}}
{{- define "bookie-operator.rules" -}}
- apiGroups: [bookie.dev]
  resources: [bookieclusters]
  verbs: [get, list, watch]
- apiGroups: [bookie.dev]
  resources: [bookieclusters/status]
  verbs: [patch]
- apiGroups: [bookie.dev]
  resources: [bookieclusters/finalizers] # asked for by OwnerReferencesPermissionEnforcement; no finalizer is ever added
  verbs: [update]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [apps]
  resources: [controllerrevisions] # which settings a pod may still come back with
  verbs: [list]
- apiGroups: [batch]
  resources: [jobs] # delete: one that was made from what has been corrected
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets] # delete: spec.disruption.pdb is false
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [configmaps] # delete: settings that nobody reads any more
  verbs: [get, list, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, create, patch]
- apiGroups: [""]
  resources: [pods] # delete: the roll-out, of a bookie that has flushed or is down
  verbs: [get, list, watch, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims] # patch: identity annotations; never create, never delete
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [secrets] # apply is patch, and create by the same name
  resourceNames: [bookie-admin-certificates]
  verbs: [get, create, patch]
- apiGroups: [events.k8s.io]
  resources: [events] # list: what keeps a StatefulSet from making its pods (a quota) stands in Ready
  verbs: [list, create, patch]
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
