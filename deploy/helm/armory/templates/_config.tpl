{{- /* armory.yaml: `config`, and where it is silent what the chart has to know */}}
{{- define "armory.config" -}}
{{- $given := deepCopy (.Values.config | default dict) }}
{{- $server := dict "host" "::" "port" 8080 "drain_delay_s" 5 }}
{{- $ours := dict "server" $server }}
{{- if .Values.metrics.enabled }}{{ $_ := set $server "metrics" (dict "port" (int .Values.metrics.port)) }}
{{- else if not (hasKey (dig "server" "metrics" dict $given) "port") }}   {{- /* else they would be at the port of clients */}}
{{- $_ := set $ours "observability" (dict "metrics" false) }}
{{- end }}
{{- $storage := dict }}
{{- if .Values.postgres.existingSecret }}{{ $_ := set $storage "url" "${ARMORY_POSTGRES_URL}" }}{{ end }}
{{- if .Values.redis.existingSecret }}{{ $_ := set $storage "redis" "${ARMORY_REDIS_URL}" }}{{ end }}
{{- if $storage }}{{ $_ := set $ours "storage" $storage }}{{ end }}
{{- if include "armory.tokenFrom" . }}
{{- $main := dict "token" "${ARMORY_TOKEN}" "scopes" (.Values.token.scopes | default list) }}
{{- $_ := set $ours "security" (dict "tokens" (dict "main" $main)) }}
{{- end }}
{{- toYaml (mergeOverwrite $ours $given) }}
{{- end }}

{{- define "armory.server" -}}
{{- dig "server" dict (include "armory.config" . | fromYaml) | toYaml }}
{{- end }}

{{- define "armory.port" -}}{{ (include "armory.server" . | fromYaml).port | int }}{{- end }}

{{- /* 0: there is none of its own */}}
{{- define "armory.metricsPort" -}}
{{- $config := include "armory.config" . | fromYaml }}
{{- if eq (dig "observability" "metrics" true $config | toString) "false" }}0
{{- else }}{{ dig "metrics" "port" 0 $config.server | default 0 | int }}{{ end }}
{{- end }}

{{- /* server.base_path without a trailing slash */}}
{{- define "armory.base" -}}
{{ (include "armory.server" . | fromYaml).base_path | default "" | trimSuffix "/" }}
{{- end }}

{{- /* What a route passes on: `base_path`, and where clients look for OAuth's metadata of what is below it */}}
{{- define "armory.paths" -}}
{{- $base := include "armory.base" . }}
{{- $paths := list ($base | default "/") }}
{{- if and $base (dig "security" "oauth" "" (include "armory.config" . | fromYaml)) }}
{{- range list "oauth-protected-resource" "oauth-authorization-server" "openid-configuration" }}
{{- $paths = append $paths (printf "/.well-known/%s%s" . $base) }}
{{- end }}
{{- end }}
{{- toYaml $paths }}
{{- end }}

{{- define "armory.configName" -}}
{{- if eq .Values.configReload "live" }}{{ include "armory.fullname" . }}
{{- else }}{{ printf "%s-%s" (include "armory.fullname" .) (include "armory.config" . | sha256sum | trunc 10) }}{{ end }}
{{- end }}

{{- /* What a text of `config` becomes in the pod, as far as the chart can tell: `${NAME:-default}` is the default
       where nothing gives the pod that variable, or what extraEnv says; else the text as it is */}}
{{- define "armory.filled" -}}
{{- $text := .text }}
{{- $name := regexReplaceAll "^\\$\\{(env:)?([A-Za-z_][A-Za-z0-9_-]*):-(.*)\\}$" $text "${2}" }}
{{- $given := or .root.Values.existingSecret .root.Values.extraEnvFrom }}
{{- $filled := ternary $text (regexReplaceAll "^\\$\\{(env:)?([A-Za-z_][A-Za-z0-9_-]*):-(.*)\\}$" $text "${3}") (or (eq $name $text) (not (empty $given))) }}
{{- range .root.Values.extraEnv }}
{{- if eq .name $name }}{{ $filled = .value | default (ternary $text $filled (not (empty .valueFrom))) }}{{ end }}
{{- end }}
{{- $filled }}
{{- end }}

