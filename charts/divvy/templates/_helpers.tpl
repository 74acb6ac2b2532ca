{{/* Whether cards are shared, as a word or nothing: by either of the two values that people know. */}}
{{- define "divvy.sharing" -}}
{{- /* Globals are for other charts too, so the schema knows them not all. */ -}}
{{- range $name, $_ := .Values.global -}}
{{- if and (ne $name "gpuSharing") (regexMatch "(?i)^(g(pu?|up?)[-_.]?s[a-z]{3,5}ng|g.{0,4}haring)$" $name) -}}
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

{{/* The isolation providers: those of the values, or the one that divvy knows without any. */}}
{{- define "divvy.providers" -}}
{{- if .Values.isolation.providers -}}
{{ toYaml .Values.isolation.providers }}
{{- else -}}
- name: HAMi-core
  library: /usr/local/vgpu
  emptyFiles: [/overrideEnv]
  freshFiles: [/tmp/cudevshr.cache]
  environment:
    ACTIVE_OOM_KILLER: "true"
    CUDA_DEVICE_MEMORY_SHARED_CACHE: /tmp/cudevshr.cache
    CUDA_DISABLE_CONTROL: "false"
    CUDA_OVERSUBSCRIBE: "false"
    CUDA_REDIRECT: ""
    CUDA_TASK_PRIORITY: "1"
    GPU_CORE_UTILIZATION_POLICY: default
{{- range $card := until 16 }}
    CUDA_DEVICE_MEMORY_LIMIT_{{ $card }}: ""
    CUDA_DEVICE_SM_LIMIT_{{ $card }}: ""
{{- end }}
{{- end -}}
{{- end -}}

{{/* Of each provider some of its files, with a slash behind them, as CEL writes it: those that are mounted or those
that are fresh. */}}
{{- define "divvy.files" -}}
{{- $of := dict -}}
{{- $kind := .kind -}}
{{- range include "divvy.providers" .root | fromYamlArray -}}
{{- $files := .freshFiles | default list -}}
{{- if eq $kind "mounted" -}}
{{- $files = .emptyFiles | default list -}}
{{- with .library -}}{{- $files = concat (list . "/etc/ld.so.preload") $files -}}{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range $files -}}{{- $names = append $names (printf "%s/" (clean .)) -}}{{- end -}}
{{- $_ := set $of .name $names -}}
{{- end -}}
{{- toJson $of -}}
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
