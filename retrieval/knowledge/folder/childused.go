package folder

import "runtime/metrics"

// runtimeUsed returns the memory used by the runtime, in bytes.
func runtimeUsed() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64() - s[1].Value.Uint64()) //nolint:gosec // it is less than memory has bytes
}
