package strictyaml

// PartsOf is Parts with another part size.
var PartsOf = parts
