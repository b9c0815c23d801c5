# Completions of {{.Name}} for fish.
function __{{.Name}}_at
  set -l at ""
  for word in (commandline -opc)[2..-1]
    switch "$at/$word"
{{- range .Commands}}{{if .Path}}
      case '{{.Path}}'
        set at "$at/$word"
{{- end}}{{end}}
    end
  end
  test "$at" = "$argv[1]"
end
{{- $name := .Name}}
{{- range .Commands}}{{$at := .Path}}{{range .Subs}}
complete -c {{$name}} -n '__{{$name}}_at "{{$at}}"' -f -a '{{fish .Name}}' -d '{{fish .Help}}'
{{- end}}{{range .Flags}}
complete -c {{$name}} -n '__{{$name}}_at "{{$at}}"' -l '{{.Name}}' -d '{{fish .Help}}'{{if .Values}} -x -a '{{fish (join .Values " ")}}'{{else if .Takes}} -r{{end}}
{{- end}}{{end}}