{{- /* seconds that calls may take at the end; what is no number here is known in the pod alone */}}
{{- define "armory.drain" -}}
{{- $server := include "armory.server" . | fromYaml }}
{{- $seconds := 0 }}
{{- range $key, $usual := dict "drain_delay_s" 0 "drain_timeout_s" 30 }}
{{- $value := ternary (get $server $key) $usual (hasKey $server $key) }}
{{- if not (kindIs "string" $value) }}{{ $seconds = addf $seconds $value }}{{ end }}
{{- end }}
{{- $seconds | ceil | int }}
{{- end }}

{{- define "armory.grace" -}}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds }}
{{- add 15 (include "armory.drain" . | int) }}
{{- else }}{{ int .Values.terminationGracePeriodSeconds }}{{ end }}
{{- end }}

{{- /* What would start and then not work is refused here */}}
{{- define "armory.check" -}}
{{- $config := include "armory.config" . | fromYaml }}
{{- $server := $config.server }}
{{- if include "armory.many" . }}
{{- $unset := " (the variable there gets no such value from extraEnv, extraEnvFrom or existingSecret)" }}
{{- $redis := dig "storage" "redis" "" $config | default "" }}
{{- $filled := include "armory.filled" (dict "root" . "text" $redis) }}
{{- if not $filled }}
{{- fail (printf "more than one replica needs Redis, so that sessions find the replica that opened them: give redis.existingSecret or config.storage.redis%s" (ternary $unset "" (ne $redis $filled))) }}
{{- end }}
{{- $url := dig "storage" "url" "" $config | default "" }}
{{- $filled := include "armory.filled" (dict "root" . "text" $url) }}
{{- if not (or (hasPrefix "postgres" $filled) (hasPrefix "${" $filled)) }}
{{- fail (printf "more than one replica needs Postgres, so that accounts and statistics are shared: give postgres.existingSecret or config.storage.url%s" (ternary $unset "" (ne $url $filled))) }}
{{- end }}
{{- if .Values.persistence.enabled }}
{{- fail "persistence is one volume, whose SQLite replicas cannot share: set persistence.enabled to false, Postgres keeps what matters" }}
{{- end }}
{{- end }}
{{- if not (or (include "armory.tokenFrom" .) (include "armory.admits" .)) }}
{{- fail "token.enabled is false, and config.security says of nobody that they may connect: give tokens, api_keys, jwt or oauth there, or allow_anonymous: true" }}
{{- end }}
{{- $given := lookup "v1" "Secret" .Release.Namespace (.Values.existingSecret | default "none") | default dict }}
{{- $brought := eq (include "armory.tokenFrom" .) "environment" }}
{{- range .Values.extraEnv }}{{ if eq .name "ARMORY_TOKEN" }}{{ $brought = false }}{{ end }}{{ end }}
{{- if and $brought .Values.existingSecret (not .Values.extraEnvFrom) $given (not (hasKey ($given.data | default dict) "ARMORY_TOKEN")) }}
{{- fail (printf "the Secret %s has no ARMORY_TOKEN, which clients would send: add it, or set token.enabled to true for a generated one" .Values.existingSecret) }}
{{- end }}
{{- /* a name that is there twice: Kubernetes drops both when one of them goes */}}
{{- $names := list "ARMORY_HOME" "ARMORY_CONFIG" }}
{{- if has (include "armory.tokenFrom" .) (list "generated" "secret") }}{{ $names = append $names "ARMORY_TOKEN" }}{{ end }}
{{- if .Values.postgres.existingSecret }}{{ $names = append $names "ARMORY_POSTGRES_URL" }}{{ end }}
{{- if .Values.redis.existingSecret }}{{ $names = append $names "ARMORY_REDIS_URL" }}{{ end }}
{{- range .Values.extraEnv }}
{{- if has .name $names }}
{{- fail (printf "extraEnv has %s, which the chart sets already, or which is there twice: leave it out" .name) }}
{{- end }}
{{- $names = append $names .name }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "autoscaling.maxReplicas is %d, below autoscaling.minReplicas, %d" (int .maxReplicas) (int .minReplicas)) }}
{{- end }}
{{- $resources := $.Values.resources | default dict }}
{{- if and .enabled (not (or (dig "requests" "cpu" "" $resources) (dig "limits" "cpu" "" $resources))) }}
{{- fail "autoscaling.targetCPU is a part of resources.requests.cpu, which is not there: give it, else the replicas stay as many as they are" }}
{{- end }}
{{- end }}
{{- $name := include "armory.fullname" . }}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
{{- fail (printf "%q cannot be a Service's name, which begins with a letter and has small letters, digits and hyphens: set fullnameOverride" $name) }}
{{- end }}
{{- range $label, $_ := include "armory.selector" . | fromYaml }}
{{- if hasKey ($.Values.podLabels | default dict) $label }}
{{- fail (printf "podLabels.%s: pods are found by it; it cannot be another one" $label) }}
{{- end }}
{{- end }}
{{- if or (hasPrefix "127." $server.host) (has $server.host (list "localhost" "::1")) }}
{{- fail (printf "config.server.host is %s, where neither probes nor the Service reach the pod: leave it out" $server.host) }}
{{- end }}
{{- if not (and (kindIs "float64" $server.port) (gt (int $server.port) 0)) }}
{{- fail (printf "config.server.port is %v; the Service has to know it: write a number from 1 to 65535, or leave it out" $server.port) }}
{{- end }}
{{- range $key := list "drain_delay_s" "drain_timeout_s" }}
{{- $value := get $server $key }}
{{- if and (hasKey $server $key) (not (kindIs "float64" $value)) (kindIs "invalid" $.Values.terminationGracePeriodSeconds) }}
{{- fail (printf "config.server.%s is %v; the grace period follows from it: write a number, or set terminationGracePeriodSeconds" $key $value) }}
{{- end }}
{{- end }}
{{- $drain := include "armory.drain" . | int }}
{{- with .Values.terminationGracePeriodSeconds }}
{{- if lt (int .) $drain }}
{{- fail (printf "terminationGracePeriodSeconds is %d, and calls in flight have %d s (config.server.drain_delay_s + drain_timeout_s): they would be cut off; make one longer or the other shorter" (int .) $drain) }}
{{- end }}
{{- end }}
{{- $metrics := dig "metrics" "port" nil $server }}
{{- if and .Values.metrics.enabled (not (and (kindIs "float64" $metrics) (gt (int $metrics) 0))) }}
{{- fail (printf "config.server.metrics.port is %v, and the Service of the metrics has to know it: write a number from 1 to 65535, or set metrics.enabled to false" $metrics) }}
{{- end }}
{{- if and (kindIs "float64" $metrics) (eq (include "armory.metricsPort" .) (include "armory.port" .)) }}
{{- fail (printf "the metrics need a port of their own, and %v is config.server.port: set metrics.port" $metrics) }}
{{- end }}
{{- if and (eq (include "armory.metricsPort" .) "0") (or .Values.metrics.serviceMonitor.enabled .Values.metrics.prometheusRule.enabled) }}
{{- fail "metrics.serviceMonitor and metrics.prometheusRule have no metrics to go by: leave metrics.enabled and config.observability.metrics on" }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (dig "metrics" "token" "" $server) (not .Values.metrics.serviceMonitor.authorization) }}
{{- fail "config.server.metrics.token is asked of Prometheus, too: give metrics.serviceMonitor.authorization" }}
{{- end }}
{{- if contains "${" ($server.base_path | default "") }}
{{- fail (printf "config.server.base_path is %s; probes and routes have to know it: write the path" $server.base_path) }}
{{- end }}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) }}
{{- fail "ingress.enabled needs ingress.hosts: the names that clients connect to, e.g. [tools.example.org]" }}
{{- end }}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) }}
{{- fail "httpRoute.enabled needs httpRoute.parentRefs: the Gateway that it belongs to, e.g. [{name: public, namespace: gateways}]" }}
{{- end }}
{{- end }}
