package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"time"
)

// A totp makes one-time codes (RFC 6238). A code holds for two steps before and after its own,
// and once: each call gives that of the next step, beginning with the one before now.
type totp struct {
	secret []byte
	step   int64
}

// newTotp reads the secret out of a provisioning URL.
func newTotp(provisioning string) (*totp, error) {
	at, err := url.Parse(provisioning)
	if err != nil {
		return nil, err
	}
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(at.Query().Get("secret"))
	if err != nil {
		return nil, err
	}
	return &totp{secret: secret, step: time.Now().Unix()/30 - 1}, nil
}

func (t *totp) next() string {
	var message [8]byte
	binary.BigEndian.PutUint64(message[:], uint64(t.step))
	t.step++
	sum := hmac.New(sha1.New, t.secret)
	sum.Write(message[:])
	digest := sum.Sum(nil)
	from := digest[len(digest)-1] & 0x0f
	code := binary.BigEndian.Uint32(digest[from:]) & 0x7fffffff
	return fmt.Sprintf("%06d", code%1_000_000)
}
