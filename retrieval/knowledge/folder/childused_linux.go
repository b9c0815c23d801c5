package folder

import (
	"bytes"
	"os"
	"strconv"
)

// used returns how many bytes of memory the process takes that cannot be read from a file
// again. It allocates next to nothing.
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

// dieFirst lets the kernel end this process before the one that serves, should it have to.
func dieFirst() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0o600) }
