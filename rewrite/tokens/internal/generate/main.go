// Command generate writes the vocabularies that package tokens embeds, from the
// files of tiktoken-go-loader. Run it by go generate in that package.
//
// A file is a DEFLATE stream of 256 bytes, those of the ids 0 to 255, and six
// planes of one byte for each id from 256 on: the low, middle and high byte of
// the id of its left half, then those of its right half. The halves are the two
// tokens that byte pair encoding merges last when it makes the token, so the
// texts of all tokens and all merges follow from them. As planes they take 30 %
// less than as a compressed list of texts, and need no merging when loaded. An id
// without a token has itself as halves.
package main

import (
	"bytes"
	"compress/flate"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	loader "github.com/pkoukk/tiktoken-go-loader"
)

func main() {
	dir := flag.String("dir", "data", "where the files go")
	flag.Parse()
	// r50k_base is p50k_base without its last 24 tokens, which are runs of spaces.
	for _, name := range []string{"o200k_base", "cl100k_base", "p50k_base"} {
		if err := write(*dir, name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func write(dir, name string) error {
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe(name + ".tiktoken")
	if err != nil {
		return err
	}
	plain, err := pack(ranks)
	if err != nil {
		return err
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write(plain); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".bin"), packed.Bytes(), 0o644)
}

const singles = 256

// pack packs a vocabulary in the format described above. It refuses one whose tokens are not all
// made by merging two earlier ones: package tokens relies on that.
func pack(ranks map[string]int) ([]byte, error) {
	size := slices.Max(slices.Collect(maps.Values(ranks))) + 1
	plain := make([]byte, singles+6*(size-singles))
	for id := singles; id < size; id++ {
		put(plain, id, id, id)
	}
	for token, id := range ranks {
		if len(token) == 1 && id < singles {
			plain[id] = token[0]
			continue
		}
		left, right := halves(token, ranks)
		if left < 0 || left >= id || right >= id || id < singles {
			return nil, fmt.Errorf("token %d, %q, is not made of two earlier ones", id, token)
		}
		put(plain, id, left, right)
	}
	for i := range singles {
		if _, ok := ranks[string([]byte{byte(i)})]; !ok {
			return nil, errors.New("not every byte is a token")
		}
	}
	return plain, nil
}

func put(plain []byte, id, left, right int) {
	size := (len(plain) - singles) / 6
	for k, b := range []int{left, left >> 8, left >> 16, right, right >> 8, right >> 16} {
		plain[singles+k*size+id-singles] = byte(b)
	}
}

// halves returns the last two tokens that are merged into token; -1, -1 if there are not two.
func halves(token string, ranks map[string]int) (left, right int) {
	parts := make([]string, len(token))
	for i := range parts {
		parts[i] = token[i : i+1]
	}
	for len(parts) > 2 {
		at, least := -1, 0
		for i := range len(parts) - 1 {
			if r, ok := ranks[parts[i]+parts[i+1]]; ok && (at < 0 || r < least) {
				at, least = i, r
			}
		}
		if at < 0 {
			return -1, -1
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	if len(parts) < 2 {
		return -1, -1
	}
	return ranks[parts[0]], ranks[parts[1]]
}
