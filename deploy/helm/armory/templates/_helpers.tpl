{{- define "armory.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* Releases may be called like `my.armory`, Services may not */}}
{{- define "armory.fullname" -}}
{{- $name := include "armory.name" . }}
{{- $full := .Values.fullnameOverride }}
{{- if not $full }}
{{- $full = ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- end }}
{{- regexReplaceAll "-+$" ($full | replace "." "-" | trunc 50) "" }}
{{- end }}

{{- define "armory.selector" -}}
app.kubernetes.io/name: {{ include "armory.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "armory.labels" -}}
{{ include "armory.selector" . }}
{{ include "armory.versions" . }}
{{- end }}

{{- /* Of pods: they are not replaced because the chart alone has another version */}}
{{- define "armory.running" -}}
{{- $version := .Values.image.tag | default .Chart.AppVersion | trunc 63 }}
app.kubernetes.io/version: {{ regexReplaceAll "^[^A-Za-z0-9]+|[^A-Za-z0-9]+$" $version "" | quote }}
app.kubernetes.io/part-of: armory
{{- end }}

{{- define "armory.versions" -}}
{{ include "armory.running" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- /* Labels of the values, which win, and the chart's, each once: several tools refuse a key that is there twice */}}
{{- define "armory.labelled" -}}
{{- $labels := deepCopy (first . | default dict) }}
{{- range rest . }}{{ $labels = merge $labels (fromYaml .) }}{{ end }}
{{- toYaml $labels }}
{{- end }}

{{- define "armory.image" -}}
{{- $image := .Values.image }}
{{- if $image.digest }}{{ printf "%s@%s" $image.repository $image.digest }}
{{- else }}{{ printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) }}{{ end }}
{{- end }}

{{- define "armory.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "armory.fullname" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "armory.many" -}}
{{- if or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}true{{ end }}
{{- end }}

{{- define "armory.claim" -}}
{{ .Values.persistence.existingClaim | default (include "armory.fullname" .) }}
{{- end }}

{{- /* Whether `config` says who may connect */}}
{{- define "armory.admits" -}}
{{- $security := dig "security" dict (.Values.config | default dict) | default dict }}
{{- if or $security.tokens $security.api_keys $security.jwt $security.oauth (eq (toString $security.allow_anonymous) "true") }}true{{ end }}
{{- end }}

{{- /* Where the token of security.tokens.main stands: "generated", "secret", "environment"; empty: there is none */}}
{{- define "armory.tokenFrom" -}}
{{- $own := include "armory.admits" . }}
{{- $enabled := toString .Values.token.enabled }}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (not $own)) }}
{{- $secrets := compact (list .Values.existingSecret) }}
{{- range .Values.extraEnvFrom }}{{ $secrets = append $secrets (dig "secretRef" "name" "" .) | compact }}{{ end }}
{{- $named := false }}
{{- range .Values.extraEnv }}{{ if eq .name "ARMORY_TOKEN" }}{{ $named = true }}{{ end }}{{ end }}
{{- if .Values.token.existingSecret }}secret
{{- else if or $named (and $secrets (eq $enabled "auto")) }}environment
{{- else }}generated
{{- end }}
{{- end }}
{{- end }}

{{- define "armory.tokenSecret" -}}
{{ .Values.token.existingSecret | default (printf "%s-token" (include "armory.fullname" .)) }}
{{- end }}

{{- define "armory.tokenKey" -}}
{{- if .Values.token.existingSecret }}{{ .Values.token.key }}{{ else }}ARMORY_TOKEN{{ end }}
{{- end }}

{{- /* The generated token: the one that is in the cluster, else a new one */}}
{{- define "armory.token" -}}
{{- $there := lookup "v1" "Secret" .Release.Namespace (include "armory.tokenSecret" .) | default dict }}
{{- $found := dig "data" "ARMORY_TOKEN" "" $there }}
{{- if $found }}{{ $found | b64dec }}{{ else }}{{ randAlphaNum 40 }}{{ end }}
{{- end }}

{{- /* The revision that generated the token: pods are replaced with it. Of earlier charts: empty */}}
{{- define "armory.tokenMade" -}}
{{- $there := lookup "v1" "Secret" .Release.Namespace (include "armory.tokenSecret" .) | default dict }}
{{- if dig "data" "ARMORY_TOKEN" "" $there }}{{ dig "metadata" "annotations" "armory.dev/made-by-revision" "" $there }}
{{- else }}{{ .Release.Revision }}{{ end }}
{{- end }}

{{- /* What changes when a Secret that the chart does not own changes; no hash, since passwords may be short */}}
{{- define "armory.secretVersions" -}}
{{- $names := list .Values.existingSecret .Values.token.existingSecret .Values.postgres.existingSecret .Values.redis.existingSecret }}
{{- range .Values.extraEnvFrom }}{{ $names = append $names (dig "secretRef" "name" "" .) }}{{ end }}
{{- range .Values.extraEnv }}{{ $names = append $names (dig "valueFrom" "secretKeyRef" "name" "" .) }}{{ end }}
{{- range .Values.extraVolumes }}
{{- $names = append $names (dig "secret" "secretName" "" .) }}
{{- range dig "projected" "sources" list . }}{{ $names = append $names (dig "secret" "name" "" .) }}{{ end }}
{{- end }}
{{- include "armory.objectVersions" (dict "root" . "kind" "Secret" "names" $names) }}
{{- end }}

{{- /* The same of ConfigMaps */}}
{{- define "armory.configMapVersions" -}}
{{- $names := list }}
{{- range .Values.extraEnvFrom }}{{ $names = append $names (dig "configMapRef" "name" "" .) }}{{ end }}
{{- range .Values.extraEnv }}{{ $names = append $names (dig "valueFrom" "configMapKeyRef" "name" "" .) }}{{ end }}
{{- range .Values.extraVolumes }}
{{- $names = append $names (dig "configMap" "name" "" .) }}
{{- range dig "projected" "sources" list . }}{{ $names = append $names (dig "configMap" "name" "" .) }}{{ end }}
{{- end }}
{{- include "armory.objectVersions" (dict "root" . "kind" "ConfigMap" "names" $names) }}
{{- end }}

{{- define "armory.objectVersions" -}}
{{- $of := . }}
{{- range .names | compact | uniq }}
{{- $there := lookup "v1" $of.kind $of.root.Release.Namespace . | default dict }}
{{- printf "%s=%s " . (dig "metadata" "resourceVersion" "" $there) }}
{{- end }}
{{- end }}
