{{- define "sidenote.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "sidenote.fullname" -}}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "sidenote.name" .) .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name (include "sidenote.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "sidenote.selector" -}}
app.kubernetes.io/name: {{ include "sidenote.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sidenote.labels" -}}
{{ include "sidenote.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sidenote.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "sidenote.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "sidenote.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}
{{- end }}
{{- end }}

{{/* Whether the admin port can be reached from other pods. */}}
{{- define "sidenote.adminExposed" -}}
{{- if or .Values.admin.expose (eq .Values.mode "central") }}true{{ end }}
{{- end }}

{{/* Whether there are files of tenants. */}}
{{- define "sidenote.hasTenants" -}}
{{- if or .Values.tenants.files .Values.tenants.configMaps }}true{{ end }}
{{- end }}

{{/* "true" if port 9464 has TLS. */}}
{{- define "sidenote.telemetryTLS" -}}
{{- if or .Values.probes.tls (dig "telemetry" "tls" "" .Values.config) }}true{{ end }}
{{- end }}

{{/* What is wrong with the values beyond what their schema knows. */}}
{{- define "sidenote.refuse" -}}
{{- if dig "telemetry" "tls" "client_ca" "" .Values.config }}{{ fail "config.telemetry.tls.client_ca: the kubelet, which asks whether a pod is ready, has no certificate" }}{{ end }}
{{- if not (or .Values.config .Values.existingConfigMap) }}{{ fail "config: is missing; at least {upstream: https://api.openai.com/v1}" }}{{ end }}
{{- if and .Values.config .Values.existingConfigMap }}{{ fail "config, existingConfigMap: only one of them" }}{{ end }}
{{- if and .Values.existingConfigMap (include "sidenote.hasTenants" .) }}{{ fail "tenants: existingConfigMap must include /etc/sidenote/tenants/*.yaml by itself; set config instead" }}{{ end }}
{{- if hasKey .Values.config "state" }}{{ fail "config.state: set state of the chart instead" }}{{ end }}
{{- range $key, $instead := dict "admin" "admin.expose" "telemetry" "nothing, it is port 9464," "mcp" "mcp.enabled" }}
{{- if hasKey (get $.Values.config $key | default dict) "listen" }}{{ fail (printf "config.%s.listen: set %s of the chart instead" $key $instead) }}{{ end }}
{{- end }}
{{- if and (include "sidenote.adminExposed" .) (not .Values.admin.existingSecret) (not .Values.existingConfigMap) (not (get .Values.config "admin")) }}{{ fail "admin.existingSecret: is missing; the admin port of a central, or with expose, needs a token" }}{{ end }}
{{- if and .Values.state.existingClaim (eq .Values.mode "gateway") }}{{ fail "state.existingClaim: replicas of a gateway cannot share one; set state.type" }}{{ end }}
{{- if and (eq .Values.mode "sidecar") .Values.sidecar.containers (include "sidenote.claim" .) (gt (int .Values.replicas) 1) }}{{ fail "replicas: apps with sidecars cannot share a state folder; set 1, or state.type: emptyDir" }}{{ end }}
{{- if and .Values.gitSync.enabled (not .Values.gitSync.repo) }}{{ fail "gitSync.repo: is missing" }}{{ end }}
{{- if and (eq .Values.mode "central") (eq .Values.central.followers.read "state") (eq .Values.state.type "emptyDir") (gt (int .Values.central.followers.replicas) 0) }}{{ fail "central.followers.read: state: needs state.type: persistentVolumeClaim" }}{{ end }}
{{- end }}

{{/* The configuration, and what the chart adds to it. */}}
{{- define "sidenote.config" -}}
{{- $config := deepCopy .Values.config }}
{{- with .Values.admin.existingSecret }}
{{- $token := dict "file" (printf "/run/secrets/%s/token" .) }}
{{- $admin := dict "token" $token }}
{{- if $.Values.admin.readToken }}{{ $_ := set $admin "read_token" (dict "file" (printf "/run/secrets/%s/read-token" .)) }}{{ end }}
{{- $_ := set $config "admin" (merge (get $config "admin" | default dict) $admin) }}
{{- end }}
{{- if include "sidenote.hasTenants" . }}
{{- $own := dict "path" "/etc/sidenote/tenants/*.yaml" "optional" true }}
{{- with .Values.tenants.may }}{{ $_ := set $own "may" . }}{{ end }}
{{- with .Values.tenants.knowledge }}{{ $_ := set $own "knowledge" . }}{{ end }}
{{- $include := get $config "include" | default list }}
{{- if not (kindIs "slice" $include) }}{{ $include = list $include }}{{ end }}
{{- $_ := set $config "include" (append $include $own) }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{/* The same for followers that only search bases in an engine: without what says where documents come from. */}}
{{- define "sidenote.followerConfig" -}}
{{- $config := include "sidenote.config" . | fromYaml }}
{{- range $name, $base := get $config "knowledge" | default dict }}
{{- if and (kindIs "map" $base) (has (get $base "engine") (list "postgres" "opensearch")) }}
{{- $_ := set $config.knowledge $name (omit $base "path" "git" "http" "s3" "include" "exclude" "attributes" "attributes_from" "deletions" "ocr" "page") }}
{{- end }}
{{- end }}
{{- toYaml $config }}
{{- end }}
