package model

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

func encoded(t testing.TB, format string, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	size := image.Rect(0, 0, width, height)
	switch format {
	case "png":
		err = png.Encode(&b, image.NewNRGBA(size))
	case "paletted":
		err = png.Encode(&b, image.NewPaletted(size, palette.Plan9))
	case "jpeg":
		err = jpeg.Encode(&b, image.NewYCbCr(size, image.YCbCrSubsampleRatio420), nil)
	case "gif":
		err = gif.Encode(&b, image.NewPaletted(size, palette.Plan9), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func dataURL(media string, data []byte) string {
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
}

// padded inserts segments of n bytes in all before the frame of a JPEG.
func padded(jpeg []byte, n int) []byte {
	const most = 0xffff - 2
	out := append([]byte{}, jpeg[:2]...)
	for ; n > 0; n -= most {
		size := min(n, most)
		out = binary.BigEndian.AppendUint16(append(out, 0xff, 0xe1), uint16(size+2))
		out = append(out, make([]byte, size)...)
	}
	return append(out, jpeg[2:]...)
}

// widened sets the width in the header of a PNG.
func widened(png []byte, width uint32) []byte {
	out := append([]byte{}, png...)
	binary.BigEndian.PutUint32(out[16:], width)
	binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
	return out
}

func TestImageSize(t *testing.T) {
	f := func(what, url string, width, height int) {
		t.Helper()
		if w, h := imageSize([]byte(url)); w != width || h != height {
			t.Errorf("%s: size %d×%d, want %d×%d", what, w, h, width, height)
		}
	}
	photo := encoded(t, "jpeg", 1024, 33)
	for _, format := range []string{"png", "paletted", "jpeg", "gif"} {
		f(format, dataURL("image/"+format, encoded(t, format, 640, 481)), 640, 481)
		f(format+" of one pixel", dataURL("image/"+format, encoded(t, format, 1, 1)), 1, 1)
		data := encoded(t, format, 90, 31)
		f(format+" without its end", dataURL("image/"+format, data[:len(data)-12]), 90, 31)
		f("escaped "+format, strings.NewReplacer("/", `\/`, "+", `\u002B`).Replace(dataURL("image/"+format, data)), 90, 31)
		f("half a header of "+format, dataURL("image/"+format, data[:7]), 0, 0)
		f("bad base64 of "+format, dataURL("image/"+format, data[:7])[:30]+"!!!", 0, 0)
	}
	f("png called jpeg", dataURL("image/jpeg", encoded(t, "png", 5, 6)), 5, 6)
	f("parameters", dataURL("IMAGE/png;name=a.png", encoded(t, "png", 5, 6)), 5, 6)
	f("segments before the frame", dataURL("image/jpeg", padded(photo, 200<<10)), 1024, 33)
	f("too many of them", dataURL("image/jpeg", padded(photo, 300<<10)), 0, 0)
	f("a wide png", dataURL("image/png", widened(encoded(t, "png", 1, 1), maxSide)), maxSide, 1)
	f("too wide a png", dataURL("image/png", widened(encoded(t, "png", 1, 1), maxSide+1)), 0, 0)
	f("much too wide a png", dataURL("image/png", widened(encoded(t, "png", 1, 1), 1<<31-1)), 0, 0)
	f("no width", dataURL("image/png", widened(encoded(t, "png", 1, 1), 0)), 0, 0)

	f("lossy webp", "data:image/webp;base64,UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA", 1, 1)
	f("lossless webp", "data:image/webp;base64,UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA==", 1, 1)
	f("webp with alpha", "data:image/webp;base64,UklGRkoAAABXRUJQVlA4WAoAAAAQAAAAAAAAAAAAQUxQSAwAAAARBxAR/Q9ERP8DAABWUDggGAAAABQBAJ0BKgEAAQAAAP4AAA3AAP7mtQAAAA==", 1, 1)
	f("larger lossy webp", dataURL("image/webp", []byte("RIFF....WEBPVP8 ....\x30\x01\x00\x9d\x01\x2a\x80\x07\x38\x44....")), 1920, 1080)
	f("larger lossless webp", dataURL("image/webp", []byte("RIFF....WEBPVP8L....\x2f\x7f\xc7\x0d\x01")), 1920, 1080)
	f("larger extended webp", dataURL("image/webp", []byte("RIFF....WEBPVP8X....\x10\x00\x00\x00\x7f\x07\x00\x37\x04\x00")), 1920, 1080)
	f("webp of no kind", dataURL("image/webp", []byte("RIFF....WEBPVP9 ..................")), 0, 0)
	f("webp without a start code", dataURL("image/webp", []byte("RIFF....WEBPVP8 ....\x30\x01\x00...\x80\x07\x38\x04....")), 0, 0)
	f("a sound", dataURL("image/webp", []byte("RIFF....WAVEfmt ..................")), 0, 0)

	for _, url := range []string{
		"", "data:", "data:image", "data:image/png", "data:image/png;base64", "data:image/png;base64,", "data:image/png;base64,A",
		"https://example.org/a.png", "file-123", "data:image/svg+xml,<svg/>", dataURL("image/svg+xml", []byte("<svg/>")),
		dataURL("text/plain", encoded(t, "png", 2, 2)), strings.Replace(dataURL("image/png", encoded(t, "png", 2, 2)), ";base64", "", 1),
		dataURL("image/png;"+strings.Repeat("x", 200), encoded(t, "png", 2, 2)),
		`data:image/png;base64,\`, `data:image/png;base64,\u00`, `data:image/png;base64,\n`, `data:image/png;base64,iVBORw\u002`,
	} {
		f(url, url, 0, 0)
	}
}

// Endless headers are read up to the limit, with little memory.
func TestImageSizeOfEndlessHeaders(t *testing.T) {
	for what, url := range endless(t) {
		var w, h int
		allocs := testing.AllocsPerRun(2, func() { w, h = imageSize(url) })
		if w != 0 || h != 0 || allocs > 20 {
			t.Errorf("%s: size %d×%d, %v allocations", what, w, h, allocs)
		}
	}
}

// endless returns images whose size comes after 4 MiB of other data.
func endless(t testing.TB) map[string][]byte {
	const far = 4 << 20
	photo := encoded(t, "jpeg", 9, 9)
	return map[string][]byte{
		"segments": []byte(dataURL("image/jpeg", padded(photo, far))),
		"fill":     []byte(dataURL("image/jpeg", append(append(photo[:2:2], bytes.Repeat([]byte{0xff}, far)...), photo[2:]...))),
		"restarts": []byte(dataURL("image/jpeg", append(append(photo[:2:2], bytes.Repeat([]byte{0xff, 0xd0}, far/2)...), photo[2:]...))),
		"escapes":  []byte("data:image/jpeg;base64," + strings.Repeat(`\/`, far)),
		"lines":    []byte("data:image/jpeg;base64," + strings.Repeat("\n", far)),
	}
}

func BenchmarkImageSize(b *testing.B) {
	urls := endless(b)
	urls["png"] = []byte(dataURL("image/png", encoded(b, "png", 1024, 1024)))
	urls["jpeg"] = []byte(dataURL("image/jpeg", encoded(b, "jpeg", 1024, 1024)))
	for what, url := range urls {
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				imageSize(url)
			}
		})
	}
}

// FuzzImageSize looks for headers that are read differently when escaped in JSON, and for sizes
// out of bounds.
func FuzzImageSize(f *testing.F) {
	for _, format := range []string{"png", "paletted", "jpeg", "gif"} {
		f.Add(encoded(f, format, 3, 2))
	}
	f.Add([]byte("RIFF....WEBPVP8X....\x10\x00\x00\x00\x7f\x07\x00\x37\x04\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > imageHeader/2 {
			return
		}
		url := dataURL("image/png", data)
		w, h := imageSize([]byte(url))
		if (w == 0) != (h == 0) || min(w, h) < 0 || max(w, h) > maxSide {
			t.Errorf("size %d×%d", w, h)
		}
		escaped := strings.NewReplacer("/", `\/`, "+", `\u002b`).Replace(url)
		if len(escaped) > imageHeader {
			return
		}
		if ew, eh := imageSize([]byte(escaped)); ew != w || eh != h {
			t.Errorf("size %d×%d, escaped %d×%d", w, h, ew, eh)
		}
		imageSize(data)
	})
}
