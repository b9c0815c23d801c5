package folder

import (
	"bytes"
	"os"
	"strconv"
)

// used returns the memory of the process that is not backed by files, in bytes. It allocates
// almost nothing.
func used() int64 {
	var line [128]byte
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		return runtimeUsed()
	}
	defer func() { _ = f.Close() }()
	n, _ := f.Read(line[:])
	fields := bytes.Fields(line[:n])
	if len(fields) < 3 {
		return runtimeUsed()
	}
	resident, err := strconv.ParseInt(string(fields[1]), 10, 64)
	shared, failed := strconv.ParseInt(string(fields[2]), 10, 64)
	if err != nil || failed != nil {
		return runtimeUsed()
	}
	return (resident - shared) * int64(os.Getpagesize())
}

// dieFirst makes the kernel's OOM killer end this process before its parent.
func dieFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600) }
