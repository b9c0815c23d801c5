package admin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/report"
	"sidenote/proxy/tenant"
)

// webhook has the source of a base fetched, as ingest does, for a forge that signs its calls instead of
// sending the admin token. The body is only verified: what is fetched is configured.
func (m management) webhook(ctx context.Context, rc *fasthttp.RequestCtx) error {
	b, err := body(rc)
	if err != nil {
		return err
	}
	if !signedBy(m.WebhookSecret(m.base), &rc.Request.Header, b) {
		return &tenant.APIError{Reason: report.ReasonKey, Message: "The signature is missing or wrong, or the base has no git.webhook_secret. " +
			"GitHub, Gitea and Forgejo sign by X-Hub-Signature-256, GitLab sends the secret as X-Gitlab-Token."}
	}
	run, err := m.Ingest(ctx, m.base, false)
	if err != nil {
		return err
	}
	return writeJSON(rc, fasthttp.StatusAccepted, Accepted{m.base, "knowledge.ingest", run})
}

// signedBy reports whether a request proves to know a secret: by an HMAC of its body
// (https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries) or by sending it
// (https://docs.gitlab.com/user/project/integrations/webhooks/).
func signedBy(secret string, r *fasthttp.RequestHeader, body []byte) bool {
	if secret == "" {
		return false
	}
	if token := r.Peek("X-Gitlab-Token"); len(token) > 0 {
		return sameSecret(secret, token)
	}
	given, ok := strings.CutPrefix(string(r.Peek("X-Hub-Signature-256")), "sha256=")
	signature, err := hex.DecodeString(given)
	if !ok || err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hmac.Equal(signature, mac.Sum(nil))
}
