{{- define "armory.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}
{{- define "armory.labels" -}}
app.kubernetes.io/name: armory
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- /* server.base_path without a trailing slash: the probes and the other replicas ask below it */}}
{{- define "armory.base" -}}{{ dig "server" "base_path" "" .Values.config | trimSuffix "/" }}{{- end }}
{{- /* What would start and then not work is refused here */}}
{{- define "armory.check" -}}
{{- $many := or .Values.autoscaling.enabled (gt (int .Values.replicas) 1) }}
{{- if and $many (not (dig "storage" "redis" "" .Values.config)) }}
{{- fail "more than one replica needs config.storage.redis: sessions have to find the replica that opened them" }}
{{- end }}
{{- if and $many (not (hasPrefix "postgres" (dig "storage" "url" "" .Values.config))) }}
{{- fail "more than one replica needs a Postgres config.storage.url: accounts and statistics are shared" }}
{{- end }}
{{- if and $many .Values.persistence.enabled }}
{{- fail "persistence is one ReadWriteOnce volume, which several replicas cannot share; leave it off" }}
{{- end }}
{{- if and (contains "${ARMORY_TOKEN}" (toYaml .Values.config)) (not .Values.existingSecret) (not .Values.extraEnv) }}
{{- fail "config reads ${ARMORY_TOKEN}: name a Secret that has it as existingSecret, or give other security.tokens" }}
{{- end }}
{{- end }}
