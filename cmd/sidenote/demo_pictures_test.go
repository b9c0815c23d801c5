//go:build pictures

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// maxPicture limits the size of a picture of README.md, in bytes.
const maxPicture = 150_000

// pictures are the pictures of README.md: inspector pages, as high as their content.
var pictures = []struct {
	name   string
	open   string // link to click on /requests, or ""
	height int64
}{
	{"requests", "", 620},
	{"request", `a[href="%s"]`, 1000},
}

// schemes are the colour schemes that browsers may prefer.
var schemes = []string{"light", "dark"}

// TestMakePictures makes the pictures of README.md from the demo, after some questions. Only
// deploy/screenshots.sh builds it.
func TestMakePictures(t *testing.T) {
	dir := os.Getenv("SIDENOTE_PICTURES")
	if dir == "" {
		t.Fatal("SIDENOTE_PICTURES names no folder")
	}
	story, stdout := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := (&demoRun{Serve: true, Stdout: stdout, Stderr: io.Discard, Panicked: func(any, []byte) {}}).Run(ctx)
		ended <- errors.Join(err, stdout.Close())
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	data, pages := addresses(t, story)
	id := ask(t, data)

	browser, end := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox)...) // there is no sandbox for root
	defer end()
	tab, closeTab := chromedp.NewContext(browser)
	defer closeTab()
	for _, p := range pictures {
		for _, scheme := range schemes {
			steps := []chromedp.Action[chromedp.Void]{
				chromedp.EmulateViewport(1000, p.height, chromedp.EmulateScale(1.5)), prefer(scheme), chromedp.Navigate(pages + "/requests"), chromedp.WaitReady("#requests"),
			}
			if p.open != "" {
				steps = append(steps, chromedp.Click(fmt.Sprintf(p.open, "/requests/"+id)), chromedp.WaitReady(".facts"))
			}
			if err := chromedp.Do(tab, steps...); err != nil {
				t.Fatal(err)
			}
			shot, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			small := withPalette(t, shot)
			if len(small) > maxPicture {
				t.Errorf("%s, %s: %d bytes", p.name, scheme, len(small))
			}
			if err := os.WriteFile(filepath.Join(dir, p.name+"-"+scheme+".png"), small, 0o644); err != nil { //nolint:gosec // for everybody
				t.Fatal(err)
			}
		}
	}
}

// prefer makes the browser prefer a colour scheme.
func prefer(scheme string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return chromedp.Void{}, err
	}
}

// addresses reads the demo's output until it has printed its addresses.
func addresses(t *testing.T, story io.Reader) (data, pages string) {
	t.Helper()
	address := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
	for lines := bufio.NewScanner(story); lines.Scan(); {
		switch found := address.FindString(lines.Text()); {
		case found != "" && data == "":
			data = found
		case strings.HasPrefix(lines.Text(), "All requests"):
			return data, found
		}
	}
	t.Fatal("the demo does not say where it is")
	return "", ""
}

// ask sends questions of all kinds, and returns the id of one with much to show.
func ask(t *testing.T, data string) (id string) {
	t.Helper()
	for _, q := range []struct{ text, option string }{
		{"May I work from another country?", ""},
		{"Who pays for my monitor at home?", ""},
		{"How do I get a hotel paid?", ""},
		{"Who won the 1998 world cup?", ""},
		{"Do I get a phone?", "Sidenote-Mode: shadow"},
		{"How many weeks of parental leave do I get?", ""},
		{"Write a haiku.", "Sidenote-Mode: off"},
		{"Is training on paid time?", "Sidenote-Context-Tokens: 400"},
		{"How many weeks of parental leave do I get?", "Sidenote-Context-Tokens: 1000"},
		{"When is my salary paid?", "Sidenote-Mode: everything"},
	} {
		body := fmt.Sprintf(`{"model":"demo","messages":[{"role":"system","content":"You are the HR assistant."},{"role":"user","content":%q}]}`, q.text)
		req, err := http.NewRequestWithContext(t.Context(), "POST", data+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if name, value, _ := strings.Cut(q.option, ": "); name != "" {
			req.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if q.option == "Sidenote-Context-Tokens: 1000" {
			id = resp.Header.Get("Sidenote-Id")
		}
	}
	return id
}

// withPalette writes a picture with its 256 most frequent colours; pages have few more.
func withPalette(t *testing.T, picture []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		t.Fatal(err)
	}
	b := from.Bounds()
	times := map[color.Color]int{}
	for y := range b.Dy() {
		for x := range b.Dx() {
			times[from.At(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(times), func(a, b color.Color) int { return times[b] - times[a] })
	palette := color.Palette(most[:min(len(most), 256)])
	index := map[color.Color]uint8{}
	for c := range times {
		index[c] = uint8(palette.Index(c)) //nolint:gosec // of 256
	}
	to := image.NewPaletted(b, palette)
	for y := range b.Dy() {
		for x := range b.Dx() {
			to.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
