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

{{/* What the operator may do where it watches. No wildcard, no exec, no secrets, no webhook, no write to spec. */}}
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
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [persistentvolumeclaims] # patch: identity annotations; never create, never delete
  verbs: [get, list, watch, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
