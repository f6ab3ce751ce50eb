{{/* What the objects' names begin with, the hosts of the certificate among them. */}}
{{- define "basalt.name" -}}
{{ .Values.fullnameOverride | default .Release.Name }}
{{- end }}

{{/* What the nodes are found by. */}}
{{- define "basalt.selector" -}}
app.kubernetes.io/name: basalt
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What else objects are labelled with. */}}
{{- define "basalt.chart" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "basalt.labels" -}}
{{ include "basalt.selector" . }}
{{ include "basalt.chart" . }}
{{- end }}

{{/* The claim and the Secret of the store. */}}
{{- define "basalt.claim" -}}
{{ .Values.store.volume.existingClaim | default (printf "%s-store" (include "basalt.name" .)) }}
{{- end }}
{{- define "basalt.credentials" -}}
{{ .Values.store.s3.secret | default (printf "%s-store" (include "basalt.name" .)) }}
{{- end }}

{{- define "basalt.secrets" -}}
{{ .Values.secrets.name | default (printf "%s-secrets" (include "basalt.name" .)) }}
{{- end }}
{{- define "basalt.metrics" -}}
{{ .Values.secrets.metrics | default (printf "%s-metrics" (include "basalt.name" .)) }}
{{- end }}
