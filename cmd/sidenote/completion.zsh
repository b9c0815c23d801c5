#compdef {{.Name}}
# Completions of {{.Name}} for zsh.
_{{.Name}}() {
  local at="" word
  local -a items
  for word in "${(@)words[2,CURRENT-1]}"; do
    case $at/$word in
{{- range .Commands}}{{if .Path}}
    {{.Path}}) at=$at/$word ;;
{{- end}}{{end}}
    esac
  done
  case $at:${words[CURRENT-1]} in
{{- range .Commands}}{{$at := .Path}}{{range .Flags}}{{if .Takes}}
  {{$at}}:--{{.Name}}) {{if .Values}}compadd --{{range .Values}} '{{quote .}}'{{end}}{{else}}_files{{end}}; return ;;
{{- end}}{{end}}{{end}}
  esac
  case $at in
{{- range .Commands}}
  '{{.Path}}') items=({{range .Subs}}
    '{{.Name}}:{{quote .Help}}'{{end}}{{range .Flags}}
    '--{{.Name}}:{{quote .Help}}'{{end}}) ;;
{{- end}}
  esac
  _describe {{.Name}} items || _files
}
if [ "$funcstack[1]" = _{{.Name}} ]; then _{{.Name}} "$@"; else compdef _{{.Name}} {{.Name}}; fi
