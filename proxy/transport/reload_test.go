package transport

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/transport/transporttest"
)

// P5 for certificates: new files are used at the next handshake a second later, and unusable ones
// are reported once while the last good ones stay. Half-written, mismatched or missing files cause
// no outage.
func TestReload(t *testing.T) {
	authority := transporttest.NewAuthority()
	first, second := authority.Issue(time.Now().Add(time.Hour), "first.test"), authority.Issue(time.Now().Add(time.Hour), "second.test")
	dir := t.TempDir()
	files := CertificateFiles{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), ClientCA: filepath.Join(dir, "ca.pem")}
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(files.Cert, first.Cert)
	write(files.Key, first.Key)
	write(files.ClientCA, authority.PEM)
	now := time.Unix(1, 0)
	var told []string
	c, err := newTLS(files, func(err error) { told = append(told, fmt.Sprint(err)) }, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	used := func() string {
		t.Helper()
		current, err := c.GetConfigForClient(new(tls.ClientHelloInfo))
		if err != nil || current.ClientAuth != tls.RequireAndVerifyClientCert || current.MinVersion != tls.VersionTLS12 || len(current.NextProtos) != 1 {
			t.Fatalf("%+v, %v", current, err)
		}
		leaf, err := x509.ParseCertificate(current.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return leaf.DNSNames[0]
	}
	for i, step := range []struct {
		change func()
		used   string
		told   string // start of the reported error; "": none
	}{
		{func() {}, "first.test", ""},
		{func() { write(files.Cert, second.Cert) }, "first.test", `"` + files.Cert + `" with key "` + files.Key + `": private key does not match public key`},
		{func() {}, "first.test", ""}, // reported once
		{func() { write(files.Key, second.Key) }, "second.test", "<nil>"},
		{func() { write(files.Key, second.Key[:40]) }, "second.test", `"` + files.Cert + `" with key`},
		{func() { _ = os.Remove(files.Key) }, "second.test", `"` + files.Key + `" cannot be read: no such file`},
		{func() { write(files.Key, second.Key) }, "second.test", ""}, // the old files again
		{func() { _ = os.Remove(files.Key) }, "second.test", `"` + files.Key + `" cannot be read`},
		{func() { write(files.Key, second.Key); write(files.ClientCA, nil) }, "second.test", `"` + files.ClientCA + `" contains no PEM certificate`},
		{func() { write(files.ClientCA, transporttest.NewAuthority().PEM) }, "second.test", "<nil>"},
	} {
		told = nil
		step.change()
		now = now.Add(ReloadInterval - 1)
		if used(); len(told) > 0 {
			t.Errorf("step %d: read within a second: %q", i, told)
		}
		now = now.Add(1)
		got := used()
		if text := strings.Join(told, "; "); got != step.used || !strings.HasPrefix(text, step.told) || step.told == "" && text != "" || len(told) > 1 {
			t.Errorf("step %d: %s is used, told %q", i, got, text)
		}
		if strings.Contains(fmt.Sprint(told), "PRIVATE") {
			t.Errorf("step %d: a key is shown: %q", i, told)
		}
	}
	if _, err := ListenerTLS(CertificateFiles{Cert: files.Cert, Key: files.ClientCA}, nil); err == nil {
		t.Error("a port begins with a certificate without its key")
	}
}
