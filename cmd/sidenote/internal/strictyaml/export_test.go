package strictyaml

// PartsOf is Parts with parts of another size.
var PartsOf = parts
