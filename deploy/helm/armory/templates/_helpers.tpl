{{- define "armory.name" -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- end }}
{{- define "armory.labels" -}}
app.kubernetes.io/name: armory
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
