package remote

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// An sshSession runs git-upload-pack at an ssh server. The connection comes from the dialer that
// refuses private addresses, which the transport of go-git has no place for.
type sshSession struct {
	transport.UploadPackSession // nil; the other methods are not used

	client *ssh.Client
	in     io.WriteCloser
	out    io.Reader
	stop   func() bool
}

func (f *gitFetch) dialSSH(ctx context.Context, to *transport.Endpoint, user, password string) (_ *sshSession, err error) {
	if to.User != "" {
		user = to.User
	}
	config := &ssh.ClientConfig{User: user, Timeout: f.Limits.Idle}
	if config.HostKeyCallback, err = f.hostKeys(); err != nil {
		return nil, err
	}
	if f.Key != nil {
		signer, err := ssh.ParsePrivateKey(f.Key())
		if err != nil {
			return nil, fmt.Errorf("key: %w", err) // it names the kind of problem, not the key
		}
		config.Auth = append(config.Auth, ssh.PublicKeys(signer))
	}
	if password != "" {
		config.Auth = append(config.Auth, ssh.Password(password))
	}
	port := to.Port
	if port == 0 {
		port = 22
	}
	address := net.JoinHostPort(to.Host, strconv.Itoa(port))
	plain, err := f.dialer().DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	conn := &idleConn{Conn: plain, idle: f.Limits.Idle}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, address, config)
	if err != nil {
		stop()
		return nil, errors.Join(err, conn.Close())
	}
	s := &sshSession{client: ssh.NewClient(c, channels, requests), stop: stop}
	if err := s.start(to.Path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start starts the command on the server.
func (s *sshSession) start(path string) error {
	session, err := s.client.NewSession()
	if err != nil {
		return err
	}
	if s.in, err = session.StdinPipe(); err != nil {
		return err
	}
	if s.out, err = session.StdoutPipe(); err != nil {
		return err
	}
	return session.Start("git-upload-pack '" + strings.ReplaceAll(path, "'", `'\''`) + "'")
}

// AdvertisedReferencesContext reads what the server has.
func (s *sshSession) AdvertisedReferencesContext(context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(io.LimitReader(s.out, maxAdvertised))
	if errors.Is(err, packp.ErrEmptyInput) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, transport.ErrRepositoryNotFound
	}
	return refs, err
}

// UploadPack sends a request.
func (s *sshSession) UploadPack(_ context.Context, request *packp.UploadPackRequest) (*packp.UploadPackResponse, error) {
	if err := request.UploadRequest.Encode(s.in); err != nil {
		return nil, err
	}
	if err := request.UploadHaves.Encode(s.in, false); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(s.in).EncodeString("done\n"); err != nil {
		return nil, err
	}
	response := packp.NewUploadPackResponse(request)
	return response, response.Decode(io.NopCloser(s.out))
}

// Close ends the connection.
func (s *sshSession) Close() error {
	s.stop()
	return s.client.Close()
}

// hostKeys returns what checks the key of a server.
func (f *gitFetch) hostKeys() (ssh.HostKeyCallback, error) {
	if f.KnownHosts == nil {
		return f.rememberedKey, nil
	}
	temp, err := f.m.temp() // knownhosts reads files only
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.Write(f.KnownHosts())
	if err = errors.Join(err, temp.Close()); err != nil {
		return nil, err
	}
	return knownhosts.New(temp.Name())
}

// rememberedKey accepts the key that the server had at first.
func (f *gitFetch) rememberedKey(host string, _ net.Addr, key ssh.PublicKey) error {
	now := host + " " + base64.StdEncoding.EncodeToString(key.Marshal())
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	before := f.m.state.HostKey
	if before == "" {
		f.m.state.HostKey = now
		return nil
	}
	if subtle.ConstantTimeCompare([]byte(before), []byte(now)) == 0 {
		return fmt.Errorf("the server %s has another key than before, %s; if that is right, name its keys by known_hosts", host, ssh.FingerprintSHA256(key))
	}
	return nil
}

// An idleConn ends when the other side sends nothing for too long.
type idleConn struct {
	net.Conn
	idle time.Duration
}

func (c *idleConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errIdle
	}
	return n, err
}
