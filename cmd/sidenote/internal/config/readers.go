package config

// readers are how files are read. The zero readers read the disk.
type readers struct {
	Read func(path string) ([]byte, error)
	Glob func(pattern string) ([]string, error)
	Seen func(path string) // hears of each file and pattern before it is read; nil: nobody
}

// Functions returns what reads a file, what reads one in the folder of another only, as
// ReadWithin, and what finds the files of a pattern.
func (r readers) Functions() (read func(path string) ([]byte, error), within func(file, path string) ([]byte, error), glob func(pattern string) ([]string, error)) {
	read, within, glob = r.Read, ReadWithin, r.Glob
	if read == nil {
		read = ReadFile
	} else {
		within = func(file, path string) ([]byte, error) {
			if _, _, err := splitPattern(file, path); err != nil {
				return nil, err
			}
			return r.Read(path)
		}
	}
	if glob == nil {
		glob = globFiles
	}
	if r.Seen == nil {
		return read, within, glob
	}
	return r.watched(read, within, glob)
}

// watched lets Seen hear of what functions read.
func (r readers) watched(read func(path string) ([]byte, error), within func(file, path string) ([]byte, error), glob func(pattern string) ([]string, error)) (
	func(path string) ([]byte, error), func(file, path string) ([]byte, error), func(pattern string) ([]string, error)) {
	return func(path string) ([]byte, error) { r.Seen(path); return read(path) },
		func(file, path string) ([]byte, error) { r.Seen(path); return within(file, path) },
		func(pattern string) ([]string, error) { r.Seen(pattern); return glob(pattern) }
}
