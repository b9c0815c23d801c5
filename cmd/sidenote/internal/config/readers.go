package config

// readers are the functions that read files. The zero readers read the disk.
type readers struct {
	Read func(path string) ([]byte, error)
	Glob func(pattern string) ([]string, error)
	Seen func(path string) // told of each file and pattern before it is read; may be nil
}

// Functions returns functions to read a file, to read a file only within the folder of another (as
// ReadWithin does), and to find the files of a pattern.
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

// watched makes the functions report to Seen what they read.
func (r readers) watched(read func(path string) ([]byte, error), within func(file, path string) ([]byte, error), glob func(pattern string) ([]string, error)) (
	func(path string) ([]byte, error), func(file, path string) ([]byte, error), func(pattern string) ([]string, error)) {
	return func(path string) ([]byte, error) { r.Seen(path); return read(path) },
		func(file, path string) ([]byte, error) { r.Seen(path); return within(file, path) },
		func(pattern string) ([]string, error) { r.Seen(pattern); return glob(pattern) }
}
