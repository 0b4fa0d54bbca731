{{/* The TLS options of a port, as JSON. `clients` is none, optional or required. */}}
{{- define "inferstream.tls" -}}
{{- $options := dict "ssl_certfile" "/etc/inferstream/tls/tls.crt" "ssl_keyfile" "/etc/inferstream/tls/tls.key" }}
{{- if ne . "none" }}
{{- $_ := set $options "ssl_ca_certs" "/etc/inferstream/tls/ca.crt" }}
{{- $_ := set $options "ssl_cert_reqs" (ternary 2 1 (eq . "required")) }}
{{- end }}
{{- toJson $options }}
{{- end }}

{{/* The settings of the server, as JSON. */}}
{{- define "inferstream.settings" -}}
{{- $given := dict "use_structured_logging" true }}
{{- range $name, $value := .Values.settings }}
{{- $_ := set $given (trimPrefix "_" $name) $value }}
{{- end }}
{{- $times := fromYaml (include "inferstream.shutdown" .) }}
{{- $own := dict "host" "0.0.0.0" "shutdown_delay" $times.delay "shutdown_grace" $times.grace }}
{{- if include "inferstream.keysSecret" . }}
{{- $_ := set $own "keys_file" "/etc/inferstream/keys/keys.json" }}
{{- if .Values.metrics.open }}{{ $_ := set $own "allow_open_metrics" true }}{{ end }}
{{- end }}
{{- if .Values.cache.size }}{{ $_ := set $own "sources_dir" "/var/cache/inferstream/sources" }}{{ end }}
{{- if .Values.tls.secret }}
{{- $clients := .Values.tls.clientCertificates }}
{{- $ports := dict "custom_rest_server_settings" $clients "custom_grpc_server_settings" $clients }}
{{- if .Values.tls.metrics }}{{ $_ := set $ports "custom_metrics_server_settings" "none" }}{{ end }}
{{- range $name, $clients := $ports }}
{{- $_ := set $own $name (merge (fromJson (include "inferstream.tls" $clients)) (get $given $name | default dict)) }}
{{- end }}
{{- end }}
{{- toJson (mergeOverwrite $given $own) }}
{{- end }}

{{/* The bytes of a quantity such as 6Gi or of a size such as 6GB, or 0 if its unit is unknown. */}}
{{- define "inferstream.bytes" -}}
{{- $text := ternary (toString .) (. | int64 | toString) (kindIs "string" .) | nospace | upper | trimSuffix "B" }}
{{- $units := dict "" 1 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "KI" 1024 "MI" 1048576 "GI" 1073741824 "TI" 1099511627776 }}
{{- mulf (regexFind "^[0-9.]+" $text | float64) (get $units (regexReplaceAll "^[0-9.]+" $text "") | default 0) | int64 }}
{{- end }}
