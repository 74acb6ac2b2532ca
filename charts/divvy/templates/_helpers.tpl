{{/* Whether cards are shared, as a word or nothing: by either of the two values that people know. */}}
{{- define "divvy.sharing" -}}
{{- /* Globals are for other charts too, so the schema knows them not all. */ -}}
{{- range $name, $_ := .Values.global -}}
{{- if and (ne $name "gpuSharing") (regexMatch "(?i)^(g(pu?|up?)[-_.]?s|g.{0,4}haring$)" $name) -}}
{{- fail (printf "'%s' is no value of global; meant is 'gpuSharing'" $name) -}}
{{- end -}}
{{- end -}}
{{- if kindIs "invalid" .Values.gpuSharing.enabled -}}
{{- if .Values.global.gpuSharing }}yes{{ end -}}
{{- else if .Values.gpuSharing.enabled }}yes{{ end -}}
{{- end -}}

{{- define "divvy.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Of a ServiceAccount, so that pods that divvy makes have them too. */}}
{{- define "divvy.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
- {name: {{ . }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* The names of divvy's schedulers, as CEL writes a list. */}}
{{- define "divvy.schedulers" -}}
{{- range $i, $name := .Values.schedulerNames }}{{ if $i }}, {{ end }}'{{ $name }}'{{ end -}}
{{- end -}}

{{/* The namespaces whose pods may see all cards. */}}
{{- define "divvy.gpuSystem" -}}
{{- $all := list "kube-system" .Release.Namespace "kai-resource-reservation" -}}
{{- join ", " (uniq (concat $all .Values.gpuSystemNamespaces)) -}}
{{- end -}}

{{/* Whether a pod's runtime class may be NVIDIA's runtime, in CEL: by its name, or because shares get it. */}}
{{- define "divvy.gpuRuntime" -}}
object.spec.?runtimeClassName.orValue('').startsWith('nvidia')
{{- if not (hasPrefix "nvidia" .Values.runtimeClass.name) }} || object.spec.?runtimeClassName.orValue('') == '{{ .Values.runtimeClass.name }}'{{ end -}}
{{- end -}}

{{- define "divvy.gates" -}}
{{- $all := list -}}
{{- range $name, $on := .Values.featureGates }}{{ $all = append $all (printf "%s=%t" $name $on) }}{{ end -}}
{{- join "," $all -}}
{{- end -}}

{{/* Whether isolation levels are told apart, or their policy is asked for. */}}
{{- define "divvy.levels" -}}
{{- if or .Values.policies.isolation (and .Values.featureGates .Values.featureGates.GPUIsolationLevel) }}yes{{ end -}}
{{- end -}}

{{/* The ConfigMap that says how to place, as NAMESPACE/NAME, or nothing. */}}
{{- define "divvy.configMap" -}}
{{- with .Values.scheduling.configMap -}}
{{- if contains "/" . }}{{ . }}{{ else }}{{ $.Release.Namespace }}/{{ . }}{{ end -}}
{{- end -}}
{{- end -}}

{{/* The config file: what of it is given as values. */}}
{{- define "divvy.config" -}}
{{- $config := dict -}}
{{- $scheduling := dict -}}
{{- with .Values.scheduling.strategy }}{{ $_ := set $scheduling "strategy" . }}{{ end -}}
{{- $binpacking := dict -}}
{{- with .Values.scheduling.binpacking.weights }}{{ $_ := set $binpacking "weights" . }}{{ end -}}
{{- with .Values.scheduling.binpacking.thresholds -}}
{{- /* `helm --set` makes a text of 0.8. */ -}}
{{- $numbers := dict -}}
{{- range $name, $number := . }}{{ $_ := set $numbers $name (float64 $number) }}{{ end -}}
{{- $_ := set $binpacking "thresholds" $numbers -}}
{{- end -}}
{{- if $binpacking }}{{ $_ := set $scheduling "binpacking" $binpacking }}{{ end -}}
{{- if $scheduling }}{{ $_ := set $config "scheduling" $scheduling }}{{ end -}}
{{- with .Values.gpuSharing.strategy }}{{ $_ := set $config "gpuSharing" (dict "strategy" .) }}{{ end -}}
{{- with .Values.isolation.providers }}{{ $_ := set $config "isolationProviders" . }}{{ end -}}
{{- if $config }}{{ toYaml $config }}{{ end -}}
{{- end -}}
