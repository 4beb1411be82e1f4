package main

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openziti/edge-api/rest_client_api_client/enroll"
	"github.com/openziti/edge-api/rest_management_api_client/identity"
	"github.com/openziti/edge-api/rest_model"
)

// token is a JWT that the authority signs (ES256), with these claims beside its lifetime.
func (a *authority) token(kid string, claims map[string]any) (string, error) {
	now := time.Now()
	claims["iat"], claims["exp"] = now.Unix(), now.Add(time.Hour).Unix()
	part := func(of any) string {
		raw, err := json.Marshal(of)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	text := part(map[string]string{"alg": "ES256", "kid": kid, "typ": "JWT"}) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	x, y, err := ecdsa.Sign(rand.Reader, a.key, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 64)
	x.FillBytes(signature[:32])
	y.FillBytes(signature[32:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), nil
}

// tryTokenEnrolling enrolls new identities with tokens of a signer: with a
// certificate of the network, and with the tokens alone.
func tryTokenEnrolling(r *report, n *network) {
	name, by := n.name("issuer"), n.authority("issuer")
	issuer := "https://" + name + ".example"
	keep(n, externalJWTSigners(n.admin), &rest_model.ExternalJWTSignerCreate{
		Name: &name, Audience: ptr("weft"), Enabled: ptr(true), Issuer: &issuer, CertPem: ptr(by.pem()), Kid: &name,
		ClaimsProperty: ptr("/sub"), EnrollNameClaimsSelector: "/name", EnrollAttributeClaimsSelector: "/roles",
		EnrollToCertEnabled: true, EnrollToTokenEnabled: true, EnrollAuthPolicyID: n.authPolicy("issuer"),
	})
	run := func(who string, body *rest_model.TokenEnrollmentRequest) (*rest_model.EnrollmentCerts, error) {
		token, err := by.token(name, map[string]any{
			"iss": issuer, "aud": "weft", "sub": who, "name": who, "roles": n.names("for-issuer"),
		})
		if err != nil {
			return nil, err
		}
		asked := enroll.NewEnrollTokenParams().WithAuthorization("Bearer " + token).WithTokenEnrollmentRequest(body)
		answer, err := n.client("").Enroll.EnrollToken(asked)
		if err != nil {
			return nil, err
		}
		return answer.Payload.Data, nil
	}
	// is finds the identity that a token made, and has it deleted at the end.
	is := func(who string) (string, error) {
		filter := ptr(fmt.Sprintf("externalId = %q", who))
		answer, err := n.admin.Identity.ListIdentities(identity.NewListIdentitiesParams().WithFilter(filter), nil)
		if err != nil {
			return "", err
		}
		if len(answer.Payload.Data) != 1 {
			return "", fmt.Errorf("there are %d", len(answer.Payload.Data))
		}
		found := answer.Payload.Data[0]
		n.made = append(n.made, func() error { return identities(n.admin).remove(*found.ID) })
		return *found.ID, shown(map[string]any{"name": who, "roleAttributes": n.names("for-issuer")}, found)
	}
	r.check("with a signer's token, to a certificate", func() error {
		who, key := n.name("token-to-cert"), newKey()
		certs, err := run(who, &rest_model.TokenEnrollmentRequest{ClientCsr: request(who, key)})
		if err != nil {
			return err
		}
		id, err := is(who)
		if err != nil {
			return err
		}
		m := &member{n: n, id: id, name: who}
		m.keys = append(m.keys, pair(certs.Cert, key))
		return m.login()
	})
	r.check("with a signer's token, to tokens", func() error {
		who := n.name("token-to-token")
		if _, err := run(who, &rest_model.TokenEnrollmentRequest{}); err != nil {
			return err
		}
		_, err := is(who)
		_, again := run(who, &rest_model.TokenEnrollmentRequest{})
		return errors.Join(err, refused(again, 409, "ENROLLMENT_IDENTITY_ALREADY_ENROLLED", ""))
	})
	r.check("with a token of nobody", func() error {
		token, err := n.authority("unknown").token(name, map[string]any{"iss": issuer, "aud": "weft", "sub": "x", "name": "x"})
		if err != nil {
			return err
		}
		asked := enroll.NewEnrollTokenParams().WithAuthorization("Bearer " + token).WithTokenEnrollmentRequest(&rest_model.TokenEnrollmentRequest{})
		_, err = n.client("").Enroll.EnrollToken(asked)
		return refused(err, 400, "INVALID_ENROLLMENT_TOKEN", "")
	})
}
