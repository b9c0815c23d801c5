{{/*
A pod of Sidenote. Templates below take a dict: root (the chart's context), role (gateway, sidecar, writer or
follower), and state (the name of a volume claim, "" for an emptyDir, or "-" if a volume claim template has it).
*/}}

{{- define "sidenote.securityContext" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
privileged: false
readOnlyRootFilesystem: true
runAsGroup: 65532
runAsNonRoot: true
runAsUser: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sidenote.probe" -}}
httpGet: {path: {{ .path }}, port: telemetry{{ if include "sidenote.telemetryTLS" .root }}, scheme: HTTPS{{ end }}}
timeoutSeconds: {{ .root.Values.probes.timeoutSeconds }}
{{- end }}

{{/* Variables that the image sets, replaced. An empty one leaves the key to the configuration. */}}
{{- define "sidenote.env" -}}
{{- $values := .root.Values }}
{{- $sidecar := eq .role "sidecar" }}
- {name: SIDENOTE_CONFIG, value: /etc/sidenote/config/sidenote.yaml}
- {name: SIDENOTE_LISTEN, value: {{ ternary "" (ternary "127.0.0.1:8080" "0.0.0.0:8080" $sidecar) (hasKey $values.config "listen") | quote }}}
- {name: SIDENOTE_ADMIN, value: {{ ternary "0.0.0.0:8081" "127.0.0.1:8081" (not (empty (include "sidenote.adminExposed" .root))) | quote }}}
- {name: SIDENOTE_TELEMETRY, value: "0.0.0.0:9464"}
{{- if $values.mcp.enabled }}
- {name: SIDENOTE_MCP, value: "{{ ternary "127.0.0.1" "0.0.0.0" $sidecar }}:8082"}
{{- end }}
- {name: SIDENOTE_STATE, value: /var/lib/sidenote/state}
{{- if and (eq .role "follower") (eq $values.central.followers.read "state") }}
- {name: SIDENOTE_FOLLOW, value: "true"}
{{- end }}
- {name: SIDENOTE_READY, value: {{ ternary "" $values.ready (hasKey $values.config "ready") | quote }}}
- {name: SIDENOTE_SHUTDOWN_DELAY, value: {{ ternary "" (ternary "0s" "5s" $sidecar) (hasKey $values.config "shutdown_delay") | quote }}}
{{- with $values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The container; in a sidecar an initContainer that goes on while the app runs. */}}
{{- define "sidenote.container" -}}
{{- $values := .root.Values }}
{{- $sidecar := eq .role "sidecar" }}
name: sidenote
image: {{ include "sidenote.image" .root }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args: [serve]
{{- if $sidecar }}
restartPolicy: Always
{{- end }}
env:
{{- include "sidenote.env" . | nindent 2 }}
{{- with $values.envFrom }}
envFrom:
{{- toYaml . | nindent 2 }}
{{- end }}
ports:
{{- if not $sidecar }}
{{- range $values.service.ports }}
  - {name: {{ .name }}, containerPort: {{ .targetPort | default .port }}, protocol: TCP}
{{- end }}
{{- end }}
{{- if include "sidenote.adminExposed" .root }}
  - {name: admin, containerPort: 8081, protocol: TCP}
{{- end }}
{{- if and $values.mcp.enabled (not $sidecar) }}
  - {name: mcp, containerPort: 8082, protocol: TCP}
{{- end }}
  - {name: telemetry, containerPort: 9464, protocol: TCP}
{{- if $sidecar }}
startupProbe:
{{- include "sidenote.probe" (dict "root" .root "path" "/readyz") | nindent 2 }}
  periodSeconds: 1
  failureThreshold: {{ $values.probes.startupSeconds }}
{{- end }}
livenessProbe:
{{- include "sidenote.probe" (dict "root" .root "path" "/healthz") | nindent 2 }}
  periodSeconds: {{ mul 2 $values.probes.periodSeconds }}
  failureThreshold: 6
readinessProbe:
{{- include "sidenote.probe" (dict "root" .root "path" "/readyz") | nindent 2 }}
  periodSeconds: {{ $values.probes.periodSeconds }}
  failureThreshold: 2
resources:
{{- toYaml $values.resources | nindent 2 }}
securityContext:
{{- include "sidenote.securityContext" . | nindent 2 }}
volumeMounts:
  - {name: sidenote-config, mountPath: /etc/sidenote/config, readOnly: true}
{{- if include "sidenote.hasTenants" .root }}
  - {name: sidenote-tenants, mountPath: /etc/sidenote/tenants, readOnly: true}
{{- end }}
  - {name: sidenote-state, mountPath: /var/lib/sidenote}
  - {name: sidenote-tmp, mountPath: /tmp}
{{- range include "sidenote.secretNames" .root | fromYamlArray }}
  - {name: sidenote-secret-{{ . | replace "." "-" }}, mountPath: /run/secrets/{{ . }}, readOnly: true}
{{- end }}
{{- range $name, $_ := $values.documents }}
  - {name: sidenote-documents-{{ $name }}, mountPath: /documents/{{ $name }}, readOnly: true}
{{- end }}
{{- if $values.gitSync.enabled }}
  - {name: sidenote-git, mountPath: /documents/git, readOnly: true}
{{- end }}
{{- end }}

{{/* The names of mounted Secrets. */}}
{{- define "sidenote.secretNames" -}}
{{- $names := .Values.secrets }}
{{- with .Values.admin.existingSecret }}{{ $names = append $names . | uniq }}{{ end }}
{{- toYaml $names }}
{{- end }}

{{/* git-sync: once before the rest, so that the first index is whole, and then beside it. */}}
{{- define "sidenote.gitSync" -}}
{{- $values := .root.Values }}
{{- range $name := list "git-sync-first" "git-sync" }}
{{- $once := eq $name "git-sync-first" }}
- name: {{ $name }}
  image: {{ $values.gitSync.image }}
  {{- if not $once }}
  restartPolicy: Always
  {{- end }}
  args: ["--repo={{ $values.gitSync.repo }}", "--ref={{ $values.gitSync.ref }}", "--depth=1", "--root=/git", "--link=current", {{ ternary "\"--one-time\"" (printf "\"--period=%s\"" $values.gitSync.period) $once }}]
  {{- with $values.gitSync.secret }}
  env:
    - {name: GITSYNC_USERNAME, valueFrom: {secretKeyRef: {name: {{ . }}, key: username}}}
    - {name: GITSYNC_PASSWORD, valueFrom: {secretKeyRef: {name: {{ . }}, key: password}}}
  {{- end }}
  resources:
    {{- toYaml $values.gitSync.resources | nindent 4 }}
  securityContext:
    {{- include "sidenote.securityContext" . | nindent 4 }}
  volumeMounts:
    - {name: sidenote-git, mountPath: /git}
    - {name: sidenote-tmp, mountPath: /tmp}
{{- end }}
{{- end }}

{{- define "sidenote.volumes" -}}
{{- $values := .root.Values }}
{{- $name := include "sidenote.fullname" .root }}
- name: sidenote-config
  configMap: {name: {{ $values.existingConfigMap | default (ternary (printf "%s-follower" $name) $name (and (eq .role "follower") (eq $values.central.followers.read "engine"))) }}}
{{- if include "sidenote.hasTenants" .root }}
- name: sidenote-tenants
  projected:
    sources:
      {{- if $values.tenants.files }}
      - configMap: {name: {{ $name }}-tenants}
      {{- end }}
      {{- range $values.tenants.configMaps }}
      - configMap: {name: {{ . }}}
      {{- end }}
{{- end }}
{{- if eq .state "" }}
- name: sidenote-state
  emptyDir: {sizeLimit: {{ $values.state.size }}}
{{- else if ne .state "-" }}
- name: sidenote-state
  persistentVolumeClaim: {claimName: {{ .state }}}
{{- end }}
- name: sidenote-tmp
  emptyDir: {}
{{- range include "sidenote.secretNames" .root | fromYamlArray }}
- name: sidenote-secret-{{ . | replace "." "-" }}
  secret: {secretName: {{ . }}}
{{- end }}
{{- range $name, $volume := $values.documents }}
- name: sidenote-documents-{{ $name }}
  {{- toYaml $volume | nindent 2 }}
{{- end }}
{{- if $values.gitSync.enabled }}
- name: sidenote-git
  emptyDir: {}
{{- end }}
{{- end }}

{{/* The specification of a pod. */}}
{{- define "sidenote.podSpec" -}}
{{- $values := .root.Values }}
serviceAccountName: {{ include "sidenote.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $values.terminationGracePeriodSeconds }}
securityContext: {fsGroup: 65532, fsGroupChangePolicy: OnRootMismatch}
{{- with $values.imagePullSecrets }}
imagePullSecrets:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "sidenote.affinity" . }}
affinity:
{{- . | nindent 2 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- if eq .role "sidecar" }}
initContainers:
{{- with $values.sidecar.initContainers }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- include "sidenote.sidecar.initContainers" .root | nindent 2 }}
containers:
{{- toYaml $values.sidecar.containers | nindent 2 }}
{{- else }}
{{- if $values.gitSync.enabled }}
initContainers:
{{- include "sidenote.gitSync" . | trim | nindent 2 }}
{{- end }}
containers:
  - {{- include "sidenote.container" . | nindent 4 }}
{{- end }}
volumes:
{{- include "sidenote.volumes" . | nindent 2 }}
{{- if eq .role "sidecar" }}
{{- with $values.sidecar.volumes }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Followers of a state folder run where its writer does: what is mapped into memory is shared there only. */}}
{{- define "sidenote.affinity" -}}
{{- $affinity := deepCopy .root.Values.affinity }}
{{- if and (eq .role "follower") (eq .root.Values.central.followers.read "state") }}
{{- $near := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (merge (dict "app.kubernetes.io/component" "writer") (include "sidenote.selector" .root | fromYaml))) }}
{{- $_ := set $affinity "podAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $near)) }}
{{- end }}
{{- if $affinity }}{{ toYaml $affinity }}{{ end }}
{{- end }}

{{/* For other charts: the initContainers of a pod with a sidecar, and its volumes. */}}
{{- define "sidenote.sidecar.initContainers" -}}
{{- if .Values.gitSync.enabled }}
{{- include "sidenote.gitSync" (dict "root" .) | trim }}
{{ end -}}
- {{- include "sidenote.container" (dict "root" . "role" "sidecar") | nindent 2 }}
{{- end }}

{{- define "sidenote.sidecar.volumes" -}}
{{- include "sidenote.volumes" (dict "root" . "role" "sidecar" "state" (include "sidenote.claim" .)) }}
{{- end }}

{{/* The claim that all pods share: of a sidecar or a central. */}}
{{- define "sidenote.claim" -}}
{{- if .Values.state.existingClaim }}{{ .Values.state.existingClaim }}
{{- else if eq .Values.state.type "persistentVolumeClaim" }}{{ include "sidenote.fullname" . }}-state
{{- end }}
{{- end }}

{{/* The metadata of a pod. */}}
{{- define "sidenote.podMetadata" -}}
labels:
{{- include "sidenote.labels" .root | nindent 2 }}
  app.kubernetes.io/component: {{ .role }}
{{- with .root.Values.podLabels }}
{{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.podAnnotations }}
annotations:
{{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A Deployment of a role: a dict as above, and name and replicas. */}}
{{- define "sidenote.deployment" -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  labels:
    {{- include "sidenote.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  {{- if not (and .root.Values.autoscaling.enabled (ne .role "sidecar")) }}
  replicas: {{ .replicas }}
  {{- end }}
  {{- if and .state (eq .role "sidecar") }}
  strategy: {type: Recreate} # the volume is of one pod at a time
  {{- end }}
  selector:
    matchLabels:
      {{- include "sidenote.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  template:
    metadata:
      {{- include "sidenote.podMetadata" . | nindent 6 }}
    spec:
      {{- include "sidenote.podSpec" . | nindent 6 }}
{{- end }}

{{/* A StatefulSet of a role, the same; with state "-" each pod has a claim of its own. */}}
{{- define "sidenote.statefulSet" -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  labels:
    {{- include "sidenote.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  {{- if not (and .root.Values.autoscaling.enabled (eq .role "gateway")) }}
  replicas: {{ .replicas }}
  {{- end }}
  serviceName: {{ .name }}
  podManagementPolicy: Parallel
  selector:
    matchLabels:
      {{- include "sidenote.selector" .root | nindent 6 }}
      app.kubernetes.io/component: {{ .role }}
  template:
    metadata:
      {{- include "sidenote.podMetadata" . | nindent 6 }}
    spec:
      {{- include "sidenote.podSpec" . | nindent 6 }}
  {{- if eq .state "-" }}
  volumeClaimTemplates:
    - metadata: {name: sidenote-state}
      spec:
        {{- include "sidenote.claimSpec" .root | nindent 8 }}
  {{- end }}
{{- end }}

{{- define "sidenote.claimSpec" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.state.storageClassName }}
storageClassName: {{ . }}
{{- end }}
resources: {requests: {storage: {{ .Values.state.size }}}}
{{- end }}
