package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"regexp"

	"github.com/valyala/fasthttp"
)

// ProofPath is where a listener proves that it knows the token of a state folder. A
// command checks that before it sends its own token. ?challenge= is 64 hex digits.
const ProofPath = "/v1/proof"

// A Proved is the answer at ProofPath.
type Proved struct {
	Object string `json:"object"` // "proof"
	Proof  string `json:"proof"`
}

// Proof returns the answer to a challenge by a listener that knows the token of a state
// folder and accepted the connection at an address. It is valid for that address only,
// so a server without the token cannot pass the challenge on to one that has it. The
// token is the key of no other MAC, so the proof cannot serve another purpose.
func Proof(token, challenge string, at net.Addr) (string, error) {
	addr, err := netip.ParseAddrPort(at.String())
	if err != nil {
		return "", fmt.Errorf("prove to be at %s: %w", at, err)
	}
	addr = netip.AddrPortFrom(addr.Addr().Unmap().WithZone(""), addr.Port())
	mac := hmac.New(sha256.New, []byte(token))
	fmt.Fprintf(mac, "sidenote admin port 1\n%s\n%s\n", challenge, addr)
	return hex.EncodeToString(mac.Sum(nil)), nil
}

var challenge = regexp.MustCompile(`^[0-9a-f]{64}$`)

// proof answers a challenge. It uses the local address of the connection: an address in
// the request or in the configuration could be that of another server, to which the
// challenge was passed on.
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
	proof, err := Proof(token, asked, ctx.LocalAddr())
	if err != nil {
		return err
	}
	return writeJSON(ctx, fasthttp.StatusOK, Proved{Object: "proof", Proof: proof})
}
