package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"regexp"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/transport"
)

// ProofPath is where a listener proves that it knows the token of a state folder. A command checks
// the proof before it sends its own token. ?challenge= is 64 hex digits.
const ProofPath = "/v1/proof"

// A Proved is the answer at ProofPath.
type Proved struct {
	Object string `json:"object"` // "proof"
	Proof  string `json:"proof"`
}

// Proof returns the answer to a challenge by a listener that knows the token of a state folder. It
// is valid for one connection or listener only, so that a server without the token cannot relay
// the challenge to one that has it: with TLS for the session, whose state is secure, otherwise for
// the address at which the connection was accepted. All Unix sockets have the same proof, so
// clients must check the owner of the socket. The token is not used as a key for any other MAC, so
// the proof cannot serve another purpose.
func Proof(token, challenge string, at net.Addr, secure *tls.ConnectionState) (string, error) {
	end, err := endOf(at, secure)
	if err != nil {
		return "", fmt.Errorf("prove to be at %s: %w", at, err)
	}
	mac := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(mac, "sidenote admin port 1\n%s\n%s\n", challenge, end)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// endOf returns what a proof is bound to. For TLS it is the channel binding "tls-exporter" of RFC
// 9266, which a relay, or a proxy that terminates TLS, cannot have.
func endOf(at net.Addr, secure *tls.ConnectionState) (string, error) {
	if secure != nil {
		session, err := secure.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
		return "tls-exporter " + hex.EncodeToString(session), err
	}
	if _, socket := at.(*net.UnixAddr); socket {
		return "unix", nil
	}
	addr, err := netip.ParseAddrPort(at.String())
	return netip.AddrPortFrom(addr.Addr().Unmap().WithZone(""), addr.Port()).String(), err
}

var challenge = regexp.MustCompile(`^[0-9a-f]{64}$`)

// proof answers a challenge. It uses the local address of the connection: an address in the
// request or in the configuration could be that of another server, to which the challenge was
// relayed.
func (h *Handler) proof(ctx *fasthttp.RequestCtx) error {
	asked := string(ctx.QueryArgs().Peek("challenge"))
	if !challenge.MatchString(asked) {
		return optionError("challenge", "challenge is 64 hex digits, in lower case.")
	}
	if h.StateToken == nil {
		return Refuse(fasthttp.StatusNotFound, "not_found", "There is no state folder to know the token of.")
	}
	token, err := h.StateToken()
	if err != nil {
		return &Refusal{Status: fasthttp.StatusNotFound, Code: "not_found", Message: "The token of the state folder cannot be read.", Err: err}
	}
	proof, err := Proof(token, asked, ctx.LocalAddr(), transport.PeerOf(ctx).TLS())
	if err != nil {
		return Refuse(fasthttp.StatusNotFound, "not_found", "A proof cannot be bound to this connection; use TLS 1.3.")
	}
	return writeJSON(ctx, fasthttp.StatusOK, Proved{Object: "proof", Proof: proof})
}
