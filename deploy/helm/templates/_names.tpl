{{- define "inferstream.selector" -}}
app.kubernetes.io/name: inferstream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "inferstream.labels" -}}
{{ include "inferstream.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "inferstream.keysSecret" -}}
{{ .Values.keys.secret | default (ternary (printf "%s-keys" .Release.Name) "" (ne .Values.keys.content "")) }}
{{- end }}

{{- define "inferstream.needsMetricsKey" -}}
{{ if and (include "inferstream.keysSecret" .) (not .Values.metrics.open) }}true{{ end }}
{{- end }}

{{- define "inferstream.metricsScheme" -}}
{{ ternary "https" "http" (and (ne .Values.tls.secret "") .Values.tls.metrics) }}
{{- end }}

{{- define "inferstream.shutdown" -}}
{{- $given := .Values.shutdown -}}
delay: {{ kindIs "invalid" $given.delay | ternary (ternary 15 5 .Values.pool.enabled) $given.delay }}
grace: {{ kindIs "invalid" $given.grace | ternary (ternary 40 20 .Values.pool.enabled) $given.grace }}
{{- end }}
