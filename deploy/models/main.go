// Command models makes a model table for models_file from LiteLLM's public list of models:
//
//	go run ./deploy/models >models.yaml
//	go run ./deploy/models model_prices_and_context_window.json >models.yaml
//	go run ./deploy/models litellm-1.80.0-py3-none-any.whl >models.yaml
//
// Without a file it fetches the list, and where that fails it takes the one in the newest
// package litellm, by pip. It writes the date of the list and one row for each name.
package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// listURL is the address of the list.
const listURL = "https://raw.githubusercontent.com/BerriAI/litellm/main/model_prices_and_context_window.json"

// packaged is the path of the list in the package litellm.
const packaged = "litellm/model_prices_and_context_window_backup.json"

func main() {
	date := flag.String("date", time.Now().UTC().Format(time.DateOnly), "the day of the list, if it is not today's")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *date); err != nil {
		fmt.Fprintln(os.Stderr, "models:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, file, date string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return fmt.Errorf("-date %q is not a day, as in 2026-11-28", date)
	}
	list, source, err := read(file)
	if err != nil {
		return err
	}
	rows, err := table(list)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Made by deploy/models; do not edit.\ndate: %s\nsource: %q\nmodels:\n", date, source)
	for _, r := range rows {
		fmt.Fprintf(&out, "  - {match: %q, window: %d", r.name, r.window)
		if r.output > 0 {
			fmt.Fprintf(&out, ", max_output_tokens: %d", r.output)
		}
		out.WriteString("}\n")
	}
	_, err = w.Write(out.Bytes())
	return err
}

// read returns the list and the name of its source.
func read(file string) (list []byte, source string, err error) {
	switch {
	case strings.HasSuffix(file, ".whl"):
		list, err = unpack(file)
		return list, filepath.Base(file), err
	case file != "":
		list, err = os.ReadFile(file)
		return list, filepath.Base(file), err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if list, err = fetch(ctx); err == nil {
		return list, listURL, nil
	}
	fmt.Fprintf(os.Stderr, "models: %v; using pip\n", err)
	dir, err := os.MkdirTemp("", "models-")
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pip := exec.CommandContext(ctx, "python3", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", dir, "litellm")
	pip.Stderr = os.Stderr
	if err := pip.Run(); err != nil {
		return nil, "", fmt.Errorf("pip download litellm: %w", err)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) == 0 {
		return nil, "", errors.Join(err, errors.New("pip downloaded no wheel"))
	}
	return read(wheels[0])
}

func fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, listURL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", listURL, resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, 64<<20))
}

// unpack returns the list in a wheel of the package litellm.
func unpack(wheel string) ([]byte, error) {
	archive, err := zip.OpenReader(wheel)
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }()
	f, err := archive.Open(packaged)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(f)
}

// An entry is a model of one host in the list. Sizes are numbers, except in the entry that
// documents the format.
type entry struct {
	Provider string `json:"litellm_provider"`
	Mode     string `json:"mode"`
	Input    any    `json:"max_input_tokens"`
	Output   any    `json:"max_output_tokens"`
}

// A row is a row of the table.
type row struct {
	name           string
	window, output int // output is 0 if it is unknown or the whole window
}

// answersChats reports whether models of a mode serve chats or completions.
func answersChats(mode string) bool {
	return mode == "chat" || mode == "responses" || mode == "completion"
}

// ownSizes reports whether a provider's sizes are its own, not the model's.
func ownSizes(provider string) bool {
	return slices.Contains([]string{"ollama", "ollama_chat", "github_copilot", "lemonade"}, provider)
}

// owners returns patterns of the names of vendors' own models, by provider. For these the vendor's
// sizes are used; for other models, those of most hosts.
func owners() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"openai":    regexp.MustCompile(`^(gpt|o[0-9]|chatgpt|codex|computer-use)`),
		"anthropic": regexp.MustCompile(`^claude`),
		"gemini":    regexp.MustCompile(`^(gemini|gemma|learnlm)`),
		"mistral":   regexp.MustCompile(`^(open-)?(mi[ns]|mixtral|pixtral|voxtral|codestral|devstral|magistral)`),
		"deepseek":  regexp.MustCompile(`^deepseek`),
		"xai":       regexp.MustCompile(`^grok`),
		"moonshot":  regexp.MustCompile(`^(kimi|moonshot)`),
		"zai":       regexp.MustCompile(`^glm`),
		"dashscope": regexp.MustCompile(`^(qwen|qwq|qvq)`),
		"cohere":    regexp.MustCompile(`^(command|c4ai|aya)`),
	}
}

// divided reports whether a window is one of OpenAI's that the list splits in two: gpt-5 takes
// 272,000 tokens of input plus 128,000 of output.
func divided(window int) bool { return window == 400_000 || window == 1_050_000 }

// table makes the rows of a list, sorted by name.
func table(list []byte) ([]row, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(list, &all); err != nil {
		return nil, fmt.Errorf("is not LiteLLM's list: %w", err)
	}
	hosts := map[string][]row{}  // the sizes of each host, by name
	vendor := map[string][]row{} // the sizes of its vendor
	owners := owners()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var e entry
		if err := json.Unmarshal(all[key], &e); err != nil {
			continue // not a model
		}
		name, size := plain(key), sizes(e)
		if name == "" || size.window == 0 || !answersChats(e.Mode) || ownSizes(e.Provider) {
			continue
		}
		hosts[name] = append(hosts[name], size)
		if own := owners[e.Provider]; own != nil && own.MatchString(name) {
			vendor[name] = append(vendor[name], size)
		}
	}
	if len(hosts) == 0 {
		return nil, errors.New("holds no chat model with a max_input_tokens")
	}
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		said := hosts[name]
		if own := vendor[name]; own != nil {
			said = own
		}
		r := row{name, common(said, func(s row) int { return s.window }), common(said, func(s row) int { return s.output })}
		if r.output >= r.window {
			r.output = 0
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// sizes returns the sizes of an entry; 0 means unknown.
func sizes(e entry) (r row) {
	input, _ := e.Input.(float64)
	output, _ := e.Output.(float64)
	const most = 100_000_000 // the limit in models_file
	if input < 1 || input > most || output < 0 {
		return row{}
	}
	r.window, r.output = int(input), int(output)
	if sum := r.window + r.output; e.Provider == "openai" && divided(sum) {
		r.window = sum
	}
	return r
}

// common returns the most frequent value; of equally frequent ones, the smaller.
func common(said []row, of func(row) int) int {
	times := map[int]int{}
	for _, s := range said {
		times[of(s)]++
	}
	return slices.MaxFunc(slices.Collect(maps.Keys(times)), func(a, b int) int {
		return cmp.Or(cmp.Compare(times[a], times[b]), cmp.Compare(b, a))
	})
}

// plain returns a model's name without what hosts add to it, as Sidenote looks names up: no path,
// no vendor, no variant. "" means that the key is not a model.
func plain(key string) string {
	if strings.HasPrefix(key, "ft:") || strings.HasPrefix(key, "sample_spec") {
		return ""
	}
	name := strings.ToLower(key[strings.LastIndexByte(key, '/')+1:])
	if i := strings.IndexAny(name, ":@"); i >= 0 {
		name = name[:i]
	}
	for {
		vendor, rest, ok := strings.Cut(name, ".")
		if !ok || strings.ContainsAny(vendor, "0123456789") {
			break
		}
		name = rest
	}
	if strings.ContainsAny(name, "*") || !strings.ContainsAny(name, "abcdefghijklmnopqrstuvwxyz") {
		return ""
	}
	return name
}
