package document

// PartsOf is Parts with parts of another size.
var PartsOf = parts
