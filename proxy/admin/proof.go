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

// ProofPath is where a listener proves that it knows the token of a state folder, so
// that a command shows its own token to no other. ?challenge= is 64 hex digits.
const ProofPath = "/v1/proof"

// A Proved is the answer there.
type Proved struct {
	Object string `json:"object"` // "proof"
	Proof  string `json:"proof"`
}

// Proof is what knows the token of a state folder answers to a challenge on a
// connection that it took at an address. It is of no use at another address, so nobody
// can pass the challenge on to somebody who knows; and the token is no key to anything
// else, so it answers no other question.
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

// proof answers a challenge. The address is the one that the connection came to: what
// the caller says of it, and what the configuration does, could be passed on.
func (h *Handler) proof(ctx *fasthttp.RequestCtx) error {
	asked := string(ctx.QueryArgs().Peek("challenge"))
	if !challenge.MatchString(asked) {
		return option("challenge", "challenge is 64 hex digits, in lower case.")
	}
	if h.StateToken == nil {
		return &Refusal{Status: fasthttp.StatusNotFound, Code: "not_found", Message: "There is no state folder to know the token of."}
	}
	token, err := h.StateToken()
	if err != nil {
		return &Refusal{Status: fasthttp.StatusNotFound, Code: "not_found", Message: "The token of the state folder cannot be read.", Err: err}
	}
	proof, err := Proof(token, asked, ctx.LocalAddr())
	if err != nil {
		return err
	}
	return answer(ctx, fasthttp.StatusOK, Proved{Object: "proof", Proof: proof})
}
