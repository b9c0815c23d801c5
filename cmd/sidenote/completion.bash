# Completions of {{.Name}} for bash.
_{{.Name}}() {
  local at="" word i cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words=""
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    case $at/$word in
{{- range .Commands}}{{if .Path}}
    {{.Path}}) at=$at/$word ;;
{{- end}}{{end}}
    esac
  done
  case $at:$prev in
{{- range .Commands}}{{$at := .Path}}{{range .Flags}}{{if .Takes}}
  {{$at}}:--{{.Name}}) mapfile -t COMPREPLY < <(compgen {{if .Values}}-W '{{quote (join .Values " ")}}'{{else}}-f{{end}} -- "$cur"); return ;;
{{- end}}{{end}}{{end}}
  esac
  case $at in
{{- range .Commands}}
  '{{.Path}}') words='{{range .Subs}}{{.Name}} {{end}}{{range .Flags}}--{{.Name}} {{end}}' ;;
{{- end}}
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
complete -o default -F _{{.Name}} {{.Name}}
